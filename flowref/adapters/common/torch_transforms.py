"""What transforms and distributions that follow torch.distributions declare: supports, shapes and
compositions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowref.adapters.common.described import lineage
from flowref.model import REAL, Facts, Shape, Support, TargetError

JOINT = ("volume-preserving", "constant-jacobian", "elementwise", "monotone", "straight-through")
EITHER = ("estimator", "straight-through")
# Zuko renames torch's wrapper of an inverse when it is imported.
INVERSES = frozenset({"_InverseTransform", "Inverse"})
VOLUME = frozenset({"volume-preserving", "constant-jacobian"})
CONSTANT = frozenset({"constant-jacobian"})
ELEMENTWISE = frozenset({"elementwise", "monotone"})


@dataclass(frozen=True)
class Traits:
    """What one map is known to be. ``tolerance``: that of an iterative inverse, in the units of its
    result.
    """

    domain: Support = REAL
    codomain: Support | None = None
    knots: tuple[float, ...] = ()
    promises: frozenset[str] = frozenset()
    tolerance: float = 0.0
    declared: bool = True

    def inverted(self) -> Traits:
        """The traits of the inverse map."""
        known = self.codomain is not None
        domain = self.codomain if self.codomain is not None else REAL
        return replace(
            self, domain=domain, codomain=self.domain, knots=(), declared=self.declared and known
        )


def interval(low: float, high: float) -> Support:
    """An interval, by its name where it has one."""
    named = {(-math.inf, math.inf): "real", (0.0, 1.0): "unit", (0.0, math.inf): "positive"}
    return Support.parse(named.get((low, high), (low, high)))


def support_of(constraint: Any, whole: bool = True) -> Support | None:
    """The support that a constraint describes, or None where no support does.

    A product set has one interval for all coordinates. Where theirs differ, the result is None, or
    with ``whole`` False the intersection, in which the map is defined all the same.
    """
    kind = type(constraint).__name__.lstrip("_")
    if kind == "IndependentConstraint":
        return support_of(constraint.base_constraint, whole)
    if kind in ("Real", "RealVector"):
        return REAL
    if kind == "Simplex":
        return Support.parse("simplex")
    if kind == "OrderedVector":
        return Support.parse("ordered")
    if kind in ("Cat", "Stack"):
        return _met([support_of(one, whole) for one in constraint.cseq], whole)
    lows, highs = (
        _ends(constraint, "lower_bound", -math.inf),
        _ends(constraint, "upper_bound", math.inf),
    )
    if kind.startswith("Integer") or (lows, highs) == ([-math.inf], [math.inf]):
        return None
    if whole and (len(set(lows)) > 1 or len(set(highs)) > 1):
        return None
    return interval(max(lows), min(highs)) if max(lows) < min(highs) else None


def _ends(constraint: Any, name: str, default: float) -> list[float]:
    value = getattr(constraint, name, default)
    return [
        float(end)
        for end in (value.detach().reshape(-1).tolist() if hasattr(value, "detach") else [value])
    ]


def _met(supports: Sequence[Support | None], whole: bool) -> Support | None:
    known = [one for one in supports if one is not None]
    if len(known) < len(supports) or not known:
        return None
    if all(one == known[0] for one in known):
        return known[0]
    low, high = max(one.low for one in known), min(one.high for one in known)
    return (
        None
        if whole or low >= high or {"simplex", "ordered"} & {one.kind for one in known}
        else interval(low, high)
    )


def declared_traits(transform: Any, promises: frozenset[str] = frozenset()) -> Traits:
    """The traits of a single transform whose declared domain and codomain are those it maps
    between.
    """
    domain = support_of(transform.domain, whole=False)
    return Traits(
        domain or REAL,
        support_of(transform.codomain),
        promises=promises,
        declared=domain is not None,
    )


def composed(maps: Sequence[Traits]) -> Traits:
    """The composition, first map first.

    It is onto the last codomain only where each codomain is the next domain; its domain is the
    first one only where each codomain lies in the next domain.
    """
    if not maps:
        return Traits(codomain=REAL, promises=VOLUME | ELEMENTWISE)
    pairs = list(itertools.pairwise(maps))
    promises = {name for name in JOINT if all(name in one.promises for one in maps)}
    promises |= {name for name in EITHER if any(name in one.promises for one in maps)}
    if "batch-dims" in frozenset.intersection(*(one.promises for one in maps)):
        promises.add("batch-dims")
    ordered = [one.promises & {"autoregressive", "elementwise"} for one in maps]
    if all(ordered) and any("autoregressive" in one for one in ordered):
        promises.add("autoregressive")
    onto = all(first.codomain == second.domain for first, second in pairs)
    within = all(_inside(first.codomain, second.domain) for first, second in pairs)
    return Traits(
        domain=maps[0].domain,
        codomain=maps[-1].codomain if onto else None,
        knots=maps[0].knots,
        promises=frozenset(promises),
        tolerance=max(one.tolerance for one in maps),
        declared=within and all(one.declared for one in maps),
    )


def _inside(inner: Support | None, outer: Support) -> bool:
    """Whether one support is known to lie in another."""
    if outer == REAL or inner == outer:
        return True
    joint = {"simplex", "ordered"}
    return (
        inner is not None
        and outer.kind not in joint
        and outer.low <= inner.low
        and inner.high <= outer.high
    )


def settled(facts: Facts) -> Facts:
    """Facts of a user's object less what may differ the next time it is built: a random order of
    its coordinates.
    """
    return replace(
        facts,
        promises={
            name: value for name, value in facts.promises.items() if name != "autoregressive"
        },
    )


def facts_of(
    traits: Traits,
    event: Shape,
    latent: Shape,
    ladj_event: Shape = (),
    context: Shape | None = None,
) -> Facts:
    """Traits as facts."""
    promises: dict[str, Any] = dict.fromkeys(sorted(traits.promises), True)
    if traits.tolerance:
        promises["inverse_tolerance"] = traits.tolerance
    return Facts(
        event_shape=event,
        latent_shape=latent,
        domain=traits.domain,
        codomain=traits.codomain,
        declared=traits.declared,
        context_shape=context,
        ladj_event=ladj_event,
        knots=traits.knots,
        promises=promises,
    )


def transform_facts(
    transform: Any, event: Shape | None, traits: Traits, context: Shape | None = None
) -> Facts:
    """The facts of a transform, whose log-det keeps the event axes left of the transform's own
    event dimensions.
    """
    event_dim = int(transform.domain.event_dim)
    shape = event if event is not None else event_of(transform)
    if shape is None:
        raise unknown_shape(transform)
    if len(shape) < event_dim:
        raise TargetError(
            f"{type(transform).__name__} acts on events of {event_dim} dimensions, but the shape "
            f"{shape} was given; "
            "give one size per dimension, as in ?event=2,4,4"
        )
    latent = tuple(int(size) for size in transform.forward_shape(_size(shape)))
    return facts_of(traits, shape, latent, shape[: len(shape) - event_dim], context)


def unknown_shape(obj: Any) -> TargetError:
    """What to say where an object does not tell its event shape."""
    return TargetError(
        f"{type(obj).__name__} does not tell the shape of its events; give it, as in ?event=4 or "
        "?event=4,4,4"
    )


def _size(shape: Shape) -> Any:
    import torch

    return torch.Size(shape)


def event_of(transform: Any, own: Callable[[Any], Shape | None] = lambda _: None) -> Shape | None:
    """The event shape that a transform's attributes tell; ``()`` for a univariate one that holds no
    tensors.

    ``own``: what a library's classes tell, asked first.
    """
    found = own(transform)
    if found is not None:
        return found
    names = lineage(transform)
    if names & INVERSES:
        inner = event_of(transform.inv, own)
        return None if inner is None else tuple(transform.inv.forward_shape(_size(inner)))
    if "ReshapeTransform" in names:
        return tuple(transform.in_shape)
    for attribute in ("base_transform", "base"):
        if names & {"IndependentTransform", "DependentTransform"} and hasattr(transform, attribute):
            return _wide_enough(event_of(getattr(transform, attribute), own), transform)
    if names & {"CatTransform", "StackTransform"} and transform.dim == -1:
        return (
            (int(sum(transform.lengths)),)
            if hasattr(transform, "lengths")
            else (len(transform.transforms),)
        )
    if names & {"ComposeTransform", "ComposedTransform"}:
        stages = transform.parts if hasattr(transform, "parts") else transform.transforms
        for place, stage in enumerate(stages):
            shape = event_of(stage, own)
            if shape:
                for before in reversed(stages[:place]):
                    shape = tuple(before.inverse_shape(_size(shape)))
                return _wide_enough(shape, transform)
    tensors = [
        value
        for value in vars(transform).values()
        if hasattr(value, "dim") and hasattr(value, "shape")
    ]
    shape = max(
        (tuple(tensor.shape) for tensor in tensors if type(tensor).__name__ == "Tensor"),
        key=len,
        default=(),
    )
    return _wide_enough(shape, transform)


def _wide_enough(shape: Shape | None, transform: Any) -> Shape | None:
    return shape if shape is not None and len(shape) >= transform.domain.event_dim else None


def distribution_facts(distribution: Any, event: Shape | None) -> Facts:
    """The facts of a density given as a distribution; a batch of distributions is not one density."""
    name = type(distribution).__name__
    if len(distribution.batch_shape):
        shape = tuple(distribution.batch_shape)
        raise TargetError(
            f"{name} is a batch of distributions of shape {shape}; wrap it as Independent(it, "
            f"{len(shape)})"
        )
    shape = tuple(distribution.event_shape)
    if event is not None and event != shape:
        raise TargetError(f"{name} has events of shape {shape}, but the shape {event} was given")
    try:
        constraint = distribution.support
    except (
        NotImplementedError
    ):  # what the base class raises for a distribution that declares no support
        constraint = None
    if constraint is not None and constraint.is_discrete:
        raise TargetError(f"{name} is discrete; only densities can be audited")
    support = None if constraint is None else support_of(constraint, whole=False)
    return Facts(
        event_shape=shape,
        latent_shape=shape,
        domain=support or REAL,
        codomain=None,
        declared=support is not None,
        promises={"batch-dims": True},
    )
