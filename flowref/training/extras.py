"""The packages that training needs besides those of flowref, imported when they are used, and the
errors of training.
"""

from __future__ import annotations

import importlib
from typing import Any

from flowref.model import FlowrefError

# Module -> the distribution that brings it.
DISTRIBUTIONS = {
    "torch": "torch",
    "sklearn": "scikit-learn",
    "matplotlib": "matplotlib",
    "safetensors": "safetensors",
    "PIL": "Pillow",
}


class RunError(FlowrefError):
    """A run that cannot be read, or gone on with."""


def package(name: str) -> Any:
    """A module of an optional package; `FlowrefError` in one sentence, which names the extra, where
    it is missing.
    """
    top = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != top:
            raise
        raise FlowrefError(
            f"{DISTRIBUTIONS[top]} is not installed, and training needs it; `pip install "
            "'flowref[training]'` installs it"
        ) from None
