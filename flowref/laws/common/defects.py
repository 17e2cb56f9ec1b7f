"""Combinators of defects: what mutants of several families do to a healthy subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Call, Life, Manner, Mapped, Subject
from flowref.model.steps import Step

Steps = Sequence[Step[Any]]
# What becomes of the outcomes of a life, and of the outcome of one call in a manner.
LifeChange = Callable[[Steps, list[Any]], Sequence[Any]]
Remade = Callable[[tuple[Any, ...], Manner], Mapped]
CallChange = Callable[[Remade, str, tuple[Any, ...], Manner], Mapped]


def shifted(out: Mapped, size: float) -> Mapped:
    """An outcome whose value is off by ``size``."""
    return Mapped(np.asarray(out.value) + size, out.ladj)


def moved(state: dict[str, Array], size: float) -> dict[str, Array]:
    """A state with every floating tensor off by ``size``."""
    return {
        name: a + size if np.issubdtype(a.dtype, np.floating) else a for name, a in state.items()
    }


def promising(subject: Subject, promise: str) -> Subject:
    """The subject with a promise, so that a contract is judged."""
    return subject.with_facts(promises={**subject.promises, promise: True})


def wrapped(subject: Subject, ability: str, wrapper: Callable[..., Any], *given: Any) -> Subject:
    """The subject with an ability behind a wrapper, which takes the ability, then what is given
    here, then the arguments of the call.
    """
    if ability in subject.calls:
        return subject.with_call(ability, partial(wrapper, subject.calls[ability], *given))
    changed: dict[str, Any] = {ability: partial(wrapper, getattr(subject, ability), *given)}
    return replace(subject, **changed)


# Lives


def living(subject: Subject, change: LifeChange) -> Subject:
    """The subject with the outcomes of its lives changed, seen as a whole."""
    return wrapped(subject, "play", _changed_life, change)


def _changed_life(
    play: Callable[..., Life], change: LifeChange, steps: Steps, fresh: bool = False
) -> Life:
    return Life(steps, change(steps, list(play(steps, fresh))))


def at(subject: Subject, kind: type[Step[Any]], change: Callable[[Any], Any]) -> Subject:
    """The subject with the outcome of every step of a kind changed."""
    return living(subject, partial(_each, kind, change))


def _each(
    kind: type[Step[Any]], change: Callable[[Any], Any], steps: Steps, outcomes: list[Any]
) -> list[Any]:
    return [
        change(out) if isinstance(step, kind) else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


def refusing(subject: Subject, kind: type[Step[Any]], error: Exception) -> Subject:
    """The subject of which a life with a step of a kind raises."""
    return wrapped(subject, "play", _refused, kind, error)


def _refused(
    play: Callable[..., Life],
    kind: type[Step[Any]],
    error: Exception,
    steps: Steps,
    fresh: bool = False,
) -> Life:
    if any(isinstance(step, kind) for step in steps):
        raise error
    return play(steps, fresh)


# Calls


def mannered(subject: Subject, change: CallChange) -> Subject:
    """The subject whose calls, in any manner, are answered by ``change(call, name, inputs,
    manner)``.
    """
    calls: dict[str, Call[Any]] = {
        name: replace(call, mannered=partial(change, call.mannered, name))
        for name, call in subject.calls.items()
    }
    return replace(subject, calls=calls)


def observed(subject: Subject, **changes: Any) -> Subject:
    """The subject with some of what is observed around its calls changed."""
    calls: dict[str, Call[Any]] = {
        name: replace(call, observed=partial(_reobserved, call.observed, changes))
        for name, call in subject.calls.items()
    }
    return replace(subject, calls=calls)


def _reobserved(
    observe: Callable[..., Any], changes: dict[str, Any], inputs: tuple[Any, ...], default: str
) -> Any:
    return observe(inputs, default)._replace(**changes)
