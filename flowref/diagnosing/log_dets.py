"""Known bugs of log-determinants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, starmap
from typing import Any

import numpy as np

from flowref.diagnosing.comparison import Comparison, array_comparison
from flowref.diagnosing.known_bugs import (
    SIGN,
    ZERO,
    KnownBug,
    found,
    logarithms,
    named_factors,
    named_offsets,
    term,
    whole_batch,
)
from flowref.diagnosing.scenes import LARGEST, Scene
from flowref.laws.bijection.oracles import jacobians
from flowref.laws.common.arithmetic import finite_rows, inverse_inputs, log_abs_det, reported
from flowref.model import OPPOSITE, Array, Subject, per_point

# Relative accuracy to which the parts' log-dets must add up to that of the composite.
SAME = 1e-6
# For log-dets that are changes of the log-density, as in many continuous flows.
CHANGE = "; if log-dets are meant as changes of the log-density, say ?ladj=inverse"
# For log-dets that are means over the entries, beside losses that are.
PER_ENTRY = "; if that is meant, say ?ladj_form=mean"
# For determinants that are returned on purpose.
MEANT = "; if that is meant, say ?ladj_form=det"


def log_det_comparison(scene: Scene, which: str) -> Comparison:
    """Compare the log-det reported by a call with that of its Jacobian. Raises: `ValueError` if
    there is no square Jacobian.
    """
    subject: Any = scene.subject  # the abilities are checked by name
    x, context, _ = scene.batch
    if which == "inverse":
        x = inverse_inputs(subject, x, context)
    if x[0].size > LARGEST or subject.jacobian is None:
        raise ValueError("no Jacobian")
    out = subject.calls[which](x, context)
    matrices, errors = jacobians(subject, which, x, context)
    if matrices.shape[1] != matrices.shape[2]:
        raise ValueError("no square")
    truth = log_abs_det(matrices)
    usable = finite_rows(out.value) & (errors == 0) & np.isfinite(truth)
    claimed = reported(subject, out, len(x))
    comparison = array_comparison(subject, claimed, truth, usable, scene.cases)
    with np.errstate(all="ignore"):
        logs = np.log(np.abs(np.diagonal(matrices, axis1=1, axis2=2))).astype(np.float64)
    other = OPPOSITE[which]
    terms: dict[str, Any] = {
        "at the output": lambda: _log_det(subject, which, np.asarray(out.value) + 0.0, context),
        "of the other call": lambda: _log_det(subject, other, x, context),
        "diagonal": lambda: logs.sum(1),
        "slopes": lambda: np.exp(logs).sum(1),
    }
    for index in range(x[0].size):
        terms[f"all but {index}"] = partial(np.sum, np.delete(logs, index, axis=1), 1)
        terms[f"only {index}"] = partial(np.asarray, logs[:, index])
    if subject.part_maps and which == "forward":
        values = _component_log_dets(subject, x, context)
        # The log-det of a part that is itself wrong explains nothing.
        right = np.allclose(np.sum(values, 0)[usable], truth[usable], rtol=SAME, atol=SAME)
        for index, one in enumerate(values):
            terms[f"part {index}"] = partial(np.asarray, one if right else np.full(len(x), np.nan))
    return replace(comparison, terms=terms)


def diagnose_log_det(scenes: Sequence[Scene], which: str) -> str:
    """Return the known bug of a call's log-det as text; empty if none explains it."""
    seen = [log_det_comparison(scene, which) for scene in scenes]
    what = found(seen, log_det_bugs(seen, which))
    return f"the log-det of {which} is {what}" if what else ""


def log_det_bugs(seen: Sequence[Comparison], which: str) -> Iterator[KnownBug]:
    """Yield the known bugs of a log-det, the most frequent first."""
    other, meant = OPPOSITE[which], CHANGE if which == "forward" else ""
    yield ZERO
    yield replace(SIGN, words=f"that of the opposite map: the sign is flipped{meant}")
    for bug in named_factors(seen):
        of_mean = bug.words.startswith("1/D of")
        yield replace(bug, words=f"{bug.words}{PER_ENTRY * of_mean}")
    yield from starmap(
        term,
        (
            ("that at the output instead of the input", "at the output"),
            (
                "minus that at the output: the opposite map's, at the wrong point",
                "at the output",
                -1,
            ),
            (f"that of {other} at the same point", "of the other call"),
            (
                f"minus that of {other} at the same point, not at its image",
                "of the other call",
                -1,
            ),
        ),
    )
    yield from named_offsets(seen, declared=which == "forward")
    yield term("that of the diagonal of the Jacobian alone", "diagonal")
    entries = range(seen[0].entries)
    if len(entries) > 1:
        for index in entries:
            yield term(f"that without the term of coordinate {index}", f"all but {index}")
            yield term(f"the term of coordinate {index} alone", f"only {index}")
    yield from chain(_layers(seen), whole_batch(), logarithms(MEANT))
    yield term(f"the sum of the slopes: no logarithm was taken{MEANT}", "slopes")


def _layers(seen: Sequence[Comparison]) -> Iterator[KnownBug]:
    names = sorted(name for name in seen[0].terms if name.startswith("part "))
    for name in names if len(names) > 1 else ():
        label = _layer_label(seen[0].subject, int(name.removeprefix("part ")))
        yield KnownBug(
            f"that without the log-det of {label}", partial(_log_det_with_term, name, -1)
        )
        yield term(f"that of {label} alone", name)
        yield KnownBug(
            f"that with the log-det of {label} counted twice", partial(_log_det_with_term, name, 1)
        )
        flipped = f"that with the sign of the log-det of {label} flipped"
        yield KnownBug(flipped, partial(_log_det_with_term, name, -2))


def _log_det_with_term(name: str, times: float, one: Comparison) -> Array:
    return one.want + times * one.term(name)


def _layer_label(subject: Subject, index: int) -> str:
    name = subject.parts[index] if index < len(subject.parts) else ""
    return f"layer {index + 1} of {len(subject.part_maps)}" + (f" ({name})" if name else "")


def _component_log_dets(subject: Subject, x: Array, context: Array | None) -> list[Array]:
    """The log-dets that the parts report along the composite, ``(n,)`` each; nan if a part cannot
    be called.
    """
    values = []
    for part in subject.part_maps:
        try:
            x, ladj = part(x, context)
            values.append(np.zeros(len(x)) if ladj is None else per_point(ladj, len(x)))
        except Exception:  # a part that cannot be called by itself
            return [np.full(len(x), np.nan) for _ in subject.part_maps]
    return values


def _log_det(subject: Any, which: str, x: Array, context: Array | None) -> Array:
    if which not in subject.calls:
        raise LookupError(which)
    return log_abs_det(jacobians(subject, which, x, context)[0])
