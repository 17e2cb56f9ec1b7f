"""Multi-scale maps: some entries leave after each level, and the others go on to the next."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, rows_max
from flowref.laws.common.outcomes import flags
from flowref.laws.common.requirements import not_estimator
from flowref.laws.image.levels import (
    contexts,
    flattened,
    in_eval,
    level_module_names,
    ordinary_data_points,
    owned,
    passages,
    sizes,
    traversal,
)
from flowref.model import EXACT, NEARBY, OPPOSITE, VOLUME, Batch, Residual, Unsupported, law
from flowref.model.abilities import Invertible, MultiScaled
from flowref.model.steps import Cut, Trace


class InvertibleMultiScale(Invertible, MultiScaled, Protocol):
    """An invertible map whose latents leave level by level."""


DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.6"
# The routing of entries does not depend on the point.
WHOLE: dict[str, Any] = {"size": 3, "local": False, "scales": NEARBY, "effort": 2}


@law(
    "multi-scale/split[sizes]",
    key="multi-scale/dims-conserved",
    tolerance=EXACT,
    source=DINH,
    **WHOLE,
)
def dims_conserved(flow: MultiScaled, batch: Batch) -> Residual:
    """The latents of all levels together have as many entries as the data, each level as many as
    its shape declares.
    """
    x, levels, z, _, _ = traversal(flow, batch)
    entries, shapes = x[0].size, sizes(flow)
    following = [level.entered.shape[1] for level in levels[1:]] + [0]
    left = [level.left.shape[1] - onward for level, onward in zip(levels, following, strict=True)]
    covered = np.sort(np.concatenate(owned(flow)))
    note = ""
    if z.shape[1] != entries or sum(shapes) != entries:
        note = (
            f"the data have {entries} entries, the latents {z.shape[1]}, "
            f"the levels {shapes}, in total {sum(shapes)}"
        )
    elif left != shapes:
        note = f"after the levels {left} entries leave; their shapes say {shapes}"
    elif not np.array_equal(covered, np.arange(entries)):
        note = "the places of the levels do not cover the latents once"
    return flags(bool(note), len(batch.x), note)


@law("multi-scale/split", key="multi-scale/split-exact", tolerance=EXACT, source=DINH, **WHOLE)
def split_exact(flow: MultiScaled, batch: Batch) -> Residual:
    """The entries that leave after a level and those that go on are together its output, each once
    and bitwise.
    """
    _, levels, z, _, _ = traversal(flow, batch)
    entries = owned(flow)
    if z.shape[1] != sum(map(len, entries)):
        raise Unsupported("its latents have another number of entries")
    bad, note = np.zeros(len(z), dtype=bool), ""
    for index, level in enumerate(levels):
        onward = levels[index + 1].entered if index + 1 < len(levels) else np.zeros((len(z), 0))
        parts = np.concatenate([z[:, entries[index]], onward], axis=1)
        if parts.shape != level.left.shape:
            wrong = np.ones(len(z), dtype=bool)
        else:
            wrong = (np.sort(parts, axis=1) != np.sort(level.left, axis=1)).any(1)
        if wrong.any() and not bad.any():
            note = f"level {index} gave other entries than leave and go on"
        bad |= wrong & finite_rows(level.left)
    return flags(bad, len(z), note)


@law(
    "density/change-of-variables[levels]",
    key="multi-scale/log-det-total",
    nats=True,
    about=VOLUME,
    applies=not_estimator,
    source="chain rule: the log-dets of the levels add up (openai/glow and tensorflow/models #7465)",
    **WHOLE,
)
def log_det_total(flow: MultiScaled, batch: Batch) -> Residual:
    """The log-det is the sum of those of all levels."""
    _, levels, z, ladj, around = traversal(flow, batch)
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
    """Entries that left after a level do not affect the latents of later levels: that derivative
    is exactly zero.
    """
    x, context, which = (
        ordinary_data_points(flow, batch),
        contexts(flow, batch),
        flow.multi_scale.call,
    )
    *runs, whole = in_eval(flow, Trace(which, x, context, level_module_names(flow)))
    rows, entries = len(x), owned(flow)
    z = flattened(whole.value, rows)
    if z.shape[1] != sum(map(len, entries)):
        raise Unsupported("its latents have another number of entries")
    rng = np.random.default_rng(batch.seed + 1)
    weights = rng.choice((-1.0, 1.0), z.shape) * (1 + rng.random(z.shape))
    worst, left, note = np.zeros(rows), np.zeros(rows, dtype=bool), ""
    for index, level in enumerate(flow.multi_scale.levels[:-1]):
        modules = [run.name for run in runs if run.name in level]
        if not modules:
            raise Unsupported("its levels do not run one by one")
        here, later = (
            np.isin(np.arange(z.shape[1]), np.concatenate(part))
            for part in (entries[index : index + 1], entries[index + 1 :])
        )
        cut = Cut(which, x, context, modules[-1], (weights * here, weights * later))
        leaves, goes_on = (flattened(gradient, rows) for gradient in in_eval(flow, cut))
        leaks = rows_max(np.where(leaves != 0, goes_on, 0.0))
        worst, left = np.maximum(worst, leaks), left | (leaves != 0).any(1)
        note = note or (
            f"later latents change with what left after level {index}" if leaks.any() else ""
        )
    return Residual(worst, decidable=finite_rows(z), trivial=~left, note=note)


@law(
    "multi-scale/split[inverse]",
    key="multi-scale/recombines",
    applies=not_estimator,
    source=DINH,
    **WHOLE,
)
def recombines(flow: InvertibleMultiScale, batch: Batch) -> Residual:
    """In the inverse every level receives its output, and returns its input: parts are joined as
    they were split.
    """
    x, levels, z, _, _ = traversal(flow, batch)
    which = flow.multi_scale.call
    back = OPPOSITE[which]
    shape = flow.latent_shape if which == "forward" else flow.event_shape
    if z.shape[1] != int(np.prod(shape)):
        raise Unsupported("its latents have another number of entries")
    trace = Trace(back, z.reshape(-1, *shape), contexts(flow, batch), level_module_names(flow))
    returned = passages(flow, in_eval(flow, trace)[:-1], len(x))
    gaps, size = [], np.ones(len(x))
    for there, here in zip(levels, returned, strict=True):
        for first, second in ((there.left, here.entered), (there.entered, here.left)):
            if first.shape != second.shape:
                return flags(
                    True, len(x), "a level is given another number of entries in the inverse"
                )
            gaps.append(np.abs(first - second).max(1))
            size = np.maximum(size, rows_max(first))
    value = np.stack(gaps, axis=1)
    tolerance = flow.certainty.inverse * (1 + size)
    worst = int(np.nan_to_num(value, nan=np.inf).max(0).argmax())
    seen = {"largest difference at each level": value}
    verb = "receives" if worst % 2 == 0 else "returns"
    note = f"level {worst // 2} {verb} something else in the inverse"
    return Residual(
        value,
        scale=size,
        allowed=tolerance,
        decidable=finite_rows(z, *(level.left for level in levels)),
        observed=seen,
        note=note,
    )
