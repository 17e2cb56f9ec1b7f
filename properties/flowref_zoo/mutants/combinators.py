"""Combinators of defects: what mutants of several families do to a healthy subject.

Of its calls, as users make them: `wrapped`, `value_changed`, `ladj_changed` and their special
cases; in whatever manner they are made: `mannered`, `answered`; what is observed around them:
`observed`. Of its lives: `living`, `at`, `after`, `refusing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from flowref.model import Array, Call, Life, Manner, Mapped, Subject, TargetError
from flowref.model.steps import Step

Steps = Sequence[Step[Any]]
Kind = type[Step[Any]]
# What becomes of the outcomes of a life, and of the outcome of one call in a manner.
LifeChange = Callable[[Steps, list[Any]], Sequence[Any]]
Remade = Callable[[tuple[Any, ...], Manner], Mapped]
CallChange = Callable[[Remade, str, tuple[Any, ...], Manner], Mapped]
Fact = TypeVar("Fact")


class Asked(NamedTuple):
    """Which call was made, with which inputs and in which manner."""

    name: str
    inputs: tuple[Any, ...]
    manner: Manner


# Values


def shifted(out: Mapped, size: float | Array) -> Mapped:
    """An outcome whose value is off by ``size``."""
    return Mapped(np.asarray(out.value) + size, out.ladj)


def moved(state: dict[str, Array], size: float) -> dict[str, Array]:
    """A state with every floating tensor off by ``size``."""
    return {
        name: a + size if np.issubdtype(a.dtype, np.floating) else a for name, a in state.items()
    }


# Facts


def declared(fact: Fact | None) -> Fact:
    """A fact that the host of a mutant must have; `TargetError` where it is not declared."""
    if fact is None:
        raise TargetError("the host of this mutant declares no such fact; pass one that does")
    return fact


def promising(subject: Subject, promise: str) -> Subject:
    """The subject with a promise, so that a contract is judged."""
    return subject.with_facts(promises={**subject.promises, promise: True})


# Calls


def wrapped(subject: Subject, ability: str, wrapper: Callable[..., Any], *bound: Any) -> Subject:
    """The subject with an ability behind a wrapper, which takes the ability, then what is bound
    here, then the arguments of the call. Raises `TargetError` for a call that it does not offer.
    """
    if ability in subject.calls:
        return subject.with_call(ability, partial(wrapper, subject.calls[ability], *bound))
    if ability not in {field.name for field in fields(subject)}:
        raise TargetError(f"it offers no {ability}")
    changed: dict[str, Any] = {ability: partial(wrapper, getattr(subject, ability), *bound)}
    return replace(subject, **changed)


def value_changed(subject: Subject, ability: str, change: Callable[[Array], Any]) -> Subject:
    """The subject of which what an ability returns is changed; of a map the value, and not its
    log-det.
    """
    return wrapped(subject, ability, _value_changed, change)


def added(subject: Subject, ability: str, amount: float) -> Subject:
    """The subject of which what an ability returns is off by a constant."""
    return value_changed(subject, ability, partial(np.add, amount))


def multiplied(subject: Subject, ability: str, factor: float) -> Subject:
    """The subject of which what an ability returns is off by a factor."""
    return value_changed(subject, ability, partial(np.multiply, factor))


def ladj_changed(subject: Subject, call: str, change: Callable[[Array, Array], Any]) -> Subject:
    """The subject of which the log-det of a map becomes ``change(log-det, x)``."""
    return wrapped(subject, call, _ladj_changed, change)


def ladj_added(subject: Subject, call: str, amount: float) -> Subject:
    """The subject of which the log-det of a map is off by a constant."""
    return ladj_changed(subject, call, lambda ladj, x: ladj + amount)


def ladj_multiplied(subject: Subject, call: str, factor: float) -> Subject:
    """The subject of which the log-det of a map is off by a factor."""
    return ladj_changed(subject, call, lambda ladj, x: ladj * factor)


def _value_changed(call: Callable[..., Any], change: Callable[[Array], Any], *inputs: Any) -> Any:
    out = call(*inputs)
    if isinstance(out, Mapped):
        return Mapped(np.asarray(change(np.asarray(out.value))), out.ladj)
    return np.asarray(change(np.asarray(out)))


def _ladj_changed(
    call: Callable[..., Mapped], change: Callable[[Array, Array], Any], x: Array, *others: Any
) -> Mapped:
    out = call(x, *others)
    return Mapped(out.value, change(np.asarray(out.ladj), x))


# Calls in any manner


def mannered(subject: Subject, change: CallChange) -> Subject:
    """The subject whose calls, in any manner, are answered by ``change(call, name, inputs,
    manner)``.
    """
    calls: dict[str, Call[Any]] = {
        name: replace(call, mannered=partial(change, call.mannered, name))
        for name, call in subject.calls.items()
    }
    return replace(subject, calls=calls)


def answered(subject: Subject, change: Callable[[Mapped, Asked], Mapped]) -> Subject:
    """The subject of which the outcome of every call, in any manner, is changed."""
    return mannered(subject, partial(_answered, change))


def _answered(
    change: Callable[[Mapped, Asked], Mapped],
    call: Remade,
    name: str,
    inputs: tuple[Any, ...],
    manner: Manner,
) -> Mapped:
    return change(call(inputs, manner), Asked(name, inputs, manner))


def shifted_where(subject: Subject, chosen: Callable[[Asked], bool], size: float) -> Subject:
    """The subject of which the values of some calls are off by a constant."""
    return answered(subject, lambda out, asked: shifted(out, size) if chosen(asked) else out)


def observed(subject: Subject, **changes: Any) -> Subject:
    """The subject with some of what is observed around its calls changed."""
    calls: dict[str, Call[Any]] = {
        name: replace(call, observed=partial(_reobserved, call.observed, changes))
        for name, call in subject.calls.items()
    }
    return replace(subject, calls=calls)


def _reobserved(
    observe: Callable[..., Any], changes: dict[str, Any], inputs: tuple[Any, ...], *manner: Any
) -> Any:
    return observe(inputs, *manner)._replace(**changes)


# Lives


def living(subject: Subject, change: LifeChange) -> Subject:
    """The subject with the outcomes of its lives changed, seen as a whole."""
    return wrapped(subject, "play", _changed_life, change)


def _changed_life(
    play: Callable[..., Life], change: LifeChange, steps: Steps, fresh: bool = False
) -> Life:
    return Life(steps, change(steps, list(play(steps, fresh))))


def where(
    chosen: Callable[[Step[Any]], bool],
    change: Callable[[Any], Any],
    steps: Steps,
    outcomes: list[Any],
) -> list[Any]:
    """The outcomes of a life, those of some steps changed."""
    return [change(out) if chosen(step) else out for step, out in zip(steps, outcomes, strict=True)]


def at(subject: Subject, kind: Kind, change: Callable[[Any], Any]) -> Subject:
    """The subject with the outcome of every step of a kind changed."""
    return living(subject, partial(where, lambda step: isinstance(step, kind), change))


def after(subject: Subject, first: Kind, kind: Kind, change: Callable[[Any], Any]) -> Subject:
    """The subject with the outcome of every step of a kind changed that comes after another."""
    return living(subject, partial(later, first, kind, change))


def later(
    first: Kind, kind: Kind, change: Callable[[Any], Any], steps: Steps, outcomes: list[Any]
) -> list[Any]:
    """The outcomes of a life, those of a kind changed that come after a step of another."""
    starts = [index for index, step in enumerate(steps) if isinstance(step, first)]
    start = min(starts, default=len(steps)) + 1
    late = where(lambda step: isinstance(step, kind), change, steps[start:], outcomes[start:])
    return [*outcomes[:start], *late]


def refusing(subject: Subject, kind: Kind, error: Exception) -> Subject:
    """The subject of which a life with a step of a kind raises."""
    return wrapped(subject, "play", _refused, kind, error)


def _refused(
    play: Callable[..., Life],
    kind: Kind,
    error: Exception,
    steps: Steps,
    fresh: bool = False,
) -> Life:
    if any(isinstance(step, kind) for step in steps):
        raise error
    return play(steps, fresh)
