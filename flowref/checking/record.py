"""Writing a violation down: on the simplest input that shows it, with the numbers beside it and the
part where it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from flowref import loading
from flowref.checking.review import beside, measured
from flowref.checking.shrink import simplify
from flowref.checking.tolerance import (
    CONFIRM_REPLICAS,
    QUICK_REPLICAS,
    VIOLATED,
    Judgement,
    Precision,
    guess,
    judge,
)
from flowref.model import (
    ADVICE,
    EXACT,
    ROUNDING,
    Batch,
    Condition,
    Counterexample,
    Law,
    Status,
    Subject,
    Target,
    Verdict,
)

# Candidates for a simpler input that may be judged surely, times the operations of a round trip;
# and those granted in any case.
ATTEMPT_OPERATIONS, LEAST_ATTEMPTS = 16_000, 4


def said(error: BaseException) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def case_of(batch: Batch, condition: Condition, observed: dict[str, Any]) -> Counterexample:
    """A batch as a counterexample."""
    return Counterexample(
        x=batch.x.tolist(),
        context=None if batch.context is None else batch.context.tolist(),
        seed=batch.seed,
        condition=condition,
        observed=observed,
    )


def violation(
    target: Target,
    law: Law,
    subject: Subject,
    batch: Batch,
    judgement: Judgement,
    condition: Condition,
    seed: int,
    applies: Callable[[Subject], bool],
) -> Verdict:
    """Simplify a confirmed violation and write it down. ``applies``: whether the law speaks about a
    part of the target.
    """
    precision = judgement.precision
    worst = judgement.evidence(judgement.worst())

    def margins(candidate: Batch, sure: bool) -> Judgement | None:
        try:
            residual = measured(law, subject, candidate)
            if not sure:
                return guess(law, residual, worst, precision)
            return judge(law, subject, candidate, residual, precision, QUICK_REPLICAS, seed)
        except Exception:  # a simpler input on which the law cannot be measured is no simpler input
            return None

    small, final = batch, judgement
    if law.tolerance in (
        ROUNDING,
        EXACT,
    ):  # integrals and sample means have no point to make simpler
        support = subject.drawn(law.given)[0]
        attempts = max(LEAST_ATTEMPTS, ATTEMPT_OPERATIONS // max(1, subject.operations))
        attempts = 0 if law.force == ADVICE else attempts  # advice seldom hangs on a point
        small, final = simplify(
            support, batch, judgement, margins, exact=law.tolerance == EXACT, attempts=attempts
        )
    if law.local and law.tolerance == ROUNDING:
        persists = beside(law, subject, small, final, precision, seed).outcome == VIOLATED
        if not persists.any():
            small, final = batch, judgement  # simplified onto a kink
    row = final.worst()
    observed, note = observations(law, subject, small, row)
    part = (
        offending_part(target, law, small, condition, precision, seed, applies)
        if law.parted and subject.parts
        else ""
    )
    status = Status.ADVICE if law.force == ADVICE else Status.VIOLATED
    where = (
        "at the weights as given"
        if condition.scale == 0
        else f"after moving the parameters by {condition.scale:g}"
    )
    reason = "; ".join(filter(None, (note, where)))
    case = case_of(small, replace(condition, dtype=subject.dtype), observed)
    return Verdict(
        str(target),
        law.id,
        status,
        reason,
        evidence=final.evidence(row),
        counterexample=case,
        part=part,
    )


def observations(law: Law, subject: Subject, batch: Batch, row: int) -> tuple[dict[str, Any], str]:
    """The numbers that a reader wants to see beside the violation, and the law's own sentence."""
    try:
        residual = measured(law, subject, batch)
        observed = {
            name: _plain(np.asarray(value)[row]) for name, value in residual.observed.items()
        }
        note = residual.note
        if law.arbitrate is not None:
            more, _ = law.arbitrate(subject, batch.rows(slice(row, row + 1)))
            if all(
                np.allclose(observed[name], more[name], equal_nan=True)
                for name in observed.keys() & more.keys()
            ):
                observed |= {name: _plain(value) for name, value in more.items()}
            # the second oracle saw the point alone, and what it saw there would contradict what is
            # reported
            else:
                note = "; ".join(
                    filter(
                        None,
                        (note, f"the point shows it in its batch of {len(batch.x)}, not alone"),
                    )
                )
    except Exception as error:
        return {}, said(error)
    return observed, note


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def offending_part(
    target: Target,
    law: Law,
    batch: Batch,
    condition: Condition,
    precision: Precision,
    seed: int,
    applies: Callable[[Subject], bool],
) -> str:
    """The first part of a composite that violates the same law at the point it is reached with."""
    whole = loading.load(target, condition)
    names = whole.parts
    try:
        points_in = _reached(whole, batch)
    except Exception:  # the parts cannot be run one by one
        return ""
    for place, reached in enumerate(points_in):
        try:
            part = loading.load(target, replace(condition, part=(place,)))
            part = part.with_facts(event_shape=reached.x.shape[1:], latent_shape=part.latent_shape)
            if not applies(part):
                continue
            residual = measured(law, part, reached)
            found = judge(law, part, reached, residual, precision, CONFIRM_REPLICAS, seed)
        except Exception:  # this part cannot be judged alone
            continue
        if (found.outcome == VIOLATED).any():
            return f"part {place + 1} of {len(names)} ({names[place]})"
    return ""


def _reached(whole: Subject, batch: Batch) -> list[Batch]:
    """The inputs with which each part is reached."""
    reached, x = [], batch.x
    for part in whole.part_maps:
        reached.append(batch._replace(x=x))
        x = part(x, batch.context).value
    return reached
