"""Facts of torch's transforms, distributions and batch normalizers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowref.adapters.common.normalizers import shapes, spellings
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_transforms import (
    declared_traits,
    distribution_facts,
    flow_facts,
    on_the_line,
    traits_by_parts,
    transform_facts,
)
from flowref.adapters.common.traits import Traits, facts_of
from flowref.model import Facts, Preprocessing, Shape

PROMISES: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("ExpTransform", "SigmoidTransform", "SoftplusTransform", "TanhTransform"), ELEMENTWISE
    ),
    "CumulativeDistributionTransform": ELEMENTWISE,
    "AffineTransform": CONSTANT | {"elementwise"},
    "PowerTransform": frozenset({"elementwise"}),
    "ReshapeTransform": VOLUME | CONSTANT,
}
# Onto the interior of a simplex or ball, which no `Support` describes.
VECTORS = "IndependentConstraint(Real(), 1)"
ONTO_INTERIORS = frozenset({"StickBreakingTransform", "CorrCholeskyTransform"})


def traits(transform: Any) -> Traits:
    """The traits of a transform of torch or of the user's."""
    whole = traits_by_parts(transform, traits)
    if whole is not None:
        return whole
    names = lineage(transform)
    promises = class_promises(PROMISES, names) | {"batch-dims"}
    if names & {"CatTransform", "StackTransform"}:
        promises |= frozenset.intersection(
            *(traits(part).promises for part in transform.transforms)
        )
    slope = getattr(transform, "scale" if "AffineTransform" in names else "exponent", 0.0)
    if names & {"AffineTransform", "PowerTransform"} and bool(
        (slope > 0) if isinstance(slope, float) else (slope > 0).all()
    ):
        promises |= {"monotone"}
    return declared_traits(transform, promises)


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform or distribution, with its event shape if it states one."""
    if spellings.of_torch(obj):
        facts = shapes.facts(obj, event_shape)
        if not facts.event_shape:
            raise unknown_shape(obj)
        return facts
    names = lineage(obj)
    if "Distribution" in names:
        facts = distribution_facts(obj, event_shape)
        return (
            flow_facts(obj, facts.event_shape, traits) if is_flow(obj) else _with_rate(obj, facts)
        )
    if names & ONTO_INTERIORS or onto_simplex(obj):
        if event_shape is None:
            raise unknown_shape(obj)
        return facts_of(Traits(promises=frozenset({"batch-dims"})), event_shape, event_shape)
    facts = transform_facts(obj, event_shape, traits(obj))
    # The inverse of a sigmoid, which maps data to latents, is the logit of unit-interval data.
    return replace(facts, preprocessing=Preprocessing()) if "SigmoidTransform" in names else facts


def onto_simplex(transform: Any) -> bool:
    """Whether a transform maps vectors onto a simplex, with one coordinate more."""
    import torch

    if (str(transform.domain), str(transform.codomain)) != (VECTORS, "Simplex()"):
        return False
    return tuple(transform.forward_shape(torch.Size((4,)))) == (5,)


def _with_rate(obj: Any, facts: Facts) -> Facts:
    """The facts of a density, with the rate of an exponential one."""
    if "Exponential" not in lineage(obj):
        return facts
    return replace(facts, promises={**facts.promises, "exponential-rate": float(obj.rate)})


def is_flow(obj: Any) -> bool:
    """Whether a distribution is transforms over a base, with interchangeable sides."""
    return "TransformedDistribution" in lineage(obj) and on_the_line(obj, traits)
