"""Multi-scale maps: a part of the entries leaves after each level, and the rest goes on to the
next.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.outcomes import flags
from flowref.laws.common.requirements import not_estimator
from flowref.laws.image.levels import (
    contexts,
    flattened,
    forward_passages,
    names,
    ordinary,
    passages,
    places,
    play,
    sizes,
    spec,
)
from flowref.model import (
    ADVICE,
    CONTRACT,
    EXACT,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    draw,
    law,
)
from flowref.model.abilities import Density, Flow, Invertible, MultiScaled
from flowref.model.steps import Cut, Layers, Trace


class DensityMultiScaled(Density, MultiScaled, Protocol):
    """DensityMultiScaled."""


class InvertibleMultiScaled(Invertible, MultiScaled, Protocol):
    """InvertibleMultiScaled."""


DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.6"
# What is followed is which entries go where, which does not depend on the point.
WHOLE: dict[str, Any] = {"size": 3, "local": False, "scales": (0.0, 0.3), "effort": 2}
OPPOSITE = {"forward": "inverse", "inverse": "forward"}
LOG_2_PI = float(np.log(2 * np.pi))
# The architecture of the paper: couplings before and after a squeeze, and in the last level.
BEFORE, AFTER, FINAL = 3, 3, 4


@law(
    "multi-scale/dims-conserved",
    tolerance=EXACT,
    source=DINH,
    **WHOLE,
)
def dims_conserved(flow: MultiScaled, batch: Batch) -> Residual:
    """The latents of all levels together have as many entries as the data, each level as many as
    its shape tells.
    """
    x, levels, z, _, _ = forward_passages(flow, batch)
    entries, told = x[0].size, sizes(flow)
    following = [level.given.shape[1] for level in levels[1:]] + [0]
    left = [
        level.gave.shape[1] - next_one for level, next_one in zip(levels, following, strict=True)
    ]
    covered = np.sort(np.concatenate(places(flow)))
    note = ""
    if z.shape[1] != entries or sum(told) != entries:
        note = f"the data have {entries} entries, the latents {z.shape[1]}, the levels {told} together {sum(told)}"
    elif left != told:
        note = f"after the levels {left} entries leave; their shapes tell {told}"
    elif not np.array_equal(covered, np.arange(entries)):
        note = "the places of the levels do not cover the latents once"
    return flags(bool(note), len(batch.x), note)


@law("multi-scale/split-exact", tolerance=EXACT, source=DINH, **WHOLE)
def split_exact(flow: MultiScaled, batch: Batch) -> Residual:
    """What leaves after a level and what goes on are together what the level gave, each entry once
    and bit for bit.
    """
    _, levels, z, _, _ = forward_passages(flow, batch)
    kept = places(flow)
    if z.shape[1] != sum(len(place) for place in kept):
        raise Unsupported("its latents have another number of entries")
    bad, note = np.zeros(len(z), dtype=bool), ""
    for index, level in enumerate(levels):
        onward = levels[index + 1].given if index + 1 < len(levels) else np.zeros((len(z), 0))
        parts = np.concatenate([z[:, kept[index]], onward], axis=1)
        if parts.shape != level.gave.shape:
            wrong = np.ones(len(z), dtype=bool)
        else:
            wrong = (np.sort(parts, axis=1) != np.sort(level.gave, axis=1)).any(1)
        if wrong.any() and not bad.any():
            note = f"level {index} gave other entries than leave and go on"
        bad |= wrong & finite_rows(level.gave)
    return flags(bad, len(z), note)


@law(
    "multi-scale/log-det-total",
    applies=not_estimator,
    source="chain rule: the log-dets of the levels add up (openai/glow and tensorflow/models #7465)",
    **WHOLE,
)
def log_det_total(flow: MultiScaled, batch: Batch) -> Residual:
    """The log-det is the sum of those of all levels."""
    _, levels, z, ladj, around = forward_passages(flow, batch)
    each = np.stack([level.ladj for level in levels], axis=1)
    total = each.sum(1) + around
    size = 4 + np.abs(each).sum(1) + np.abs(around)
    seen = {"log-det": ladj, "sum over levels": total, "log-dets of the levels": each}
    return Residual(ladj - total, scale=size, decidable=finite_rows(z, total), observed=seen)


@law(
    "multi-scale/factored-inert",
    tolerance=EXACT,
    source=DINH,
    **WHOLE,
)
def factored_inert(flow: MultiScaled, batch: Batch) -> Residual:
    """What has left after a level has no influence on the latents of later levels: that derivative
    is exactly zero.
    """
    x, context, which = ordinary(flow, batch), contexts(flow, batch), spec(flow).call
    ((*trace, (_, _, value, _)),) = play(flow, [Trace(which, x, context, names(flow))])
    rows, kept = len(x), places(flow)
    z = flattened(value, rows)
    if z.shape[1] != sum(len(place) for place in kept):
        raise Unsupported("its latents have another number of entries")
    rng = np.random.default_rng(batch.seed + 1)
    weights = rng.choice((-1.0, 1.0), z.shape) * (1 + rng.random(z.shape))
    worst, left, note = np.zeros(rows), np.zeros(rows, dtype=bool), ""
    for index, level in enumerate(spec(flow).levels[:-1]):
        runs = [run[0] for run in trace if run[0] in level]
        if not runs:
            raise Unsupported("its levels do not run one by one")
        here, later = (
            np.isin(np.arange(z.shape[1]), np.concatenate(part))
            for part in (kept[index : index + 1], kept[index + 1 :])
        )
        (pulled,) = play(
            flow, [Cut(which, x, context, runs[-1], (weights * here, weights * later))]
        )
        leaves, goes_on = (
            np.asarray(gradient, dtype=np.float64).reshape(rows, -1) for gradient in pulled
        )
        leaks = rows_max(np.where(leaves != 0, goes_on, 0.0))
        worst, left = np.maximum(worst, leaks), left | (leaves != 0).any(1)
        note = note or (
            f"later latents change with what left after level {index}" if leaks.any() else ""
        )
    return Residual(worst, decidable=finite_rows(z), trivial=~left, note=note)


@law(
    "multi-scale/recombines",
    applies=not_estimator,
    source=DINH,
    **WHOLE,
)
def recombines(flow: InvertibleMultiScaled, batch: Batch) -> Residual:
    """In the inverse every level is given what it gave, and gives what it was given: parts are
    joined as they were split.
    """
    x, levels, z, _, _ = forward_passages(flow, batch)
    which = spec(flow).call
    back = OPPOSITE[which]
    shape = flow.latent_shape if which == "forward" else flow.event_shape
    if z.shape[1] != int(np.prod(shape)):
        raise Unsupported("its latents have another number of entries")
    ((*trace, _),) = play(
        flow, [Trace(back, z.reshape(-1, *shape), contexts(flow, batch), names(flow))]
    )
    returned = passages(flow, trace, len(x))
    gaps, size = [], np.ones(len(x))
    for there, here in zip(levels, returned, strict=True):
        for first, second in ((there.gave, here.given), (there.given, here.gave)):
            if first.shape != second.shape:
                return flags(
                    True, len(x), "a level is given another number of entries in the inverse"
                )
            gaps.append(np.abs(first - second).max(1))
            size = np.maximum(size, rows_max(first))
    value = np.stack(gaps, axis=1)
    tolerance = float(flow.promises.get("inverse_tolerance", 0.0)) * (1 + size)
    worst = int(np.nan_to_num(value, nan=np.inf).max(0).argmax())
    seen = {"largest difference at each level": value}
    note = f"level {worst // 2} is {'given' if worst % 2 == 0 else 'said to have been given'} something else in the inverse"
    return Residual(
        value,
        scale=size,
        allowed=tolerance,
        decidable=finite_rows(z, *(p.gave for p in levels)),
        observed=seen,
        note=note,
    )


def normal_latents(flow: Flow) -> str | None:
    """Densities whose latents are known to be standard normal in every level."""
    if spec(flow).base != "normal":
        return "its latents are not known to be standard normal"
    return not_estimator(flow)


@law(
    "multi-scale/split-is-slice",
    applies=normal_latents,
    source="SurVAE Flows (arXiv:2007.02731): factoring out is the slice surjection, whose likelihood is that of what left",
    **WHOLE,
)
def split_is_slice(flow: DensityMultiScaled, batch: Batch) -> Residual:
    r"""Each level that leaves counts as standard normal:
    $\log p(x) = \mathrm{ladj}(x) + \sum_k \log N(z_k; 0, I)$.
    """

    x, _, z, ladj, _ = forward_passages(flow, batch)
    density = np.asarray(flow.log_prob(x, contexts(flow, batch)), dtype=np.float64).reshape(len(x))
    each = np.stack(
        [-0.5 * (len(place) * LOG_2_PI + (z[:, place] ** 2).sum(1)) for place in places(flow)],
        axis=1,
    )
    total = ladj + each.sum(1)
    seen = {"log p(x)": density, "log-det and levels": total, "levels": each}
    size = 4 + np.abs(each).sum(1) + np.abs(ladj)
    return Residual(density - total, scale=size, decidable=finite_rows(total), observed=seen)


@law(
    "multi-scale/all-layers-run",
    force=ADVICE,
    tolerance=EXACT,
    source="a loop over range(couplings, final) that leaves the last couplings out trains without complaint",
    **{**WHOLE, "scales": (0.0,)},
)
def all_layers_run(flow: InvertibleMultiScaled, batch: Batch) -> Residual:
    """Every layer that has parameters runs in both calls, equally often."""

    x = np.asarray(draw(flow.domain, (1, *flow.event_shape), np.random.default_rng(batch.seed)))
    context = None if batch.context is None else batch.context[:1]
    y = np.asarray(flow.forward(x, context).value)
    there, back = play(flow, [Layers("forward", x, context), Layers("inverse", y, context)])
    if not there:
        raise Unsupported("it has no layers with parameters")
    idle = sorted(name for name, count in there.items() if not count and not back[name])
    uneven = sorted(name for name, count in there.items() if count != back[name])
    notes = [f"{', '.join(idle)} never run"] if idle else []
    notes += [f"{', '.join(uneven)} run in one call more often than in the other"] if uneven else []
    return flags(bool(notes), len(batch.x), "; ".join(notes))


def told_architecture(flow: Flow) -> str | None:
    """The layers must be told."""
    return None if spec(flow).architecture else "the kinds of its layers are not told"


@law(
    "multi-scale/real-nvp-architecture",
    force=CONTRACT,
    promise="real-nvp",
    tolerance=EXACT,
    applies=told_architecture,
    source="Dinh et al. 2017, Real NVP (arXiv:1605.08803), sections 3.6 and 4.1",
    **{**WHOLE, "scales": (0.0,)},
)
def real_nvp_architecture(flow: MultiScaled, batch: Batch) -> Residual:
    """Each level has three checkerboard couplings, a squeeze and three channel couplings with twice
    the hidden width; the last has four checkerboard couplings.
    """
    *inner, last = spec(flow).architecture
    expected = [("checkerboard",) * BEFORE + ("squeeze",) + ("channel",) * AFTER] * len(inner)
    seen = [tuple(kind for kind, _ in level) for level in inner]
    widths = [width for level in (*inner, last) for kind, width in level if kind != "squeeze"]
    if not widths:
        raise Undecidable("no coupling is told")
    doubled: list[int] = []
    width = widths[0]
    for level in (*inner, last):
        for kind, _ in level:
            width *= 2 if kind == "squeeze" else 1
            doubled += [] if kind == "squeeze" else [width]
    note = ""
    if seen != expected or tuple(kind for kind, _ in last) != ("checkerboard",) * FINAL:
        note = f"the levels are {[', '.join(kinds) for kinds in seen]} and {', '.join(kind for kind, _ in last)}"
    elif widths != doubled:
        note = f"the hidden widths are {widths}; expected {doubled}"
    return flags(bool(note), len(batch.x), note)
