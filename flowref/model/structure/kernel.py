"""Kernels: what must be known of a map that draws before its contributions can be judged."""

from __future__ import annotations

from dataclasses import dataclass

# What the number beside a value is.
MEANINGS = ("contribution", "bound", "estimate", "path-weight")


@dataclass(frozen=True)
class Kernel:
    r"""A map `push` of data to latents, and perhaps `pull` back, either of which may draw.

    ``push(x, seed) -> (z, V)`` with $V = \log p(x \mid z) - \log q(z \mid x)$, for q what push draws
    and p what pull draws; ``pull(z, seed) -> (x, V')`` with $V' = -V$ of the pair.
    ``draws``: whether push and pull draw, as the object says; None where it does not say. ``meaning``:
    of V, one of `MEANINGS`. ``reached``: whether their random state reaches what push and pull return, where a
    trace of them tells: False where no value that they are given lets it.
    """

    draws: tuple[bool | None, bool | None] = (None, None)
    meaning: str = "contribution"
    reached: tuple[bool, bool] = (True, True)

    @property
    def deterministic(self) -> str:
        """The direction that draws nothing while the other one does: "push", "pull" or ""."""
        if self.draws == (False, True):
            return "push"
        return "pull" if self.draws == (True, False) else ""
