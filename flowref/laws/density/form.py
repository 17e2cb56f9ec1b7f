"""The form of samples (finite points of the density) and of log-densities (one number per point)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from flowref.laws.common.amounts import sparing, stepwise
from flowref.laws.common.cases import ONE_CONTEXT
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.probes import absent
from flowref.laws.density.consistency import unconditional_or_bound
from flowref.laws.density.draws import ALONE, SampledDensity, first_sample_count
from flowref.model import BOUND, EXACT, GIVEN, VOLUME, Array, Batch, Residual, Unsupported, law
from flowref.model.abilities import Density, Sampler

# Sample counts: 1 shows squeezed axes, as many as there are coordinates shows swapped axes. Fewer
# for step-by-step samplers.
NUMBERS, DEAR_NUMBERS = (1, 2, 5), (1, ALONE)
# Random states in which one sample is drawn: code that counts the drawn modes then has fewer of
# them.
STATES = 16
# Samples searched for non-finite values, twice; and the number that may be chance: a uniform number
# in single precision is zero once in sixteen million draws.
SEARCHED, CHANCE = 8_000, 2
# Batch sizes whose log-densities are counted.
SIZES = (1, 2, 3, 7)
# Rounding of log-densities in batches of another shape.
CLOSE = 1e-4


@law(
    "shape/one-number-per-point[samples]",
    key="sampling/sample-shape",
    version=2,
    points="data",
    tolerance=EXACT,
    scales=GIVEN,
    size=1,
    effort=1,
    applies=unconditional_or_bound,
    source="torch.distributions: sample((n,)) has the shape (n, *event_shape), which log_prob takes",
    cases=(ONE_CONTEXT,),
)
def sample_shape(flow: SampledDensity, batch: Batch) -> Residual:
    """Samples are points of the density: ``sample(n)`` returns shape ``(n, *event)`` in the
    precision of the object, and ``log_prob`` of these returns n numbers, for one sample as for
    several, in any random state.
    """
    numbers = DEAR_NUMBERS if stepwise(flow, "sample") else NUMBERS
    wrong = [note for count in numbers for note in misshapen(flow, count, batch.seed)]
    if not wrong and not sparing(flow):
        states = range(batch.seed + 1, batch.seed + STATES)
        wrong = [note for seed in states for note in misshapen(flow, 1, seed)]
    return absent(wrong[:1], len(batch.x), "{}")


def misshapen(flow: SampledDensity, count: int, seed: int) -> Iterator[str]:
    """Error messages for ``count`` samples."""
    drawn, refused = attempt(flow.sample, count, seed, None)
    if refused:
        yield f"sample({count}) raises {refused}"
        return
    x = np.asarray(drawn)
    expected = (count, *flow.density_shape)
    if x.shape != expected:
        yield f"sample({count}) has shape {x.shape}; expected {expected}"
    elif np.issubdtype(x.dtype, np.floating) and x.dtype.name != flow.dtype:
        yield f"sample({count}) is {x.dtype.name}; the object is {flow.dtype}"
    density, refused = attempt(flow.log_prob, x, None)
    if refused:
        yield f"log_prob refuses sample({count}), of shape {x.shape}: {refused}"
    elif np.size(density) != count:
        yield f"log_prob of sample({count}) gives {np.size(density)} numbers"


@law(
    "map/finite[samples]",
    key="sampling/finite",
    points="data",
    tolerance=EXACT,
    local=False,
    scales=GIVEN,
    size=1,
    effort=1,
    applies=unconditional_or_bound,
    source="the logarithm of a rounded zero, or 0/0 in a rejection step, which a batch of a few samples does not show",
    cases=(ONE_CONTEXT,),
)
def finite_samples(flow: Sampler, batch: Batch) -> Residual:
    """Samples are finite: of thousands drawn at once hardly one is infinite or nan, or has the
    log-density nan.
    """
    count = min(SEARCHED, first_sample_count(flow))
    lost, undefined = [], []
    for stage in range(2):
        x = np.asarray(flow.sample(count, batch.seed + stage, None))
        if x.shape[:1] != (count,) or not np.issubdtype(x.dtype, np.floating):
            raise Unsupported("another law checks the shape of its samples", blocked=False)
        kept = np.isfinite(x.reshape(count, -1)).all(1)
        lost.append(int((~kept).sum()))
        undefined.append(without_density(flow, x[kept]))
        if lost[-1] <= CHANCE and undefined[-1] <= CHANCE:
            break
    fault, many = ("samples are not finite", lost)
    if min(lost) <= CHANCE:
        fault, many = ("samples have nan for their log-density", undefined)
    note = f"{many[0]} of {count} {fault}, and {many[-1]} of as many others"
    return flags(min(many) > CHANCE, len(batch.x), note)


def without_density(flow: Sampler, x: Array) -> int:
    """The number of samples with log-density nan; 0 if log_prob raises."""
    values, refused = (
        attempt(flow.calls["log_prob"], x, None) if "log_prob" in flow.calls else (None, "-")
    )
    density = np.asarray(values, np.float64).reshape(-1) if not refused else np.zeros(len(x))
    return int(np.isnan(density).sum()) if len(density) == len(x) else 0


@law(
    "shape/one-number-per-point[log-prob]",
    key="density/log-prob-shape",
    about=VOLUME,
    points="data",
    tolerance=BOUND,
    local=False,
    scales=GIVEN,
    size=7,
    effort=2,
    version=3,
    source="a log-density is a number for each point; torch.distributions, shapes of batches and events",
)
def log_prob_shape(flow: Density, batch: Batch) -> Residual:
    """``log_prob`` returns one number per point of a batch of any size.

    A trailing axis of one is permitted; one number per entry, or per batch, is not. Flows that
    promise several batch axes return the values of the same points in a row, or raise, as for a
    single point without batch axis.
    """
    wrong = in_other_axes(flow, batch) if flow.promises.get("batch-dims") else []
    if flow.promises.get("batch-sum"):
        wrong.append("log_prob returned one number for several points, which their own add up to")
    for size in SIZES:
        if size > len(batch.x):
            continue
        few = batch.rows(slice(0, size))
        shape = np.shape(flow.log_prob(few.x, few.context))
        if shape not in ((size,), (size, 1)):
            wrong.append(f"log_prob returned shape {shape} for {size} points; expected {(size,)}")
    return Residual(np.full(len(batch.x), float(bool(wrong))), note="; ".join(wrong[:2]))


def in_other_axes(flow: Density, batch: Batch) -> list[str]:
    """Error messages for points in two batch axes, and for one point without any."""
    rows, shape, wrong = 6, flow.density_shape, []
    if len(batch.x) < rows or batch.context is not None:
        return []
    x = batch.x[:rows]
    flat = np.asarray(flow.log_prob(x, None), np.float64)
    if flat.shape != (rows,):
        return []
    for lead, points in (((2, 3), x), ((), x[:1])) if shape else (((2, 3), x),):
        found, refused = attempt(flow.log_prob, points.reshape(*lead, *shape), None)
        if refused:
            continue
        value, one = np.asarray(found, np.float64), flat[: len(points)].reshape(lead)
        given = (*lead, *shape)
        if value.shape != lead:
            wrong.append(f"log_prob returned shape {value.shape} for {given}; expected {lead}")
        elif not np.allclose(value, one, rtol=CLOSE, atol=CLOSE, equal_nan=True):
            wrong.append(f"log_prob of points in shape {given} is not that of the points in a row")
    return wrong
