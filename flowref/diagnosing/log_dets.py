"""Slips of log-determinants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.diagnosing.comparison import Comparison, compared
from flowref.diagnosing.scenes import LARGEST, Scene
from flowref.diagnosing.slips import (
    SIGN,
    ZERO,
    Slip,
    any_constant,
    first,
    logarithms,
    named_factors,
    named_offsets,
    narrowed,
    term,
    whole_batch,
)
from flowref.laws.bijection.oracles import jacobians
from flowref.laws.common.arithmetic import finite_rows, latents, log_abs_det, reported
from flowref.model import OPPOSITE, Array, Subject, per_point

# How well the log-dets of parts have to add up to that of the whole.
SAME = 1e-6
# What to say where it is the change of the log-density, as of many continuous flows.
CHANGE = "; if log-dets are meant as changes of the log-density, say ?ladj=inverse"
# What to say where a determinant is returned on purpose.
MEANT = "; if that is meant, say ?ladj_form=det"


def log_det_of(scene: Scene, which: str) -> Comparison:
    """What a call reports, against the Jacobian."""
    subject, (x, context, _) = scene.subject, scene.batch
    if which == "inverse":
        x = latents(_any(subject), x, context)
    if x[0].size > LARGEST or subject.jacobian is None:
        raise ValueError("no Jacobian")
    out = subject.calls[which](x, context)
    matrices, errors = jacobians(_any(subject), which, x, context)
    if matrices.shape[1] != matrices.shape[2]:
        raise ValueError("no square")
    truth = log_abs_det(matrices)
    usable = finite_rows(out.value) & (errors == 0) & np.isfinite(truth)
    claimed = reported(_any(subject), out, len(x))
    comparison = compared(subject, claimed, truth, usable, scene.cases)
    other = OPPOSITE[which]
    terms: dict[str, Any] = {
        "at the output": lambda: _log_det(subject, which, np.asarray(out.value) + 0.0, context),
        "of the other call": lambda: _log_det(subject, other, x, context),
        "diagonal": lambda: _diagonal(matrices).sum(1),
        "slopes": lambda: np.exp(_diagonal(matrices)).sum(1),
    }
    for index in range(x[0].size):
        terms[f"all but {index}"] = partial(_left_out, matrices, index)
        terms[f"only {index}"] = partial(_alone, matrices, index)
    if subject.part_maps and which == "forward":
        values = _parts(subject, x, context)
        # Where a part is itself wrong, what it reports explains nothing of the sum.
        right = np.allclose(np.sum(values, 0)[usable], truth[usable], rtol=SAME, atol=SAME)
        for index, one in enumerate(values):
            terms[f"part {index}"] = partial(np.asarray, one if right else np.full(len(x), np.nan))
    return replace(comparison, terms=terms)


def diagnosed(scenes: Sequence[Scene], which: str) -> str:
    """Which slip made the log-det of a call; empty where none explains it."""
    seen = [log_det_of(scene, which) for scene in scenes]
    found = first(seen, slips(seen, which)) or narrowed(seen) or any_constant(seen)
    return f"the log-det of {which} is {found}" if found else ""


def slips(seen: Sequence[Comparison], which: str) -> Iterator[Slip]:
    """What a log-det may be taken for, the most frequent first."""
    other = OPPOSITE[which]
    yield ZERO
    turned = "that of the opposite map: the sign is turned"
    yield replace(SIGN, words=turned + (CHANGE if which == "forward" else ""))
    yield from named_factors(seen)
    yield term("that at the output instead of the input", "at the output")
    yield term(
        "minus that at the output: the opposite map's, at the wrong end", "at the output", -1
    )
    yield term(f"that of {other} at the same point", "of the other call")
    yield term(
        f"minus that of {other} at the same point, not at the point that comes out",
        "of the other call",
        -1,
    )
    yield from named_offsets(seen)
    yield term("that of the diagonal of the Jacobian alone", "diagonal")
    entries = range(seen[0].entries)
    if len(entries) > 1:
        for index in entries:
            yield term(f"that without the part of coordinate {index}", f"all but {index}")
            yield term(f"the part of coordinate {index} alone", f"only {index}")
    yield from _layers(seen)
    yield from whole_batch()
    yield from logarithms(MEANT)
    yield term(f"the sum of the slopes: no logarithm was taken{MEANT}", "slopes")


def _layers(seen: Sequence[Comparison]) -> Iterator[Slip]:
    names = sorted(name for name in seen[0].terms if name.startswith("part "))
    if len(names) < 2:
        return
    for name in names:
        label = _label(seen[0].subject, int(name.removeprefix("part ")))
        yield Slip(f"that without the log-det of {label}", partial(_changed, name, -1))
        yield Slip(f"that of {label} alone", partial(_other, name))
        yield Slip(f"that with the log-det of {label} counted twice", partial(_changed, name, 1))
        yield Slip(
            f"that with the sign of the log-det of {label} turned", partial(_changed, name, -2)
        )


def _other(name: str, one: Comparison) -> Array:
    return one.term(name)


def _changed(name: str, times: float, one: Comparison) -> Array:
    return one.want + times * one.term(name)


def _label(subject: Subject, index: int) -> str:
    name = subject.parts[index] if index < len(subject.parts) else ""
    return f"layer {index + 1} of {len(subject.part_maps)}" + (f" ({name})" if name else "")


def _parts(subject: Subject, x: Array, context: Array | None) -> list[Array]:
    """The log-dets that the parts report where the composite leads them; nan where they report
    none.
    """
    values = []
    for part in subject.part_maps:
        try:
            x, ladj = part(x, context)
            values.append(np.zeros(len(x)) if ladj is None else per_point(ladj, len(x)))
        except Exception:  # a part that cannot be called by itself
            return [np.full(len(x), np.nan) for _ in subject.part_maps]
    return values


def _log_det(subject: Subject, which: str, x: Array, context: Array | None) -> Array:
    if which not in subject.calls:
        raise LookupError(which)
    return log_abs_det(jacobians(_any(subject), which, x, context)[0])


def _diagonal(matrices: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(np.log(np.abs(np.diagonal(matrices, axis1=1, axis2=2))), dtype=np.float64)


def _left_out(matrices: Array, index: int) -> Array:
    return np.asarray(np.delete(_diagonal(matrices), index, axis=1).sum(1))


def _alone(matrices: Array, index: int) -> Array:
    return _diagonal(matrices)[:, index]


def _any(subject: Subject) -> Any:
    """A subject as laws see it, which has what was asked for."""
    return subject
