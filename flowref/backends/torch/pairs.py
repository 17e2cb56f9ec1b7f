"""Two modules of which one is the inverse of the other."""

from __future__ import annotations

from typing import Any

from torch import nn

# What a map may say of itself.
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
        """What the map returns."""
        return self.there(x)

    def inverse(self, z: Any) -> Any:
        """What the inverse returns."""
        return self.back(z)


def paired(obj: tuple[Any, ...]) -> Pair | None:
    """The map of two callables, a module among them, of which neither has a way back of its own; None of all else."""
    if len(obj) != 2 or not all(map(callable, obj)):
        return None
    alone = not any(hasattr(one, name) for one in obj for name in ("inverse", "log_prob"))
    return Pair(*obj) if alone and any(isinstance(one, nn.Module) for one in obj) else None
