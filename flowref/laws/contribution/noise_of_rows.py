"""Rows of a batch are drawn apart: no noise is shared by all of them."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.model import STATISTICAL, Array, Batch, Residual, Undecidable, Unsupported, law
from flowref.model.abilities import Pushing, TwoWay, offers

# So many calls of a batch that holds one point so often; the second stage alone accuses, where the first
# is conspicuous.
STAGES, ROWS, CONSPICUOUS = (24, 96), 64, 2.0
# The spread of means over calls beside that of rows: of independent rows it is beyond this in a second
# stage with a probability of less than 1e-9.
BEYOND = 2.2
# So many rows in all have to stay where they are, and to leave, if how many do is counted; where fewer do the
# point stands so often in a batch.
MANY, OFTEN = 200, 1024


@law(
    "contribution/noise-of-each-row",
    tolerance=STATISTICAL,
    local=False,
    scales=(0.0,),
    effort=1,
    size=4,
    version=3,
    source="rows of a batch are independent events: what is drawn once for all of them gives none of them another "
    "distribution, and a batch no more samples than one",
)
def noise_of_each_row(flow: Pushing, batch: Batch) -> Residual:
    """Copies of a point in one batch are drawn apart: their mean varies from call to call as that of
    independent draws does.

    Two stages; violated only if fresh draws confirm.
    """
    told: dict[str, float] = {}
    for row in range(len(batch.x)):
        one = batch.rows(slice(row, row + 1))
        out, refused = attempt(flow.push, one.x, batch.seed, one.context)
        if refused:
            continue
        inputs = {"push": one.x, "pull": np.asarray(out.value, dtype=np.float64) + 0.0}
        for name, x in inputs.items():
            if name == "push" or offers(flow, TwoWay):
                seen = dispersion(flow, name, x, one)
                told[name] = (
                    max(told.get(name, 0.0), seen) if seen is not None else told.get(name, -1.0)
                )
    told = {name: value for name, value in told.items() if value >= 0}
    if not told:
        raise Unsupported("it draws nothing at its points", waits=False)
    name = max(told, key=lambda one: told[one])
    rows = len(batch.x)
    return Residual(
        np.full(rows, told[name]),
        allowed=BEYOND,
        observed={"spread over calls beside that over rows": np.full(rows, told[name])},
        note=f"{'forward' if name == 'push' else 'inverse'} draws the same for all rows of a batch: their mean "
        f"varies {told[name]:.3g} times as much as that of independent rows",
    )


def dispersion(flow: Pushing, name: str, x: Array, batch: Batch) -> float | None:
    """The variance of means over calls beside what that of rows makes of it, of the entry where it is
    largest; None where nothing is drawn.
    """
    ratio, rows = None, ROWS
    for stage in range(len(STAGES)):
        drawn, few = results(flow, name, x, batch, stage, rows)
        ratio = spread_over_calls(drawn)
        calm = ratio is None or ratio <= CONSPICUOUS
        if calm and few and rows == ROWS and not flow.facts.cost.heavy:
            rows = OFTEN
            ratio = spread_over_calls(results(flow, name, x, batch, stage, rows)[0])
        if ratio is None or ratio <= CONSPICUOUS:
            return None if ratio is None else min(ratio, BEYOND)
    return ratio


def spread_over_calls(drawn: Array) -> float | None:
    """The same of what calls made of one point, ``(calls, rows, numbers)``."""
    if not drawn.size or (drawn == drawn[0, 0]).all():
        return None
    ranks = np.stack([_ranks(drawn[..., i]) for i in range(drawn.shape[-1])], -1)
    between = drawn.shape[1] * ranks.mean(1).var(0, ddof=1)
    spread = ranks.reshape(-1, ranks.shape[-1]).var(0, ddof=1)
    moves = spread > 0
    return float((between[moves] / spread[moves]).max(initial=0.0))


def results(
    flow: Pushing, name: str, x: Array, batch: Batch, stage: int, rows: int
) -> tuple[Array, bool]:
    """What calls of a stage make of a point that stands so often in a batch, ``(calls, rows, numbers)``, and
    whether some of its rows stay where they are, or leave, too few to be counted.
    """
    outs, moved = [], False
    for k in range(STAGES[stage]):
        points = np.repeat(x, rows, 0)
        seed = batch.seed + 5000 * (stage + 1) + k
        out, refused = attempt(flow.calls[name], points, seed, _context(batch, rows))
        if refused:
            raise Undecidable(f"{name} raises {refused}")
        value = np.asarray(out.value, dtype=np.float64).reshape(rows, -1)
        # What is refused stays where it is: how far a row went tells that, where its place does not.
        start = points.reshape(rows, -1)
        # Where few are refused neither does: then how many stay is what varies.
        moved = value.size == start.size
        far = np.abs(value - start) if moved else value[:, :0]
        stays = (far == 0).all(1, keepdims=True) * 1.0
        outs.append(np.concatenate([value, far, stays], 1))
    drawn: Array = np.stack(outs)
    few = moved and seldom(drawn[..., -1])
    some = moved and 0 < drawn[..., -1].mean() < 1
    if not moved or few:
        drawn = drawn[..., :-1]
    return drawn[..., ~np.isnan(drawn).any((0, 1))], bool(few and some)


def seldom(values: Array) -> bool:
    """Whether of zeros and ones one is so rare that how many there are in a call is not nearly normal."""
    return bool(min(values.sum(), (1 - values).sum()) < MANY)


def _ranks(values: Array) -> Array:
    """The share of all values that are no larger: bounded, whatever the values are."""
    ordered = np.sort(values, axis=None)
    return np.asarray(np.searchsorted(ordered, values, "right") / values.size)


def _context(batch: Batch, rows: int) -> Array | None:
    return None if batch.context is None else np.repeat(batch.context[:1], rows, 0)
