"""Several copies of a distribution in one batch."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.requirements import exact_density
from flowref.model import VOLUME, Batch, Residual, Undecidable, Unsupported, law
from flowref.model.abilities import Density, Expanding

# How torch.distributions refuses a point, which it was asked to check for.
OUTSIDE = "ValueError: Expected value argument"


class ExpandingDensity(Density, Expanding, Protocol):
    """A density that can be expanded."""


@law(
    "density/expanded",
    nats=True,
    about=VOLUME,
    points="data",
    local=False,
    effort=2,
    size=7,
    scales=(0.0, 0.3),
    applies=exact_density,
    source="torch.distributions: expand returns the same distribution with its batch dimensions expanded",
)
def expanded(flow: ExpandingDensity, batch: Batch) -> Residual:
    """Each of the copies that a distribution is expanded to has the log-density of the distribution,
    and takes the points that it takes.
    """
    several, error = attempt(flow.expanded, batch.x, batch.context)
    rows = len(batch.x)
    plain, refused = attempt(flow.log_prob, batch.x, batch.context)
    if refused:
        raise Undecidable(f"it refuses these points ({refused})")
    density = np.asarray(plain, np.float64).reshape(rows)
    if error.startswith(OUTSIDE) and finite_rows(density).all():
        note = f"two copies refuse what the distribution takes: {error}"
        return Residual(np.full(rows, np.inf), note=note)
    if error:
        raise Unsupported(f"it refuses to be expanded ({error})", waits=False)
    several = np.asarray(several, np.float64)
    if several.shape != (rows, 2):
        note = f"two copies give {several.shape} log-densities for {rows} points"
        return Residual(np.full(rows, np.inf), note=note)
    return Residual(
        several - density[:, None],
        scale=4 + np.nan_to_num(np.abs(density), posinf=0.0),
        decidable=finite_rows(density),
        observed={"log p(x)": density, "of the first copy": several[:, 0]},
    )
