"""flowref's own reference layers, tested by the same laws as any library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowref.adapters.common.normalizers import spellings
from flowref.adapters.common.object_components import components_of, numbered
from flowref.adapters.common.published_models import components_of_models
from flowref.adapters.reference import (
    constructions,
    constructions_diffusion,
    constructions_kernels,
    constructions_wide,
    published_models,
)
from flowref.adapters.reference.facts import describe
from flowref.model import Adapter, Component, Dialect


def forward(obj: Any, x: Any, context: Any) -> Any:
    y, ladj = obj(x)
    return y, ladj


def inverse(obj: Any, y: Any, context: Any) -> Any:
    x, ladj = obj.inverse(y)
    return x, ladj


def parts(obj: Any) -> Any:
    return numbered(getattr(obj, "bijections", ()))


def chain(parts: Sequence[Any]) -> Any:
    from flowref.reference import Chain

    return Chain(*parts)


def invert(obj: Any) -> Any:
    from flowref.reference import Inverse

    return Inverse(obj)


def flow_parts(obj: Any) -> Any:
    return parts(obj.bijection)


def log_prob(obj: Any, x: Any, context: Any) -> Any:
    return obj.log_prob(x)


def sample(obj: Any, n: int, context: Any) -> Any:
    return obj.sample(n)


def base_log_prob(obj: Any, z: Any, context: Any) -> Any:
    return obj.base.log_prob(z)


def base_sample(obj: Any, n: int, context: Any) -> Any:
    return obj.base.sample(n)


def rsample(obj: Any, n: int, context: Any) -> Any:
    return obj.rsample(n)


def rescale(obj: Any, factor: float) -> Any:
    from flowref.reference import Affine, Chain, Flow

    return Flow(obj.base, Chain(Affine(0.0, 1 / factor), obj.bijection))


def bits_per_dim(obj: Any, x: Any, context: Any) -> Any:
    return obj.bits_per_dim(x)


def loss(obj: Any, x: Any, context: Any, weight: float = 1.0) -> Any:
    from flowref.reference import real_nvp_loss

    return real_nvp_loss(obj, x, weight)


def cdf(obj: Any, x: Any) -> Any:
    return obj.cdf(x)


def icdf(obj: Any, u: Any) -> Any:
    return obj.icdf(u)


def estimate(obj: Any, x: Any, draws: int, context: Any) -> Any:
    return obj.estimate(x, draws)


def repair(obj: Any) -> None:
    for layer in obj.modules():
        if hasattr(layer, "settle"):
            layer.settle()


def push(obj: Any, x: Any, context: Any) -> Any:
    z, contribution = obj(x)
    return z, contribution


def pull(obj: Any, z: Any, context: Any) -> Any:
    x, contribution = obj.inverse(z)
    return x, contribution


def dequantize(obj: Any, levels: Any, noise: Any) -> Any:
    return obj(levels, noise)[0]


LAYER = Dialect(
    forward=forward, inverse=inverse, parts=parts, chain=chain, invert=invert, repair=repair
)
FLOW = Dialect(
    forward=forward,
    inverse=inverse,
    log_prob=log_prob,
    sample=sample,
    base_log_prob=base_log_prob,
    parts=flow_parts,
    base_sample=base_sample,
    rsample=rsample,
    rescale=rescale,
    bits_per_dim=bits_per_dim,
    loss=loss,
    repair=repair,
)
UNIVARIATE = Dialect(log_prob=log_prob, sample=sample, cdf=cdf, icdf=icdf)
ATOMS = Dialect(cdf=cdf, icdf=icdf)
LATENT = Dialect(log_prob=log_prob, sample=sample, estimate=estimate)
TOKENS = Dialect(log_prob=log_prob, sample=sample)
KERNEL = Dialect(push=push, pull=pull, repair=repair)
BOUND = Dialect(log_prob=log_prob, sample=sample, repair=repair)
# A surjection: its inverse drops the noise.
DEQUANTIZER = Dialect(dequantize=dequantize)


def components() -> Mapping[str, Component]:
    """All layers that are maps, in every rank and with every option that changes their computation; and
    densities.
    """
    promised = constructions.promised
    return {
        **components_of(constructions.normalizers(), _normalizer_dialect, describe),
        **components_of(constructions.bijections(), LAYER, describe, promised),
        **components_of(constructions_wide.bijections(), LAYER, describe),
        **components_of(constructions_diffusion.bijections(), LAYER, describe),
        **components_of(constructions.flows(), FLOW, describe, promised),
        **components_of(constructions_diffusion.flows(), FLOW, describe),
        **components_of(constructions_diffusion.tokens(), TOKENS, describe),
        **components_of(constructions.univariate(), _univariate_dialect, describe),
        **components_of(constructions.latent_models(), LATENT, describe),
        **components_of(constructions.surjections(), DEQUANTIZER, describe),
        **components_of(constructions_kernels.kernels(), KERNEL, describe),
        **components_of(constructions_kernels.flows(), BOUND, describe),
    }


def models() -> Mapping[str, Component]:
    """Real NVP of published size."""
    return {
        **components_of_models(published_models.models(), LAYER, describe),
        **components_of_models(published_models.flows(), FLOW, describe),
    }


def _normalizer_dialect(name: str) -> Dialect:
    return spellings.DIALECT if name.startswith("BatchNorm") else LAYER


def _univariate_dialect(name: str) -> Dialect:
    return ATOMS if name == "Atoms" else UNIVARIATE


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a reference layer or a subclass; None for others, including other classes of this
    package.
    """
    from flowref.reference import (
        Atoms,
        BatchNorm,
        Bijection,
        Dequantize,
        Exponential,
        Flow,
        GaussianLatentModel,
        Kernel,
        KernelFlow,
        TokenDiffusion,
    )

    if isinstance(obj, BatchNorm):
        return spellings.DIALECT
    if isinstance(obj, Flow):
        return FLOW
    for kind, dialect in (
        (Exponential, UNIVARIATE),
        (Atoms, ATOMS),
        (GaussianLatentModel, LATENT),
        (TokenDiffusion, TOKENS),
        (Dequantize, DEQUANTIZER),
        (Kernel, KERNEL),
        (KernelFlow, BOUND),
    ):
        if isinstance(obj, kind):
            return dialect
    return LAYER if isinstance(obj, Bijection) else None


def healthy() -> tuple[str, ...]:
    return tuple(components())


ADAPTER = Adapter(
    healthy=healthy,
    name="reference",
    package="flowref",
    title="flowref.reference",
    components=components,
    published=models,
    recognizes=recognizes,
    describe=describe,
)
