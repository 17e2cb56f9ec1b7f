"""A draft of a subject: how an object speaks and what is known of it so far, which experiments complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.user.conventions.call_evidence import Settled
from flowref.adapters.user.inquiry import ROWS
from flowref.loading.instance import Instance
from flowref.loading.round_trip_cost import Rehearsal
from flowref.loading.size import is_large
from flowref.model import Array, Dialect, Facts, draw_points

NOTHING: Mapping[str, Any] = {}


class Finding(NamedTuple):
    """What an experiment shows. ``told``: what the words of its row are said of, once for each; ``facts`` and
    ``promises``: beside those that are known; ``dialect``: the one that stands from now on, None where it stays.
    """

    told: tuple[str, ...] = ("",)
    facts: Mapping[str, Any] = NOTHING
    promises: Mapping[str, Any] = NOTHING
    dialect: Dialect | None = None


@dataclass(frozen=True)
class Draft:
    """What is known of an object: its ``facts``, how it is called (``spoken``), and ``why``, a sentence each.
    ``rehearsal``: a subject of it, once its calls are known, and what a round trip took.
    """

    instance: Instance
    facts: Facts
    spoken: Settled
    why: tuple[str, ...] = ()
    rehearsal: Rehearsal | None = None

    @property
    def dialect(self) -> Dialect:
        """How the object is called."""
        return self.spoken.dialect

    @property
    def points(self) -> tuple[Array, Array | None]:
        """See `domain_points`."""
        return domain_points(self.facts)

    def saying(self, *words: str) -> Draft:
        """The same with more words on the target's line."""
        return replace(self, spoken=self.spoken.saying(*filter(None, words)))

    def having(self, found: Finding) -> Draft:
        """The same with what an experiment shows."""
        promises = {**self.facts.promises, **found.promises}
        facts = replace(self.facts, promises=promises, **found.facts)
        spoken = replace(self.spoken, dialect=found.dialect or self.dialect)
        return replace(self, facts=facts, spoken=spoken)

    def ask(
        self, call: Callable[..., Any] | None, x: Array, context: Array | None = None, seed: int = 0
    ) -> Any:
        """What a call of a fresh copy in eval mode returns, in a random state."""
        backend, dtype = self.instance.backend, self.instance.dtype
        assert call is not None
        with backend.sandbox(seed, dtype):
            given = None if context is None else backend.tensor(context, dtype)
            return call(self.instance.resting(), backend.tensor(x, dtype), given)

    def array(self, value: Any) -> Array:
        """What a call returned, as numbers."""
        return np.asarray(self.instance.backend.array(value))


class Experiment(NamedTuple):
    """A row of a table: the ``fact`` that ``run`` finds, None where it is not so, and the ``words`` that are said of it on
    the target's line, in which what was told stands for {}. ``requires``: what has to hold for it to be asked.
    """

    fact: str
    run: Callable[[Draft], Finding | None]
    words: str
    requires: tuple[Callable[[Draft], bool], ...] = ()


def run_experiments(draft: Draft, table: Iterable[Experiment]) -> Draft:
    """A draft with what the experiments of a table show, one after the other."""
    for one in table:
        asked = all(holds(draft) for holds in one.requires)
        if asked and (found := one.run(draft)) is not None:
            draft = draft.having(found).saying(*map(one.words.format, found.told))
    return draft


def domain_points(facts: Facts) -> tuple[Array, Array | None]:
    """Ordinary points of the domain, with contexts if there are any."""
    rng = np.random.default_rng(0)
    rows = ROWS
    if is_large(facts.event_shape):  # as few as show what is an axis of the batch
        taken = {*facts.event_shape, *(facts.context_shape or ())}
        rows = next(count for count in (3, 5, ROWS, 11) if count not in taken)
    x = draw_points(facts.domain, (rows, *facts.event_shape), rng)
    context = facts.context_shape
    return x, None if context is None else rng.standard_normal((rows, *context))
