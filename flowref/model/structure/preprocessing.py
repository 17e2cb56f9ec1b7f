"""Preprocessing: how bounded data come to the real line before a flow models them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    r"""What is known of a logit on bounded data: $h = \log\frac{p}{1-p}$ with
    $p = \alpha + (1 - 2\alpha)\,x / b$.

    ``alpha``: $\alpha$; with a positive one both ends of the data's range are inside the domain.
    ``bound``: $b$, so that data lie in $[0, b]$. ``bins``: of how many levels the range consists
    (levels are $b$ / bins apart), None where the data are not levels. ``alone``: whether the map to
    the latents is this logit and nothing else; False for a flow that begins with it.
    """

    alpha: float = 0.0
    bound: float = 1.0
    bins: int | None = None
    alone: bool = True

    @property
    def slope(self) -> float:
        """$dp/dx$."""
        return (1 - 2 * self.alpha) / self.bound
