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


def is_pair(obj: Any) -> bool:
    """Whether an object is a tuple of two callables, a module among them, of which none has a way back of its own."""
    if not isinstance(obj, tuple) or len(obj) != 2 or not all(map(callable, obj)):
        return False
    alone = not any(hasattr(one, name) for one in obj for name in ("inverse", "log_prob"))
    return alone and any(isinstance(one, nn.Module) for one in obj)
