"""Equality of objects."""

from __future__ import annotations

from flowref.laws.common.outcomes import flags
from flowref.model import EXACT, GIVEN, Batch, Residual, Unsupported, law
from flowref.model.abilities import Living
from flowref.model.steps import Compare


@law(
    "effects/construction[equality]",
    key="conduct/equality",
    tolerance=EXACT,
    effort=1,
    size=1,
    scales=GIVEN,
    source="torch.distributions.kl compares transforms to decide whether the divergence of their bases is that of the whole",
)
def equality(flow: Living, batch: Batch) -> Residual:
    """An object equals nothing of another behaviour: neither a bare object, nor both the
    exponential and the sigmoid of torch.distributions.
    """
    (seen,) = flow.play([Compare()])
    if not seen.own:
        raise Unsupported("it equals only itself, as objects do", blocked=False)
    wrong = len(seen.strangers) > 1 or "a bare object" in seen.strangers
    return flags(wrong, len(batch.x), f"it is equal to {' and to '.join(seen.strangers)}")
