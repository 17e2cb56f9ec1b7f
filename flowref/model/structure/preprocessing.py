"""Preprocessing of bounded data to the real line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    r"""A logit on bounded data: $h = \log\frac{p}{1-p}$ with $p = \alpha + (1 - 2\alpha)\,x / b$.

    ``alpha``: $\alpha$; if positive, both ends of the range are in the domain. ``bound``: $b$, the data lie
    in $[0, b]$. ``bins``: number of levels in the range, $b$ / bins apart; None for continuous data.
    ``alone``: whether the map is this logit alone; False for a flow that begins with it.
    """

    alpha: float = 0.0
    bound: float = 1.0
    bins: int | None = None
    alone: bool = True

    @property
    def slope(self) -> float:
        """$dp/dx$."""
        return (1 - 2 * self.alpha) / self.bound
