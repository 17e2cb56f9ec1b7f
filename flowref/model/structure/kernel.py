"""Stochastic layers: the facts needed to test their log-likelihood contributions."""

from __future__ import annotations

from dataclasses import dataclass

# Meanings of the number returned with a value.
MEANINGS = ("contribution", "bound", "estimate", "path-weight")


@dataclass(frozen=True)
class Kernel:
    r"""A stochastic map `push` of data to latents, and perhaps `pull` back, either of which may draw.

    ``push(x, seed) -> (z, V)`` with $V = \log p(x \mid z) - \log q(z \mid x)$, q the distribution of push
    and p of pull; ``pull(z, seed) -> (x, V')`` with $V' = -V$ of the pair. ``draws``: whether push and pull
    draw; None if not declared. ``meaning``: of V, one of `MEANINGS`. ``reached``: whether their outputs
    depend on the random state, by a trace; False if no value carries it.
    """

    draws: tuple[bool | None, bool | None] = (None, None)
    meaning: str = "contribution"
    reached: tuple[bool, bool] = (True, True)

    @property
    def deterministic(self) -> str:
        """The direction that is deterministic while the other draws: "push", "pull" or ""."""
        if self.draws == (False, True):
            return "push"
        return "pull" if self.draws == (True, False) else ""
