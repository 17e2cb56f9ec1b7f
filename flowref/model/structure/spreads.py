"""Measures of spread that layers divide by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DEVIATION, ROOT_MEAN_SQUARE = "standard deviation", "root mean square"
# For values about their mean, `(channels, values)`; homogeneous of degree one and invariant to
# shifts.
SPREADS: Mapping[str, Callable[[Array], Array]] = {
    DEVIATION: lambda rows: np.asarray(rows.std(1)),
    "mean absolute deviation": lambda rows: np.asarray(
        np.abs(rows - rows.mean(1, keepdims=True)).mean(1)
    ),
    "range": lambda rows: np.asarray(np.ptp(rows, axis=1)),
}
