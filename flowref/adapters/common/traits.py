"""Traits of a map by its class, before any call, and of compositions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from flowref.adapters.common.promises import CONSTANT, EITHER, ELEMENTWISE, JOINT, VOLUME
from flowref.model import REAL, Facts, Shape, Support


@dataclass(frozen=True)
class Traits:
    """What is known of a map $f$.

    ``codomain``: None if unknown. ``knots``: where its formula changes. ``tolerance``: of an iterative
    inverse, in units of its result. ``declared``: whether the domain is stated rather than assumed.
    """

    domain: Support = REAL
    codomain: Support | None = None
    knots: tuple[float, ...] = ()
    promises: frozenset[str] = frozenset()
    tolerance: float = 0.0
    declared: bool = True

    def inverted(self) -> Traits:
        """The traits of $f^{-1}$."""
        return replace(
            self,
            domain=self.codomain or REAL,
            codomain=self.domain,
            knots=(),
            declared=self.codomain is not None,
        )


def compose(maps: Sequence[Traits]) -> Traits:
    r"""The traits of $f_n \circ \dots \circ f_1$, first map first; of the identity for no map.

    The codomain is the last one only if each codomain equals the next domain; the domain is the first one
    only if each codomain lies in the next domain.
    """
    if not maps:
        return Traits(codomain=REAL, promises=VOLUME | CONSTANT | ELEMENTWISE)
    promises = frozenset.intersection(*(one.promises for one in maps)) & JOINT
    promises |= frozenset().union(*(one.promises for one in maps)) & EITHER
    ordered = [one.promises & {"autoregressive", "elementwise"} for one in maps]
    if all(ordered) and any("autoregressive" in one for one in ordered):
        promises |= {"autoregressive"}
    pairs = [(first.codomain, second.domain) for first, second in pairwise(maps)]
    onto = all(codomain == domain for codomain, domain in pairs)
    within = all(lies_in(codomain, domain) for codomain, domain in pairs)
    return Traits(
        domain=maps[0].domain,
        codomain=maps[-1].codomain if onto else None,
        knots=maps[0].knots,
        promises=promises,
        tolerance=max(one.tolerance for one in maps),
        declared=within and all(one.declared for one in maps),
    )


def lies_in(inner: Support | None, outer: Support) -> bool:
    """Whether a support is known to lie in another."""
    if outer == REAL or inner == outer:
        return True
    joint = {"simplex", "ordered"}
    return (
        inner is not None
        and outer.kind not in joint
        and outer.low <= inner.low
        and inner.high <= outer.high
    )


def facts_of(
    traits: Traits,
    event: Shape,
    latent: Shape,
    promises: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Facts:
    """Traits as facts of a map between events and latents of these shapes.

    ``promises``: additional ones. ``fields``: other fields of `Facts`.
    """
    every: dict[str, Any] = dict.fromkeys(sorted(traits.promises), True)
    if traits.tolerance:
        every["inverse_tolerance"] = traits.tolerance
    return Facts(
        event_shape=event,
        latent_shape=latent,
        domain=traits.domain,
        codomain=traits.codomain,
        declared=traits.declared,
        knots=traits.knots,
        promises={**every, **(promises or {})},
        **fields,
    )
