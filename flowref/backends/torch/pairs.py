"""Two modules that are inverse to each other."""

from __future__ import annotations

from typing import Any

from torch import nn

# Attributes by which a map declares facts.
SAID = ("event_shape", "domain", "support", "codomain", "promises")


class Pair(nn.Module):
    """A map whose inverse is another object."""

    def __init__(self, there: Any, back: Any) -> None:
        super().__init__()
        self.there, self.back = there, back
        for name in SAID:
            if hasattr(there, name):
                setattr(self, name, getattr(there, name))

    def forward(self, x: Any) -> Any:
        """Calls the map."""
        return self.there(x)

    def inverse(self, z: Any) -> Any:
        """Calls the inverse."""
        return self.back(z)


def paired(obj: tuple[Any, ...]) -> Pair | None:
    """Returns a `Pair` of two callables, at least one a module, without inverses of their own;
    None for other tuples.
    """
    if len(obj) != 2 or not all(map(callable, obj)):
        return None
    alone = not any(hasattr(one, name) for one in obj for name in ("inverse", "log_prob"))
    return Pair(*obj) if alone and any(isinstance(one, nn.Module) for one in obj) else None
