"""An object of a user's that is asked which shapes it takes and how it speaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flowref.adapters.user.conventions.call_forms import Chosen, Way
from flowref.adapters.user.conventions.roles import forward_way
from flowref.model import Array, Dialect, Facts, Shape, draw_points

# Events in a batch that is tried: no number of features or of returned things that is usual.
ROWS = 7


@dataclass(frozen=True)
class Inquiry:
    """What is asked of ``obj``, a copy in eval mode, in a ``dtype``: how it is called as attributes tell it, its facts,
    what was ``chosen`` where conventions are ambiguous, and what was ``said`` and decided (``why``) so far.
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
    def way(self) -> Way | None:
        """How its map is called as it is written; None where it has none."""
        return None if self.dialect.forward is None else forward_way(self.obj, self.chosen)

    def knowing(self, *said: str, **chosen: str) -> Inquiry:
        """The same with more that is said and chosen."""
        return replace(self, said=(*self.said, *said), chosen={**self.chosen, **chosen})

    def without(self, name: str) -> Inquiry:
        """The same where one thing is not chosen."""
        return replace(self, chosen={key: one for key, one in self.chosen.items() if key != name})

    def having(self, **facts: Any) -> Inquiry:
        """The same with other facts."""
        return replace(self, facts=replace(self.facts, **facts))

    def again(self) -> Inquiry:
        """The same of another copy, which nothing that this one goes through changes."""
        return replace(self, obj=self.backend.duplicate(self.obj))

    def tensor(self, array: Array) -> Any:
        """Numbers as it takes them."""
        return self.backend.tensor(array, self.dtype)

    def drawn(self, event: Shape | None = None, rows: int = ROWS) -> Any:
        """Points of its domain, of its event shape or of another."""
        shape = self.facts.event_shape if event is None else event
        return self.tensor(draw_points(self.facts.domain, (rows, *shape), np.random.default_rng(0)))

    def points(self, *contexts: Shape, rows: int = ROWS) -> list[Any]:
        """Points of its domain and of its event shape, and contexts of these shapes."""
        rng = np.random.default_rng(0)
        x = draw_points(self.facts.domain, (rows, *self.facts.event_shape), rng)
        return [*map(self.tensor, (x, *(rng.standard_normal((rows, *one)) for one in contexts)))]

    def tried_at(self, event: Shape, context: Shape | None) -> tuple[Any, Any]:
        """Points, with their contexts, of shapes that may be its own."""
        domain, rng = self.facts.domain, np.random.default_rng(0)
        x = rng.uniform(0.25, 0.75, (ROWS, *event))
        if self.facts.declared and domain.bounded and not domain.coordinates:
            x = draw_points(domain, (ROWS, *event), rng)
        given = None if context is None else self.tensor(rng.standard_normal((ROWS, *context)))
        return self.tensor(x), given

    @property
    def state(self) -> Sequence[Shape]:
        """The shapes of the arrays that it holds."""
        shapes: Sequence[Shape] = self.backend.state_shapes(self.obj)
        return shapes
