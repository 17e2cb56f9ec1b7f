"""glasflow: flows from data to latents, and the copy of nflows that it bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common import nflows_constructions as constructions
from flowref.adapters.common import nflows_family as family
from flowref.adapters.common.described import described
from flowref.model import Adapter, Component, Dialect


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    """Map data to latents."""
    return obj.forward(x, conditional=context)


def inverse(obj: Any, z: Any, context: Any = None) -> Any:
    """Map latents to data."""
    return obj.inverse(z, conditional=context)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    """The log-density of data."""
    return obj.log_prob(x, conditional=context)


def sample(obj: Any, n: int, context: Any = None) -> Any:
    """Draw data."""
    return obj.sample(n, conditional=context)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    """The log-density of latents."""
    return obj.base_distribution_log_prob(z)


def chain(parts: Sequence[Any]) -> Any:
    """Compose transforms, first first."""
    from glasflow.nflows.transforms import CompositeTransform

    return CompositeTransform(parts)


def invert(obj: Any) -> Any:
    """Wrap a transform in its inverse."""
    from glasflow.nflows.transforms import InverseTransform

    return InverseTransform(obj)


def rescale(obj: Any, factor: float) -> Any:
    """The flow of data multiplied by a factor."""
    from glasflow.flows.base import Flow
    from glasflow.nflows.transforms import CompositeTransform, PointwiseAffineTransform

    return Flow(
        CompositeTransform([PointwiseAffineTransform(0.0, 1 / factor), obj._transform]),
        obj._distribution,
    )


FLOW = Dialect(
    forward=forward,
    inverse=inverse,
    log_prob=log_prob,
    sample=sample,
    base_log_prob=base_log_prob,
    base_sample=family.flow_base_sample,
    rescale=rescale,
    parts=family.flow_parts,
    chain=chain,
    repair=family.repair,
)
CONDITIONAL = replace(FLOW, parts=None, chain=None)
TRANSFORM = Dialect(
    forward=family.forward, inverse=family.inverse, chain=chain, invert=invert, repair=family.repair
)
COMPOSITE = replace(TRANSFORM, parts=family.parts)
BUNDLED_FLOW = Dialect(
    forward=family.flow_forward,
    inverse=family.flow_inverse,
    log_prob=family.flow_log_prob,
    sample=family.flow_sample,
    base_log_prob=family.flow_base_log_prob,
    parts=family.flow_parts,
    chain=chain,
    repair=family.repair,
)
BUNDLED_CONDITIONAL = replace(BUNDLED_FLOW, parts=None, chain=None)


def components() -> Mapping[str, Component]:
    """The flows of glasflow, and every transform of the bundled nflows under the prefix
    ``nflows.``.
    """
    found = {}
    for name, build in {
        **{
            f"RealNVP[linear={kind}]": _real_nvp(linear_transform=kind)
            for kind in (None, "permutation", "lu", "svd")
        },
        "RealNVP[bn_between]": _real_nvp(batch_norm_between_transforms=True),
        "RealNVP[volume_preserving]": _real_nvp(volume_preserving=True),
        "RealNVP[features=2]": lambda features=2: _real_nvp()(features),
        "CouplingNSF": _coupling_nsf(),
        "CouplingNSF[features=2]": lambda features=2: _coupling_nsf()(features),
        "CouplingNSF[uniform]": _coupling_nsf(distribution="uniform"),
        "MaskedAffineAutoregressiveFlow": _autoregressive("MaskedAffine"),
        "MaskedPiecewiseRationalQuadraticAutoregressiveFlow": _autoregressive(
            "MaskedPiecewiseRationalQuadratic", tails="linear", tail_bound=3.0
        ),
    }.items():
        stacked = {"transforms-all": True} if name.startswith(("RealNVP", "CouplingNSF")) else {}
        found[name] = described(name, build, FLOW, family.describe, None, **stacked)
    conditional = _real_nvp(n_conditional_inputs=3)
    found["RealNVP[conditional]"] = described(
        "RealNVP[conditional]", conditional, CONDITIONAL, family.describe
    )
    for inner, (build, event) in constructions.transforms("glasflow.nflows").items():
        dialect = COMPOSITE if inner.startswith("Composite") else TRANSFORM
        found[f"nflows.{inner}"] = described(
            f"nflows.{inner}", build, dialect, family.describe, event
        )
    return found


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a glasflow flow, or of a transform or flow of the bundled nflows, or None."""
    from glasflow.flows.base import Flow
    from glasflow.nflows.flows import Flow as BundledFlow
    from glasflow.nflows.transforms import CompositeTransform, Transform

    if isinstance(obj, Flow):
        return FLOW if family._context(obj) is None else CONDITIONAL
    if isinstance(obj, BundledFlow):
        return BUNDLED_FLOW if family._context(obj) is None else BUNDLED_CONDITIONAL
    if isinstance(obj, CompositeTransform):
        return COMPOSITE
    return TRANSFORM if isinstance(obj, Transform) else None


def _real_nvp(**fixed: Any) -> Any:
    def build(features: int = 4, n_transforms: int = 2) -> Any:
        from glasflow import RealNVP

        return RealNVP(features, n_transforms, **fixed)

    return build


def _coupling_nsf(**fixed: Any) -> Any:
    def build(features: int = 4, n_transforms: int = 2) -> Any:
        from glasflow import CouplingNSF

        return CouplingNSF(features, n_transforms, **fixed)

    return build


def _autoregressive(kind: str, **fixed: Any) -> Any:
    def build(features: int = 4, n_transforms: int = 2) -> Any:
        from glasflow.flows import autoregressive

        return getattr(autoregressive, f"{kind}AutoregressiveFlow")(features, n_transforms, **fixed)

    return build


ADAPTER = Adapter(
    name="glasflow",
    package="glasflow",
    title="glasflow",
    components=components,
    recognizes=recognizes,
    describe=family.describe,
)
