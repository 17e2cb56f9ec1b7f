"""A user's object while its shapes and calling conventions are determined by trial calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flowref.adapters.user.conventions.call_forms import CallForm, Chosen
from flowref.adapters.user.conventions.roles import forward_call_form
from flowref.model import Array, Dialect, Facts, Shape, draw_points

# Rows of a trial batch: unlike usual numbers of features or returned values.
ROWS = 7


@dataclass(frozen=True)
class Inquiry:
    """The state of an inquiry about ``obj``, a copy in eval mode, in a ``dtype``: its calling convention
    and facts from attributes, the choices for ambiguous conventions (``chosen``), and the remarks
    (``said``) and reasons (``why``) so far.
    """

    obj: Any
    dialect: Dialect
    backend: Any
    dtype: str
    facts: Facts
    chosen: Chosen
    said: tuple[str, ...] = ()
    why: tuple[str, ...] = ()

    @property
    def way(self) -> CallForm | None:
        """The usual call of its map; None if it has no map."""
        return None if self.dialect.forward is None else forward_call_form(self.obj, self.chosen)

    def knowing(self, *said: str, **chosen: str) -> Inquiry:
        """The inquiry with further remarks and choices."""
        return replace(self, said=(*self.said, *said), chosen={**self.chosen, **chosen})

    def without(self, name: str) -> Inquiry:
        """The inquiry without one choice."""
        return replace(self, chosen={key: one for key, one in self.chosen.items() if key != name})

    def having(self, **facts: Any) -> Inquiry:
        """The inquiry with other facts."""
        return replace(self, facts=replace(self.facts, **facts))

    def again(self) -> Inquiry:
        """The inquiry about a fresh copy, independent of this one."""
        return replace(self, obj=self.backend.duplicate(self.obj))

    def tensor(self, array: Array) -> Any:
        """An array as a tensor of the same shape, in the object's framework and dtype."""
        return self.backend.tensor(array, self.dtype)

    def drawn(self, event: Shape | None = None, rows: int = ROWS) -> Any:
        """Points ``(rows, *event)`` of its domain, of its own event shape by default."""
        shape = self.facts.event_shape if event is None else event
        return self.tensor(draw_points(self.facts.domain, (rows, *shape), np.random.default_rng(0)))

    def points(self, *contexts: Shape, rows: int = ROWS) -> list[Any]:
        """Points of its domain, and contexts ``(rows, *shape)`` of the given shapes."""
        rng = np.random.default_rng(0)
        x = draw_points(self.facts.domain, (rows, *self.facts.event_shape), rng)
        return [*map(self.tensor, (x, *(rng.standard_normal((rows, *one)) for one in contexts)))]

    def tried_at(self, event: Shape, context: Shape | None) -> tuple[Any, Any]:
        """Points and contexts ``(ROWS, *shape)`` of candidate shapes."""
        domain, rng = self.facts.domain, np.random.default_rng(0)
        x = rng.uniform(0.25, 0.75, (ROWS, *event))
        if self.facts.declared and domain.has_end and not domain.coordinates:
            x = draw_points(domain, (ROWS, *event), rng)
        given = None if context is None else self.tensor(rng.standard_normal((ROWS, *context)))
        return self.tensor(x), given

    @property
    def state(self) -> Sequence[Shape]:
        """The shapes of its arrays."""
        shapes: Sequence[Shape] = self.backend.state_shapes(self.obj)
        return shapes
