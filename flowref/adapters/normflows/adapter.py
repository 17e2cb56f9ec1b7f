"""normflows: flows whose forward call maps latents to data, and densities over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import components_of, lineage, numbered
from flowref.adapters.common.published_models import components_of_models
from flowref.adapters.normflows import bases, constructions, kernels, published_models
from flowref.adapters.normflows.facts import describe, describe_levels
from flowref.adapters.normflows.shapes import takes_context
from flowref.model import Adapter, Component, Dialect, Facts, Shape


def forward(obj: Any, z: Any, context: Any = None) -> Any:
    """Latents ``(n, *latent)`` to data ``(n, *event)``."""
    return obj.forward(z) if context is None else obj.forward(z, context)


def inverse(obj: Any, x: Any, context: Any = None) -> Any:
    """Data ``(n, *event)`` to latents ``(n, *latent)``."""
    return obj.inverse(x) if context is None else obj.inverse(x, context)


def parts(obj: Any) -> Any:
    """The flows of a composite or model, latent side first."""
    flows = obj._flows if hasattr(obj, "_flows") else obj.flows
    return numbered(flows)


def chain(parts: Sequence[Any]) -> Any:
    """Compose flows, first element first."""
    from normflows.flows import Composite

    return Composite(parts)


def invert(obj: Any) -> Any:
    """Wrap a flow in its inverse."""
    from normflows.flows import Reverse

    return Reverse(obj)


def repair(obj: Any) -> None:
    """Let Lipschitz networks renormalize their moved weights, so that they are contractions again."""
    from normflows.utils import update_lipschitz

    update_lipschitz(obj, 200)


def model_forward(obj: Any, z: Any, context: Any = None) -> Any:
    return (
        obj.forward_and_log_det(z)
        if context is None
        else obj.forward_and_log_det(z, context=context)
    )


def model_inverse(obj: Any, x: Any, context: Any = None) -> Any:
    return (
        obj.inverse_and_log_det(x)
        if context is None
        else obj.inverse_and_log_det(x, context=context)
    )


def model_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x) if context is None else obj.log_prob(x, context=context)


def model_sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample(n)[0] if context is None else obj.sample(n, context=context)[0]


def model_sample_log_prob(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample(n) if context is None else obj.sample(n, context=context)


def model_base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.q0.log_prob(z) if context is None else obj.q0.log_prob(z, context=context)


def model_base_sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.q0(n)[0]


def model_rescale(obj: Any, factor: float) -> Any:
    from normflows import NormalizingFlow
    from normflows.flows import AffineConstFlow

    scaling = AffineConstFlow(obj.q0.shape, shift=False)
    scaling.s.data.fill_(math.log(factor))
    return NormalizingFlow(obj.q0, [*obj.flows, scaling])


def model_loss(obj: Any, x: Any, context: Any = None, weight: float = 1.0) -> Any:
    """The forward Kullback-Leibler divergence minus the entropy of the data; without penalty."""
    return (obj.forward_kld(x) if context is None else obj.forward_kld(x, context=context)), None


def latents_of_levels(obj: Any, z: Any) -> list[Any]:
    """The latents of each level in the shape of its base, from flattened ones."""
    shapes = [
        (base.shape,) if isinstance(base.shape, int) else tuple(base.shape) for base in obj.q0
    ]
    parts = z.split([math.prod(shape) for shape in shapes], 1)
    return [part.reshape(len(z), *shape) for part, shape in zip(parts, shapes, strict=True)]


def levels_forward(obj: Any, z: Any, context: Any = None) -> Any:
    """Latents of all levels, flattened to ``(n, entries)``, to data."""
    return obj.forward_and_log_det(latents_of_levels(obj, z))


def levels_inverse(obj: Any, x: Any, context: Any = None) -> Any:
    """Data to latents of all levels, flattened to ``(n, entries)``."""
    import torch

    latents, ladj = obj.inverse_and_log_det(x)
    return torch.cat([part.flatten(1) for part in latents], 1), ladj


def levels_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.log_prob(x, None)


def levels_base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    """The sum of the levels' base log-densities, ``(n,)``."""
    return sum(
        base.log_prob(part) for base, part in zip(obj.q0, latents_of_levels(obj, z), strict=True)
    )


