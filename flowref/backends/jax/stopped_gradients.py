"""Arrays whose gradients a program stops: constants stored as leaves, as equinox advises for what
is not trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr

from flowref.backends.jax.operation_count import equations
from flowref.backends.jax.primitives import CALLS

STOP = "stop_gradient"
# Primitives that return their argument in another shape or dtype.
PASSIVE = frozenset(
    "broadcast_in_dim convert_element_type copy expand_dims reshape squeeze transpose".split()
)


class Stopped:
    """For each array of an object, whether some call stops its gradient and none passes it."""

    def __init__(self, count: int) -> None:
        self.seen: list[set[bool]] = [set() for _ in range(count)]

    def note(self, closed: ClosedJaxpr) -> None:
        """Records a call, whose first arguments are the arrays."""
        if not any(equation.primitive.name == STOP for equation in equations(closed)):
            for seen in self.seen:
                seen.add(False)
            return
        for seen, variable in zip(self.seen, closed.jaxpr.invars, strict=False):
            seen.update(uses(closed.jaxpr, variable))

    @property
    def flags(self) -> list[bool]:
        """One flag for each array."""
        return [seen == {True} for seen in self.seen]


def uses(jaxpr: Jaxpr, variable: Any) -> Iterator[bool]:
    """Yields for each use of a variable whether it stops the gradient."""
    if any(one is variable for one in jaxpr.outvars):
        yield False
    for equation in jaxpr.eqns:
        places = [place for place, one in enumerate(equation.invars) if one is variable]
        if not places:
            continue
        name = equation.primitive.name
        inside = equation.params.get("jaxpr" if name == "scan" else CALLS.get(name, ""))
        if name == STOP:
            yield True
        elif isinstance(inside, ClosedJaxpr | Jaxpr):
            inner = inside.jaxpr if isinstance(inside, ClosedJaxpr) else inside
            for place in places:
                yield from uses(inner, inner.invars[place])
        elif name in PASSIVE:
            yield from uses(jaxpr, equation.outvars[0])
        else:
            yield False
