"""Declared supports, shapes and compositions of transforms and distributions that follow
torch.distributions.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_supports import constraint_support, interval
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.model import REAL, Facts, Shape, Support, TargetError

TraitsOf = Callable[[Any], Traits]

# Numbers of entries tried without any hint.
USUAL = (2, 3, 4)
# Deviation from one of the mass of torch's von Mises distribution: its Bessel functions are the
# polynomials of Abramowitz and Stegun (9.8.1, 9.8.2), whose errors are below this.
BESSEL = 2e-7
# Zuko renames torch's wrapper of an inverse on import.
INVERSES = frozenset({"_InverseTransform", "Inverse"})
COMPOSITIONS = frozenset({"ComposeTransform", "ComposedTransform"})
WIDENED = frozenset({"IndependentTransform", "DependentTransform"})


def declared_traits(transform: Any, promises: frozenset[str] = frozenset()) -> Traits:
    """The traits of a single transform that maps its declared domain onto its codomain."""
    domain = constraint_support(transform.domain, whole=False)
    return Traits(
        domain or REAL,
        constraint_support(transform.codomain),
        promises=promises,
        declared=domain is not None,
    )


def traits_by_parts(
    transform: Any, traits: TraitsOf, join: Callable[[Sequence[Traits]], Traits] = compose
) -> Traits | None:
    """The traits of an inverse, a composition, or a transform with more event dimensions; None for others.
    ``traits``: those of a part.
    """
    names = lineage(transform)
    if names & INVERSES:
        return traits(transform.inv).inverted()
    if names & COMPOSITIONS:
        whole = join([traits(stage) for stage in _stages(transform)])
        return (
            whole
            if whole.declared
            else traits_on_invariant_interval(whole, _stages(transform), traits)
        )
    return traits(_widened(transform)) if names & WIDENED else None


def traits_on_invariant_interval(whole: Traits, stages: Sequence[Any], traits: TraitsOf) -> Traits:
    """The traits of a composition restricted to the interval that its stages map into each other's domains,
    if affine maps of numbers precede a bounded one; unchanged otherwise.
    """
    reached = REAL
    for stage in reversed(stages):
        if reached != REAL:
            ends = _affine_ends(stage, reached)
            if ends is None:
                return whole
            reached = interval(*ends)
        own = traits(stage).domain
        low, high = max(own.low, reached.low), min(own.high, reached.high)
        if own.kind in ("ordered", "simplex", "product") or low >= high:
            return whole
        reached = interval(low, high)
    return replace(whole, domain=reached, declared=True)


def _affine_ends(stage: Any, reached: Support) -> tuple[float, float] | None:
    """The ends of the preimage of an interval under an affine map; None for other maps."""
    turned = bool(lineage(stage) & INVERSES)
    affine = stage.inv if turned else stage
    if "AffineTransform" not in lineage(affine):
        return None
    loc, scale = (getattr(value, "numel", lambda: 1)() for value in (affine.loc, affine.scale))
    if loc != 1 or scale != 1 or not float(affine.scale):
        return None
    shift, factor = float(affine.loc), float(affine.scale)
    ends = [
        end * factor + shift if turned else (end - shift) / factor
        for end in (reached.low, reached.high)
    ]
    return min(ends), max(ends)


def _stages(transform: Any) -> Sequence[Any]:
    stages: Sequence[Any] = transform.parts if hasattr(transform, "parts") else transform.transforms
    return stages


def _widened(transform: Any) -> Any:
    return transform.base_transform if hasattr(transform, "base_transform") else transform.base


def transform_facts(
    transform: Any, event: Shape | None, traits: Traits, context: Shape | None = None
) -> Facts:
    """The facts of a transform, whose log-det keeps event axes beyond the transform's event dimensions."""
    event_dim = int(transform.domain.event_dim)
    shape = event if event is not None else transform_event_shape(transform, stated_event_shape)
    if shape is None and (shape := probed_event_shape(transform)) is None:
        raise unknown_shape(transform)
    if len(shape) < event_dim:
        raise TargetError(
            f"{type(transform).__name__} acts on events of {event_dim} dimensions, but the shape "
            f"{shape} was given; "
            "give one size per dimension, as in ?event=2,4,4"
        )
    latent = tuple(int(size) for size in transform.forward_shape(_torch_size(shape)))
    ladj_event = shape[: len(shape) - event_dim]
    return facts_of(traits, shape, latent, ladj_event=ladj_event, context_shape=context)


def stated_event_shape(transform: Any) -> Shape | None:
    """The event shape in an attribute of a user's transform; torch's have none."""
    shape = getattr(transform, "event_shape", None)
    return (shape,) if type(shape) is int else tuple(shape) if isinstance(shape, tuple) else None


