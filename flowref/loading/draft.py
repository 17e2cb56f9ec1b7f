"""A draft of a subject: the calling convention of an object and its facts so far, which experiments
complete.
"""

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
    """The result of an experiment.

    ``details``: values for the words of its row, one remark each; ``facts`` and ``promises``: additions;
    ``dialect``: the new calling convention, and ``latent``: what its forward returns; None if unchanged.
    """

    details: tuple[str, ...] = ("",)
    facts: Mapping[str, Any] = NOTHING
    promises: Mapping[str, Any] = NOTHING
    dialect: Dialect | None = None
    latent: Any = None


@dataclass(frozen=True)
class Draft:
    """What is known of an object: its ``facts``, its resolved calls (``resolved``), and ``why``, a sentence
    each.

    ``rehearsal``: a subject made of it and the cost of a round trip, once its calls are known.
    """

    instance: Instance
    facts: Facts
    resolved: Settled
    why: tuple[str, ...] = ()
    rehearsal: Rehearsal | None = None

    @property
    def dialect(self) -> Dialect:
        """The calling convention."""
        return self.resolved.dialect

    @property
    def points(self) -> tuple[Array, Array | None]:
        """Ordinary points ``(n, *event)`` and contexts, see `domain_points`."""
        return domain_points(self.facts)

    def saying(self, *words: str) -> Draft:
        """The draft with more remarks on the target's line."""
        return replace(self, resolved=self.resolved.saying(*filter(None, words)))

    def having(self, found: Finding) -> Draft:
        """The draft with the result of an experiment."""
        promises = {**self.facts.promises, **found.promises}
        facts = replace(self.facts, promises=promises, **found.facts)
        latent = self.resolved.latent if found.latent is None else found.latent
        resolved = replace(self.resolved, dialect=found.dialect or self.dialect, latent=latent)
        return replace(self, facts=facts, resolved=resolved)

    def ask(
        self, call: Callable[..., Any] | None, x: Array, context: Array | None = None, seed: int = 0
    ) -> Any:
        """The return value of ``call`` on a fresh copy in eval mode at points ``(n, *event)`` and contexts
        ``(n, *context)``, under a random state.
        """
        backend, dtype = self.instance.backend, self.instance.dtype
        assert call is not None
        with backend.sandbox(seed, dtype):
            given = None if context is None else backend.tensor(context, dtype)
            return call(self.instance.resting(), backend.tensor(x, dtype), given)

    def array(self, value: Any) -> Array:
        """A returned tensor as a numpy array of the same shape."""
        return np.asarray(self.instance.backend.array(value))


class Experiment(NamedTuple):
    """A row of a table of experiments.

    ``run`` finds the ``fact``, or returns None; ``words``: the remark on the target's line, with {} for
    what was found; ``requires``: conditions on the draft for running it.
    """

    fact: str
    run: Callable[[Draft], Finding | None]
    words: str
    requires: tuple[Callable[[Draft], bool], ...] = ()


def run_experiments(draft: Draft, table: Iterable[Experiment]) -> Draft:
    """The draft after all experiments of a table, in order."""
    for one in table:
        asked = all(holds(draft) for holds in one.requires)
        if asked and (found := one.run(draft)) is not None:
            draft = draft.having(found).saying(*map(one.words.format, found.details))
    return draft


def domain_points(facts: Facts) -> tuple[Array, Array | None]:
    """Ordinary points ``(n, *event)`` of the domain, and contexts ``(n, *context)`` or None."""
    rng = np.random.default_rng(0)
    rows = ROWS
    if is_large(facts.event_shape):  # just enough to show the axis of the batch
        taken = {*facts.event_shape, *(facts.context_shape or ())}
        rows = next(count for count in (3, 5, ROWS, 11) if count not in taken)
    x = draw_points(facts.domain, (rows, *facts.event_shape), rng)
    context = facts.context_shape
    return x, None if context is None else rng.standard_normal((rows, *context))
