"""The noise of a trace estimate: one draw per solve, and a new one for the next."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.bijection.log_det_estimate import estimator
from flowref.laws.common.outcomes import flags
from flowref.model import ADVICE, EXACT, GIVEN, Batch, Residual, Unsupported, law, requires
from flowref.model.abilities import Bijection, Flow, Living, offers
from flowref.model.steps import Eval, Run

# The share of evaluations with fresh noise from which on noise counts as drawn per evaluation.
SHARE = 0.3
SOURCE = "Grathwohl et al., FFJORD (arXiv:1810.01367), section 3.1"


class RepeatableBijection(Bijection, Living, Protocol):
    """A map that can be called repeatedly."""


@requires("it has no map that is called more than once")
def solves(flow: Flow) -> bool:
    """Calls can be observed, at least the start of one that was cut short."""
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
    """A map with deterministic values and a log-det estimated by noise draws no noise between
    evaluations of its field: one draw per solve.

    Advice: with fixed steps fresh noise has the same mean, but adaptive steps with an error
    estimate do not, and may never end.
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
        f"noise is drawn anew for {redrawn:.2g} of the evaluations of its field{cut}",
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
    """A log-det that is estimated by noise uses other noise in the next call of the same object."""
    first, second = (estimates(flow, batch, draws)[0] for draws in (1, 2))
    if np.array_equal(first, second):
        raise Unsupported("its log-det does not depend on random numbers", blocked=False)
    once, again = estimates(flow, batch, 1, 2)
    return flags(
        np.array_equal(once, again),
        len(batch.x),
        "the second call has the noise of the first",
    )


def estimates(flow: RepeatableBijection, batch: Batch, *draws: int) -> list[np.ndarray]:
    """The log-dets of successive calls of one object, each from a random state of its own,
    ``(rows,)``.
    """
    before = [Eval()] if flow.stateful else []
    runs = [Run("forward", batch.x, batch.context, draws=one) for one in draws]
    outs = list(flow.play([*before, *runs])[len(before) :])
    return [np.asarray(out.ladj, dtype=np.float64) for out in outs]


def deterministic(flow: RepeatableBijection, batch: Batch) -> None:
    """Raise `Unsupported` if values are random: random numbers then have other purposes."""
    before = [Eval()] if flow.stateful else []
    one, other = (
        flow.play([*before, Run("forward", batch.x, batch.context, draws=draws)])[-1].value
        for draws in (1, 2)
    )
    if not np.allclose(one, other, rtol=1e-6, atol=1e-6, equal_nan=True):
        raise Unsupported("its values are random, too", blocked=False)
