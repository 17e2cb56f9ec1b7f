"""Constructions of reference layers other than Real NVP: splines, autoregressive and residual flows,
convolutions with a receptive field, continuous flows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from flowref.adapters.reference.constructions import (
    FEATURES,
    PIXELS,
    Construction,
    _build_reference_layer,
)

if TYPE_CHECKING:
    from flowref.reference.continuous import Trace

BINS = 4
# Tolerance, end time and maximal steps of continuous flows; laws make hundreds of calls.
SOLVED, TIME, MOST = 1e-6, 0.1, 128
PLANE = (2,)
SPLINE, BOX = {"bins": BINS}, {"bins": BINS, "tails": None}
PLAIN: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "Spline": ("Spline", (FEATURES,), SPLINE, FEATURES),
    "Spline[tails=None]": ("Spline", (FEATURES,), BOX, FEATURES),
    "MaskedAutoregressive": ("MaskedAutoregressive", (4, (8,)), {}, FEATURES),
    "MaskedAutoregressive[order]": ("MaskedAutoregressive", (4, (8,), (2, 0, 3, 1)), {}, FEATURES),
    "AutoregressiveSpline": ("AutoregressiveSpline", (4, (8,)), SPLINE, FEATURES),
    "PeriodicConvolution": ("PeriodicConvolution", (2,), {}, PIXELS),
    "MaskedConvolution": ("MaskedConvolution", (2,), {}, PIXELS),
    "MaskedConvolution[backward]": ("MaskedConvolution", (2,), {"backward": True}, PIXELS),
    "EmergingConvolution": ("EmergingConvolution", (2,), {}, PIXELS),
}


def bijections() -> Mapping[str, Construction]:
    """The maps of these families."""
    table: dict[str, Construction] = {
        name: (partial(_build_reference_layer, kind, arguments, options), event)
        for name, (kind, arguments, options, event) in PLAIN.items()
    }
    table["SplineCoupling"] = _coupling, FEATURES
    table["SplineCoupling[checkerboard]"] = _board, PIXELS
    table["InverseAutoregressive"] = _inverse_autoregressive, FEATURES
    table["Residual"] = partial(_residual, None), FEATURES
    table["Residual[series]"] = partial(_residual, "PowerSeries"), FEATURES
    table["Residual[roulette]"] = partial(_residual, "Roulette"), FEATURES
    table["CNF"] = partial(_continuous, "exact"), PLANE
    table["CNF[hutchinson]"] = partial(_continuous, "hutchinson"), PLANE
    table["OTFlow"] = _optimal_transport, PLANE
    table["Chain[wide]"] = _chain, FEATURES
    return table


def _coupling() -> Any:
    from flowref.reference import MLP, SplineCoupling, channel_mask

    return SplineCoupling(channel_mask(4), MLP(2, 2 * (3 * BINS - 1), (8,)), BINS)


def _board() -> Any:
    from flowref.reference import ResNet, SplineCoupling, checkerboard_mask

    conditioner = ResNet(2, 2 * (3 * BINS - 1), hidden=4, blocks=1)
    return SplineCoupling(checkerboard_mask(4, 4), conditioner, BINS)


def _inverse_autoregressive() -> Any:
    from flowref.reference import Inverse, MaskedAutoregressive

    return Inverse(MaskedAutoregressive(4, (8,)))


def _residual(log_det: str | None) -> Any:
    from flowref import reference

    options = {"PowerSeries": (4, 1), "Roulette": (0.5, 2, 1)}
    method = None if log_det is None else getattr(reference, log_det)(*options[log_det])
    return reference.Residual(reference.Contraction(4, (8,), 0.6), log_det=method)


def _continuous(trace: Trace) -> Any:
    from flowref.reference import CNF, TimedMLP

    return CNF(TimedMLP(2, (6,)), TIME, trace, SOLVED, MOST)


def _optimal_transport() -> Any:
    from flowref.reference import OTFlow, Potential

    return OTFlow(Potential(2, 4), TIME, SOLVED, MOST)


def _chain() -> Any:
    """Batch normalization, a 1x1 convolution and a coupling, with two of these families."""
    from flowref.reference import (
        AutoregressiveSpline,
        Chain,
        InvertibleBatchNorm,
        InvertibleConv1x1,
    )

    layers = InvertibleBatchNorm(4), InvertibleConv1x1(4), AutoregressiveSpline(4, (8,), bins=BINS)
    return Chain(*layers, _coupling())
