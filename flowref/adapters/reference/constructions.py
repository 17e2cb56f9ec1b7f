"""Constructions of flowref's reference layers, in every rank and with every option that changes their
computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from flowref.model import Shape

VECTOR, SEQUENCE, IMAGE, VOLUME = (3,), (3, 4), (3, 2, 2), (2, 2, 1, 2)
FEATURES, PIXELS, WIDE_IMAGE = (4,), (2, 4, 4), (4, 2, 4)
BINS = 17
NETS = {"hidden": 4, "blocks": 1}
TWO = {"bins": BINS, "couplings": 2, "final": 2, **NETS}
MASKS: dict[str, Shape] = {
    "alternating": FEATURES,
    "halves": FEATURES,
    "odd": (5,),
    "channels": WIDE_IMAGE,
    "checkerboard": PIXELS,
}
MEAN, COVARIANCE = [0.5, -1.0, 0.0], [[2.0, 0.6, -0.4], [0.6, 1.0, 0.3], [-0.4, 0.3, 1.5]]
Construction = tuple[Callable[[], Any], Shape]

# Construction -> class, constructor options besides the number of channels, event shape.
NORMALIZER: dict[str, tuple[str, dict[str, Any], Shape]] = {
    "BatchNorm": ("BatchNorm", {}, VECTOR),
    "BatchNorm[image]": ("BatchNorm", {}, IMAGE),
    "BatchNorm[sequence]": ("BatchNorm", {}, SEQUENCE),
    "BatchNorm[volume]": ("BatchNorm", {}, VOLUME),
    "BatchNorm[affine=False]": ("BatchNorm", {"affine": False}, IMAGE),
    "BatchNorm[momentum=None]": ("BatchNorm", {"momentum": None}, IMAGE),
    "BatchNorm[track_running_stats=False]": ("BatchNorm", {"track_running_stats": False}, IMAGE),
    "InvertibleBatchNorm": ("InvertibleBatchNorm", {"affine": True}, VECTOR),
    "InvertibleBatchNorm[img]": ("InvertibleBatchNorm", {"affine": True}, IMAGE),
    "InvertibleBatchNorm[running]": ("InvertibleBatchNorm", {"stats": "running"}, IMAGE),
    "ActNorm": ("ActNorm", {}, VECTOR),
    "ActNorm[img]": ("ActNorm", {}, IMAGE),
}
# Construction -> class, arguments, options, event shape.
PLAIN: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], Shape]] = {
    "Affine": ("Affine", (0.5, -2.0), {}, FEATURES),
    "Exp": ("Exp", (), {}, FEATURES),
    "Sigmoid": ("Sigmoid", (), {}, FEATURES),
    "Sigmoid[alpha]": ("Sigmoid", (0.05, 256.0), {}, FEATURES),
    "Logit": ("Logit", (), {}, PIXELS),
    "Logit[alpha=0]": ("Logit", (0.0, 1.0), {}, FEATURES),
    "Permute": ("Permute", ([2, 0, 3, 1],), {}, FEATURES),
    "Permute[img]": ("Permute", ([2, 0, 3, 1],), {}, WIDE_IMAGE),
    "Reverse": ("Reverse", (4,), {}, FEATURES),
    "Squeeze": ("Squeeze", (), {}, PIXELS),
    "Squeeze[space_to_depth]": ("Squeeze", ("space_to_depth",), {}, PIXELS),
    "Squeeze[real_nvp]": ("Squeeze", ("real_nvp",), {}, PIXELS),
    "InvertibleConv1x1": ("InvertibleConv1x1", (4,), {}, FEATURES),
    "InvertibleConv1x1[img]": ("InvertibleConv1x1", (2,), {}, PIXELS),
    "InvertibleConv1x1[lu]": ("InvertibleConv1x1", (4,), {"lu": True}, FEATURES),
    "InvertibleConv1x1[lu,img]": ("InvertibleConv1x1", (2,), {"lu": True}, PIXELS),
    "VectorRealNVP": ("VectorRealNVP", (3, 3, (8,)), {}, VECTOR),
    "VectorRealNVP[norm=batch]": ("VectorRealNVP", (4, 2, (8,), "batch"), {}, FEATURES),
    "VectorRealNVP[norm=None]": ("VectorRealNVP", (4, 3, (8,), None, False), {}, FEATURES),
    "RealNVP": ("RealNVP", ((1, 4, 4),), TWO, (1, 4, 4)),
    "RealNVP[scales=1]": ("RealNVP", ((2, 2, 4),), {"scales": 1, "final": 3, **NETS}, (2, 2, 4)),
    "RealNVP[as published]": ("RealNVP", ((1, 2, 4),), {"bins": BINS, **NETS}, (1, 2, 4)),
    "RealNVP[norm=None]": ("RealNVP", ((1, 4, 4),), {**TWO, "conditioner_norm": "batch", "norm": None}, (1, 4, 4)),
}  # fmt: skip


def normalizers() -> Mapping[str, Construction]:
    """Batch norm and its relatives."""
    return {
        name: (partial(_build_reference_layer, kind, (event[0],), options), event)
        for name, (kind, options, event) in NORMALIZER.items()
    }


def bijections() -> Mapping[str, Construction]:
    """The maps of Real NVP, individually and combined."""
    table: dict[str, Construction] = {
        name: (partial(_build_reference_layer, kind, arguments, options), event)
        for name, (kind, arguments, options, event) in PLAIN.items()
    }
    for kind in ("AffineCoupling", "AdditiveCoupling"):
        for mask, event in MASKS.items():
            table[f"{kind}[{mask}]"] = partial(_coupling, kind, mask, event), event
    for name, parameters in {
        "Normal": (0.3, 1.2),
        "Exponential": (1.5,),
        "Laplace": (0.3, 1.2),
    }.items():
        table[f"ElementwiseCDF[{name}]"] = partial(_elementwise_cdf, name, parameters), FEATURES
    table["Rosenblatt"] = _rosenblatt, VECTOR
    table["MultiScale"] = _multi_scale, (1, 4, 4)
    table["Chain"] = _chain, FEATURES
    table["Chain[squeeze]"] = _level, (1, 4, 4)
    table["Inverse"] = _inverse, FEATURES
    return table


def flows() -> Mapping[str, Construction]:
    """Densities."""
    return {
        "Flow[affine]": (_affine_flow, VECTOR),
        "Flow[uniform]": (_uniform_flow, (2,)),
        "Flow[logit]": (_logit_flow, VECTOR),
        "StandardNormalFlow": (partial(_flow, "Chain", (), {}, (2,)), (2,)),
        "Flow[VectorRealNVP]": (
            partial(_flow, "VectorRealNVP", (), {"features": 2, "depth": 3, "hidden": (8,)}, (2,)),
            (2,),
        ),
        "Flow[RealNVP]": (partial(_flow, *PLAIN["RealNVP"][:3], (16,)), (1, 4, 4)),
    }


def promised(name: str) -> dict[str, Any]:
    """Promises of a construction beyond those of its class: names of masks, an initial identity, ..."""
    if name == "Rosenblatt":
        return {"rosenblatt": {"mean": MEAN, "covariance": COVARIANCE}}
    if name == "StandardNormalFlow":
        return {"equivariant": "rotation"}
    if name == "Flow[uniform]":
        return {"uniform-data": 256.0}
    masks = {
        "alternating": "alternating-mask",
        "channels": "channel-mask",
        "checkerboard": "checkerboard-mask",
    }
    if "Coupling[" in name:
        mask = name.partition("[")[2].rstrip("]")
        return {"identity-init": True, **({masks[mask]: True} if mask in masks else {})}
    published = {"real-nvp": True} if name.endswith("[as published]") else {}
    return {"transforms-all": True, **published} if "RealNVP" in name else {}


def univariate() -> Mapping[str, Construction]:
    """Univariate distributions with distribution functions and quantiles."""
    return {
        "Exponential": (partial(_build_reference_layer, "Exponential", (1.5,), {}), ()),
        "Atoms": (_atoms, ()),
    }


def latent_models() -> Mapping[str, Construction]:
    """Latent-variable models with known likelihood that can be estimated."""
    return {"GaussianLatentModel": (_latent_model, (2,))}


def surjections() -> Mapping[str, Construction]:
    """Maps with a one-sided inverse, whose noise is an argument."""
    return {
        "Dequantize": (partial(_build_reference_layer, "Dequantize", (), {}), VECTOR),
        "Dequantize[bins]": (partial(_build_reference_layer, "Dequantize", (BINS,), {}), PIXELS),
    }


def _build_reference_layer(kind: str, arguments: Iterable[Any], options: Mapping[str, Any]) -> Any:
    from flowref import reference

    return getattr(reference, kind)(*arguments, **options)


def _coupling(kind: str, mask: str, event: Shape) -> Any:
    from flowref import reference

    masks = {
        "alternating": lambda: reference.alternating_mask(event[0]),
        "halves": lambda: reference.channel_mask(event[0], 1),
        "odd": lambda: reference.alternating_mask(event[0], 1),
        "channels": lambda: reference.channel_mask(event[0]),
        "checkerboard": lambda: reference.checkerboard_mask(*event[1:]),
    }
    kept = masks[mask]()
    times = 2 if kind == "AffineCoupling" else 1
    inputs = int(kept.sum()) if kept.dim() == 1 else event[0]
    outputs = times * (event[0] - inputs if kept.dim() == 1 else event[0])
    if len(event) == 1:
        conditioner: Any = reference.MLP(inputs, outputs, (8,))
    else:
        conditioner = reference.ResNet(inputs, outputs, hidden=4, blocks=1)
    return getattr(reference, kind)(kept, conditioner)


def _multi_scale() -> Any:
    from flowref.reference import Chain, InvertibleConv1x1, MultiScale, Squeeze

    levels = [Chain(Squeeze(), InvertibleConv1x1(4)), InvertibleConv1x1(2)]
    return MultiScale(levels, [(2, 2, 2), (2, 2, 2)])


def _chain() -> Any:
    from flowref.reference import Chain, Reverse

    return Chain(
        _coupling("AffineCoupling", "halves", FEATURES),
        Reverse(4),
        _coupling("AffineCoupling", "halves", FEATURES),
    )


def _level() -> Any:
    """Couplings of both checkerboards, a squeeze, and couplings of both halves of the channels."""
    from flowref.reference import (
        AffineCoupling,
        Chain,
        ResNet,
        Squeeze,
        channel_mask,
        checkerboard_mask,
    )

    boards = [
        AffineCoupling(checkerboard_mask(4, 4, k), ResNet(1, 2, hidden=4, blocks=1, norm=None))
        for k in range(2)
    ]
    halves = [
        AffineCoupling(channel_mask(4, k), ResNet(2, 4, hidden=4, blocks=1, norm=None))
        for k in range(2)
    ]
    return Chain(*boards, Squeeze(), *halves)


def _inverse() -> Any:
    from flowref.reference import Inverse

    return Inverse(_coupling("AffineCoupling", "alternating", FEATURES))


def _elementwise_cdf(name: str, parameters: Iterable[float]) -> Any:
    from torch import distributions

    from flowref.reference import ElementwiseCDF

    return ElementwiseCDF(getattr(distributions, name)(*parameters))


def _rosenblatt() -> Any:
    import torch

    from flowref.reference import Rosenblatt

    return Rosenblatt(torch.tensor(MEAN), torch.tensor(COVARIANCE))


def _atoms() -> Any:
    import torch

    from flowref.reference import Atoms

    return Atoms(torch.tensor([-1.0, 0.0, 0.5, 2.0]), torch.tensor([0.1, 0.3, 0.2, 0.4]))


def _latent_model() -> Any:
    import torch

    from flowref.reference import GaussianLatentModel

    return GaussianLatentModel(torch.tensor([[1.0], [-0.5]]), torch.tensor([0.3, 0.0]), noise=0.8)


def _affine_flow() -> Any:
    from flowref.reference import Affine, Chain, Flow, InvertibleConv1x1, StandardNormal

    return Flow(
        StandardNormal(VECTOR), Chain(Affine(0.5, -2.0), InvertibleConv1x1(3), Affine(-1.0, 0.7))
    )


def _logit_flow() -> Any:
    from flowref.reference import Affine, Chain, Flow, InvertibleConv1x1, Logit, StandardNormal

    return Flow(StandardNormal(VECTOR), Chain(Logit(), Affine(0.5, 0.4), InvertibleConv1x1(3)))


def _uniform_flow() -> Any:
    """The uniform density of pixels, with eight bits per dimension."""
    from torch.distributions import Normal, Uniform

    from flowref.reference import Chain, ElementwiseCDF, Flow, Inverse, StandardNormal

    flatten = ElementwiseCDF(Uniform(0.0, 256.0))
    return Flow(StandardNormal((2,)), Chain(flatten, Inverse(ElementwiseCDF(Normal(0.0, 1.0)))))


def _flow(kind: str, arguments: Iterable[Any], options: Mapping[str, Any], latents: Shape) -> Any:
    from flowref.reference import Flow, StandardNormal

    return Flow(StandardNormal(latents), _build_reference_layer(kind, arguments, options))
