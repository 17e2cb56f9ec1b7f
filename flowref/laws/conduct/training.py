"""An object can be trained by its own log-likelihood."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.amounts import trained_by
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.requirements import has_parameters, repeatable
from flowref.laws.conduct.state import not_fixed
from flowref.model import EXACT, GIVEN, Batch, Residual, Unsupported, law
from flowref.model.abilities import Living
from flowref.model.steps import Fit, State

# Operations of a round trip up to which training is affordable.
AFFORDABLE = 2500
TRIED = "30 steps of Adam of size 0.01 on batches of 64 points with two modes"


@law(
    "state/trains",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=GIVEN,
    applies=not_fixed & has_parameters & repeatable,
    source="a state reached by an object's own gradients is valid",
)
def trains(flow: Living, batch: Batch) -> Residual:
    """Thirty steps of Adam on its own log-likelihood have finite losses and gradients, and leave
    every parameter and buffer finite that was so before (bounds of constraints may be infinite).
    """
    operations = trained_by(flow, "log_prob" if "log_prob" in flow.calls else flow.normalizing)
    if operations > AFFORDABLE:
        raise Unsupported(f"its calls take {operations} operations: training takes long")
    life, error = attempt(flow.play, [State(), Fit(), State()])
    if error:
        raise Unsupported(f"it refuses to be trained here ({error})")
    before, fitted, after = life
    if not fitted.losses:
        raise Unsupported(f"it refuses to be trained here ({fitted.error or 'no step was made'})")
    if fitted.error.startswith("the loss"):
        # Steps may be too large for a steep loss; other laws judge the state before.
        raise Unsupported(f"{TRIED}: {fitted.error}")
    broken = [
        name
        for name, values in after.items()
        if np.issubdtype(values.dtype, np.floating)
        and not np.isfinite(values).all()
        and np.isfinite(before.get(name, 0.0)).all()
    ]
    wrong = fitted.error or (f"{broken[0]} is not finite" if broken else "")
    return flags(bool(wrong), len(batch.x), f"{TRIED}: {wrong}")
