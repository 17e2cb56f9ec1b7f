"""The inverse of a bijection as a subject, to which the same laws apply."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flowref.model.call import OPPOSITE
from flowref.model.steps import Life, Run, Step
from flowref.model.subject import Subject
from flowref.model.support import REAL

ITERATES, ACCURACY = "iterative-forward", "inverse-tolerance"


def inverted(subject: Subject) -> Subject:
    """The subject with ``forward`` and ``inverse`` exchanged, without facts of one direction or of the
    whole object. It has no calls if there is no inverse.
    """
    facts, promises = subject.facts, dict(subject.promises)
    if ACCURACY in promises and not promises.pop(ITERATES, False):
        promises[ITERATES] = True
    turned_facts = replace(
        facts,
        event_shape=subject.latent_shape,
        latent_shape=facts.event_shape,
        domain=facts.codomain or REAL,
        codomain=facts.domain,
        declared=facts.declared and facts.codomain is not None,
        promises=promises,
        coupling=None,
        preprocessing=None,
        cost=replace(
            facts.cost, calls={swap_directions(name): of for name, of in facts.cost.calls.items()}
        ),
    )
    calls = {
        swap_directions(name): replace(call, name=swap_directions(name))
        for name, call in subject.calls.items()
        if name in OPPOSITE and {*OPPOSITE} <= {*subject.calls}
    }
    return replace(
        subject,
        facts=turned_facts,
        calls=calls,
        normalizing="forward",
        play=_play_with_swapped_directions(subject.play),
        arrange=None,
        walk=None,
        own=None,
        single=None,
        parts=(),
        part_maps=(),
        refined=None,
        jacobian=_with_swapped_direction(subject.jacobian),
        vjp=_with_swapped_direction(subject.vjp),
        along=_with_swapped_direction(subject.along),
        slope=_with_swapped_direction(subject.slope),
    )


def _play_with_swapped_directions(play: Callable[..., Life] | None) -> Callable[..., Life] | None:
    if play is None:
        return None
    known = play

    def turned_around(plan: Sequence[Step[Any]], fresh: bool = False) -> Life:
        return Life(plan, known([_around(step) for step in plan], fresh).outcomes)

    return turned_around


def _around(step: Step[Any]) -> Step[Any]:
    if not isinstance(step, Run) or step.call not in OPPOSITE:
        return step
    return Run(
        OPPOSITE[step.call],
        *step.inputs,
        how=step.how,
        draws=step.draws,
        held=step.held,
        kept=step.kept,
    )


def _with_swapped_direction(ability: Callable[..., Any] | None) -> Callable[..., Any] | None:
    if ability is None:
        return None
    known = ability
    return lambda which, *inputs, **named: known(OPPOSITE.get(which, which), *inputs, **named)


def swap_directions(text: str) -> str:
    """A text with the two directions exchanged.

    >>> swap_directions("the gradient of forward"), swap_directions("inverse")
    ('the gradient of inverse', 'forward')
    """
    return re.sub(r"\b(forward|inverse)\b", lambda found: OPPOSITE[found[1]], text)