def probed_event_shape(transform: Any) -> Shape | None:
    """The first number of entries, from attributes and tensors, that a copy of a vector transform preserves
    with one log-det; None if there is none.
    """
    import torch

    if transform.domain.event_dim != 1 or not isinstance(transform, torch.nn.Module):
        return None
    tensors = [*transform.parameters(), *transform.buffers()]
    integers = [value for value in vars(transform).values() if type(value) is int and value > 0]
    sizes = [*integers, *(tensor.shape[-1] for tensor in tensors if tensor.ndim), *USUAL]
    dtype = next((one.dtype for one in tensors if one.is_floating_point()), None)
    for size in dict.fromkeys(sizes):
        x = torch.full((2, size), 0.5, dtype=dtype)
        with contextlib.suppress(Exception):  # it takes another number
            call: Any = copy.deepcopy(transform)
            y = call(x)
            if y.shape == x.shape and call.log_abs_det_jacobian(x, y).shape == (2,):
                return (size,)
    return None


def _torch_size(shape: Shape) -> Any:
    import torch

    return torch.Size(shape)


def transform_event_shape(
    transform: Any, own: Callable[[Any], Shape | None] = lambda _: None
) -> Shape | None:
    """The event shape in a transform's attributes; ``()`` for a univariate one without tensors.

    ``own``: applied first, for a library's own classes.
    """
    shape = own(transform)
    if shape is not None:
        return shape
    names = lineage(transform)
    if names & INVERSES:
        inner = transform_event_shape(transform.inv, own)
        return None if inner is None else tuple(transform.inv.forward_shape(_torch_size(inner)))
    if "ReshapeTransform" in names:
        return tuple(transform.in_shape)
    if names & WIDENED:
        return _wide_enough(transform_event_shape(_widened(transform), own), transform)
    if names & {"CatTransform", "StackTransform"} and transform.dim == -1:
        lengths = getattr(transform, "lengths", [1] * len(transform.transforms))
        return (int(sum(lengths)),)
    if names & COMPOSITIONS:
        stages = _stages(transform)
        for index, stage in enumerate(stages):
            shape = transform_event_shape(stage, own)
            if shape:
                for before in reversed(stages[:index]):
                    shape = tuple(before.inverse_shape(_torch_size(shape)))
                return _wide_enough(shape, transform)
    tensors = [value for value in vars(transform).values() if type(value).__name__ == "Tensor"]
    widest = max((tuple(tensor.shape) for tensor in tensors), key=len, default=())
    return _wide_enough(widest, transform)


def _wide_enough(shape: Shape | None, transform: Any) -> Shape | None:
    return shape if shape is not None and len(shape) >= transform.domain.event_dim else None


def distribution_facts(distribution: Any, event: Shape | None) -> Facts:
    """The facts of a distribution as a density; a batch of distributions is not one density."""
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
    except NotImplementedError:  # raised by the base class if no support is declared
        constraint = None
    if constraint is not None and constraint.is_discrete:
        raise TargetError(f"{name} is discrete; only densities can be audited")
    support = None if constraint is None else constraint_support(constraint, whole=False)
    promises: dict[str, Any] = {"batch-dims": True}
    if "VonMises" in lineage(innermost(distribution)):
        promises["normalization-tolerance"] = BESSEL * max(1, math.prod(shape))
    return Facts(
        event_shape=shape,
        latent_shape=shape,
        domain=support or REAL,
        codomain=None,
        declared=support is not None,
        promises=promises,
    )


def innermost(distribution: Any) -> Any:
    """The innermost base distribution."""
    while (base := getattr(distribution, "base_dist", None)) is not None:
        distribution = base
    return distribution


def flow_facts(density: Any, event: Shape, traits: TraitsOf, **promises: Any) -> Facts:
    """The facts of a density of transformed latents, as a map from latents to data."""
    from torch.distributions import ComposeTransform

    whole = ComposeTransform(list(density.transforms))
    facts = transform_facts(whole, event, compose([traits(one) for one in density.transforms]))
    own = {**base_promises(density.base_dist), "samples-from-base": True, **promises}
    return replace(facts, latent_shape=event, promises={**facts.promises, **own})


def on_the_line(density: Any, traits: TraitsOf) -> bool:
    """Whether data and latents of a transformed density have one shape and the real line as support, so
    that their roles are interchangeable; False without transforms.
    """
    transforms = getattr(density, "transforms", None)
    if not transforms or density.event_shape != density.base_dist.event_shape:
        return False
    if len(density.batch_shape):
        return False
    whole = compose([traits(one) for one in transforms])
    return REAL == whole.domain == whole.codomain and whole.declared


def rebuilt(facts: Facts) -> Facts:
    """The facts of a user's object without what a rebuild may change: a random order of coordinates."""
    promises = {name: value for name, value in facts.promises.items() if name != "autoregressive"}
    return replace(facts, promises=promises)