FLOW = Dialect(
    forward=forward,
    inverse=inverse,
    chain=chain,
    invert=invert,
    repair=repair,
    normalizing="inverse",
)
COMPOSITE = replace(FLOW, parts=parts)
# The library's compositions do not pass contexts on.
CONTEXTUAL = replace(FLOW, chain=None, invert=None)
# Without an inverse there is no density, and warm-up uses the only call.
ONE_WAY = Dialect(forward=forward, chain=chain, repair=repair, normalizing="forward")
MODEL = Dialect(
    forward=model_forward,
    inverse=model_inverse,
    log_prob=model_log_prob,
    sample=model_sample,
    sample_log_prob=model_sample_log_prob,
    base_log_prob=model_base_log_prob,
    base_sample=model_base_sample,
    rescale=model_rescale,
    loss=model_loss,
    parts=parts,
    chain=chain,
    repair=repair,
    normalizing="inverse",
)
CONDITIONAL = replace(MODEL, parts=None, chain=None, base_sample=None, rescale=None)
SAMPLER = replace(MODEL, inverse=None, log_prob=None, rescale=None, loss=None)
LEVELS = Dialect(
    forward=levels_forward,
    inverse=levels_inverse,
    log_prob=levels_log_prob,
    sample=model_sample,
    base_log_prob=levels_base_log_prob,
    repair=repair,
    normalizing="inverse",
)

NO_INVERSE = ("BatchNorm", "Planar[tanh]", "Radial")
COMPOSITES = ("Composite", "GlowBlock", "GlowBlock[checkerboard]")


def components() -> Mapping[str, Component]:
    """All flows of the library, and models over some of them."""
    return {
        **components_of(constructions.flows(), _flow_dialect, describe, constructions.promised),
        **components_of(constructions.models(), MODEL, describe),
        **components_of(constructions.conditional_models(), CONDITIONAL, describe),
        **components_of(constructions.multi_scale_models(), LEVELS, describe_levels),
        **components_of(bases.constructions(), bases.BASE, bases.describe),
        **components_of(kernels.constructions(), kernels.KERNEL, kernels.describe),
    }


def models() -> Mapping[str, Component]:
    """Models of published size."""
    return {
        **components_of_models(published_models.models(), MODEL, describe),
        **components_of_models(published_models.multi_scale_models(), LEVELS, describe_levels),
    }


def _flow_dialect(name: str) -> Dialect:
    if name.endswith("[ctx]"):
        return CONTEXTUAL
    return ONE_WAY if name in NO_INVERSE else COMPOSITE if name in COMPOSITES else FLOW


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a flow or model of normflows; None for others, such as layers that split a tensor in
    two.
    """
    from normflows import NormalizingFlow, flows
    from torch.nn import Module

    one_way = isinstance(obj, Module) and any(
        isinstance(module, (flows.BatchNorm, flows.Radial))
        or (isinstance(module, flows.Planar) and module.act != "leaky_relu")
        for module in obj.modules()
    )
    if isinstance(obj, NormalizingFlow):
        if one_way:
            return SAMPLER
        conditional = "ConditionalNormalizingFlow" in lineage(obj)  # missing in older versions
        return CONDITIONAL if conditional and takes_context(obj) else MODEL
    if (random := kernels.recognizes(obj)) is not None:
        return random
    if isinstance(obj, (flows.Split, flows.Merge, flows.AffineCoupling)):
        return None
    if one_way and isinstance(obj, flows.base.Flow):
        return ONE_WAY
    if isinstance(obj, (flows.Composite, flows.GlowBlock)):
        return COMPOSITE
    if isinstance(obj, flows.base.Flow):
        return CONTEXTUAL if takes_context(obj) else FLOW
    return bases.recognizes(obj)


def describe_any(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a flow, a model or a base distribution."""
    if kernels.recognizes(obj) is not None:
        return kernels.describe(obj, event_shape)
    of_base = bases.recognizes(obj) is not None
    return (bases.describe if of_base else describe)(obj, event_shape)


ADAPTER = Adapter(
    name="normflows",
    package="normflows",
    title="normflows",
    components=components,
    published=models,
    recognizes=recognizes,
    describe=describe_any,
)
