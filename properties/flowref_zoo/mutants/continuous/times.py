"""Parts of a time that do not add up, and states that are not those of the parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant
from flowref_zoo.mutants.combinators import (
    ladj_added,
    ladj_changed,
    ladj_multiplied,
    value_changed,
    wrapped,
)

HOST = "flowref_zoo.specimens.solvers:growth"


@mutant("composition/in-time", host=HOST, sizes=(1e-9, 1e-3, 1.0))
def starts_too_early(subject: Subject, size: float = 1.0) -> Subject:
    """A part begins earlier than it is asked to, or at the beginning."""
    return wrapped(subject, "between", _earlier, size)


@mutant("composition/in-time", host=HOST, sizes=(1e-9, 0.1))
def each_part_counts_a_constant(subject: Subject, size: float = 0.1) -> Subject:
    """A constant is in the log-det of each part, and once in that of the whole."""
    return ladj_added(ladj_added(subject, "between", size), "forward", size)


@mutant("composition/in-time", host=HOST, sizes=(1e-6, 0.5))
def rates_of_the_whole(subject: Subject, size: float = 0.5) -> Subject:
    """The log-det of a part is too large by a share."""
    return ladj_multiplied(subject, "between", 1 + size)


@mutant("composition/in-time[states]", host=HOST, sizes=(1e-9, 1.0))
def states_lean_to_the_last(subject: Subject, size: float = 1.0) -> Subject:
    """States are written over by later ones."""
    return value_changed(
        subject, "trajectory", lambda states: states + size * (states[-1] - states)
    )


@mutant("composition/in-time[states]", host=HOST)
def states_are_late(subject: Subject) -> Subject:
    """Each state is the next one."""
    return value_changed(subject, "trajectory", lambda s: np.concatenate([s[1:], s[-1:]]))


@mutant("composition/in-time[states]", host=HOST, sizes=(1e-9, 1.0))
def log_dets_of_each_part(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det of a state is, by a share, that since the state before."""
    return ladj_changed(subject, "trajectory", partial(_since_the_last, size))


def _since_the_last(size: float, ladj: Array, x: Array) -> Array:
    before = np.concatenate([0 * ladj[:1], ladj[:-1]])
    return np.asarray(ladj - size * before)


def _earlier(
    call: Callable[..., Mapped], size: float, x: Array, context: Any, start: float, end: float
) -> Mapped:
    return call(x, context, (1 - size) * start, end)
