"""The noise of a trace estimate: one for a whole solve, and another for each."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.bijection.log_det_estimate import estimator
from flowref.laws.common.outcomes import flags
from flowref.model import ADVICE, EXACT, GIVEN, Batch, Residual, Unsupported, law, requires
from flowref.model.abilities import Bijection, Flow, Living, offers
from flowref.model.steps import Eval, Run

# From this share on of evaluations between which noise was drawn, it is drawn for each.
SHARE = 0.3
SOURCE = "Grathwohl et al., FFJORD (arXiv:1810.01367), section 3.1"


class RepeatableBijection(Bijection, Living, Protocol):
    """A map that is called more than once."""


@requires("it has no map that is called more than once")
def solves(flow: Flow) -> bool:
    """Its calls can be looked at, or the beginning of one that was cut short."""
    return bool(flow.facts.unended) or offers(flow, RepeatableBijection)


@law(
    "random/once-per-solve",
    key="continuous/noise-once-per-solve",
    version=3,
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=7,
    scales=GIVEN,
    local=False,
    applies=estimator & solves,
    source=f"{SOURCE}: with fresh noise at every evaluation there is no differential equation to solve, and "
    "no step of a solver has the order that its error estimate counts on",
)
def noise_once_per_solve(flow: Flow, batch: Batch) -> Residual:
    """A map of values that are not random, with a log-det that is estimated by noise, draws none
    between the evaluations of its field: one draw lasts for a whole solve.

    An advice: steps of fixed length have the same mean with fresh noise, which those that an error
    estimate chooses have not, and may never end.
    """
    if offers(flow, RepeatableBijection):
        deterministic(flow, batch)
        redrawn, cut = flow.forward.observe(batch.x, batch.context).redrawn, ""
    else:
        redrawn = max(call.redrawn for call in flow.facts.cost.calls.values())
        cut = f"; {flow.facts.unended}"
    return flags(
        redrawn > SHARE,
        len(batch.x),
        f"for {redrawn:.2g} of the evaluations of its field noise is drawn anew{cut}",
    )


@law(
    "random/seeded[log-det]",
    key="continuous/noise-of-its-own",
    tolerance=EXACT,
    effort=1,
    size=7,
    scales=GIVEN,
    local=False,
    applies=estimator,
    source=f"{SOURCE}: the noise is drawn anew for each solve, or the mean of estimates is no trace",
)
def noise_of_its_own(flow: RepeatableBijection, batch: Batch) -> Residual:
    """A log-det that is estimated by noise is estimated by other noise in the next call of the same
    object.
    """
    first, second = (estimates(flow, batch, draws)[0] for draws in (1, 2))
    if np.array_equal(first, second):
        raise Unsupported("its log-det does not depend on random numbers", waits=False)
    once, again = estimates(flow, batch, 1, 2)
    return flags(
        np.array_equal(once, again),
        len(batch.x),
        "the second call has the noise of the first",
    )


def estimates(flow: RepeatableBijection, batch: Batch, *draws: int) -> list[np.ndarray]:
    """The log-dets of calls of one object, each from a random state of its own."""
    before = [Eval()] if flow.stateful else []
    runs = [Run("forward", batch.x, batch.context, draws=one) for one in draws]
    outs = list(flow.play([*before, *runs])[len(before) :])
    return [np.asarray(out.ladj, dtype=np.float64) for out in outs]


def deterministic(flow: RepeatableBijection, batch: Batch) -> None:
    """Raise `Unsupported` where values depend on random numbers: then draws have other reasons."""
    before = [Eval()] if flow.stateful else []
    one, other = (
        flow.play([*before, Run("forward", batch.x, batch.context, draws=draws)])[-1].value
        for draws in (1, 2)
    )
    if not np.allclose(one, other, rtol=1e-6, atol=1e-6, equal_nan=True):
        raise Unsupported("its values are random, too", waits=False)
