r"""Flows beyond affine couplings, of the reference and of the libraries that have them: splines in
couplings, masked autoregressive flows, and residual flows with estimated log-dets.

Splines are built around conditioners that are handed in, as couplings are (see `_peers`). Autoregressive
and residual flows are built with each library's own networks of the same widths: how these are made is
part of the method. What a library computes is compared with the reference around that library's
network, recast to the library's formula.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ._peers import Contextual, Model, mask_of
from ._sizes import VECTORS, Architecture

BINS, BOUND, LEAST = 8, 3.0, 1e-3
# The constant of each layer of a residual block's network, and the terms of its series that are
# always there, in eval mode and in train mode: those of normflows, whose further terms are one at least.
COEFFICIENT, TERMS, FEWER = 0.9, 21, 3
# softplus of it is 1 less the least slope: what the reference adds to a slope before the softplus.
AT_ZERO = math.log(math.expm1(1 - LEAST))
Net = Callable[[Tensor], Tensor]


def seeded(index: int) -> torch.Generator:
    """What the weights of a layer are drawn from."""
    return torch.Generator().manual_seed(2000 + index)


def network(sizes: Sequence[int], index: int) -> nn.Sequential:
    """Linear layers and relus, with weights drawn for an index."""
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2000 + index)
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Recast(nn.Module):
    """A network whose numbers are made those that the reference expects."""

    def __init__(self, net: Any, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.change = net, change

    def forward(self, x: Tensor) -> Tensor:
        """The numbers."""
        return self.change(self.net(x))


# Splines


def spline_net(architecture: Architecture, index: int) -> nn.Sequential:
    """The conditioner of a coupling: 3K - 1 numbers for each entry, number by number."""
    half = architecture.event[0] // 2
    return network([half, *architecture.hidden, (3 * BINS - 1) * half], index)


def by_entry(net: nn.Sequential, added: float = 0.0) -> nn.Sequential:
    """A copy that gives the numbers entry by entry, with so much added to slopes."""
    twin = copy.deepcopy(net)
    last: Any = twin[-1]
    with torch.no_grad():
        for values in (last.weight, last.bias):
            rows = values.detach().clone().unflatten(0, (3 * BINS - 1, -1))
            if values.dim() == 1:
                rows[2 * BINS :] += added
            values.copy_(rows.transpose(0, 1).flatten(0, 1))
    return twin


def zuko_knots(numbers: Tensor) -> Tensor:
    """The numbers that give the reference the knots that zuko makes of these."""
    stacked = numbers.unflatten(1, (3 * BINS - 1, -1))
    widths, heights, slopes = stacked.split([BINS, BINS, BINS - 1], 1)
    least = math.log(LEAST)

    def shares(raw: Tensor) -> Tensor:
        share = (raw / (1 + (2 * raw / least).abs())).softmax(1)
        return ((share - LEAST) / (1 - BINS * LEAST)).log()

    slope = (slopes / (1 + (slopes / least).abs())).exp()
    inner = torch.log(torch.expm1(slope - LEAST)) - AT_ZERO
    return torch.cat((shares(widths), shares(heights), inner), 1).flatten(1)


def reference_spline(architecture: Architecture, change: Any = None) -> Any:
    """Couplings of halves by splines."""
    from flowref import reference as ref

    layers = []
    for index in range(architecture.depth):
        net: Any = spline_net(architecture, index)
        mask = mask_of(architecture.event, index % 2 == 1)
        net = net if change is None else Recast(net, change)
        layers.append(ref.SplineCoupling(mask, net, BINS, BOUND))
    return ref.Flow(ref.StandardNormal(architecture.event), ref.Chain(*layers))


def nflows_spline(architecture: Architecture) -> tuple[Model, Any]:
    """Its coupling with linear tails."""
    from nflows import distributions, flows, transforms

    layers = [
        transforms.PiecewiseRationalQuadraticCouplingTransform(
            (~mask_of(architecture.event, index % 2 == 1)).float(),
            lambda i, o, n=index: Contextual(by_entry(spline_net(architecture, n), AT_ZERO)),
            num_bins=BINS,
            tails="linear",
            tail_bound=BOUND,
        )
        for index in range(architecture.depth)
    ]
    base = distributions.StandardNormal(list(architecture.event))
    built = flows.Flow(transforms.CompositeTransform(layers), base)
    return Model(built, built.log_prob, built.sample), reference_spline(architecture)


def normflows_spline(architecture: Architecture) -> tuple[Model, Any]:
    """The coupling inside its wrapper, which would build the network; its inverse is on the way from
    data to latents, that of the coupling is not.
    """
    import normflows
    from normflows.flows.neural_spline.coupling import PiecewiseRationalQuadraticCoupling

    class Turned(normflows.flows.Flow):  # type: ignore[misc]  # normflows is untyped
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, z: Tensor, context: Any = None) -> Any:
            return self.inner.inverse(z, context)

        def inverse(self, x: Tensor, context: Any = None) -> Any:
            return self.inner(x, context)

    layers = [
        Turned(
            PiecewiseRationalQuadraticCoupling(
                (~mask_of(architecture.event, index % 2 == 1)).float(),
                lambda i, o, n=index: Contextual(by_entry(spline_net(architecture, n), AT_ZERO)),
                num_bins=BINS,
                tails="linear",
                tail_bound=BOUND,
            )
        )
        for index in range(architecture.depth)
    ]
    base = normflows.distributions.DiagGaussian(architecture.event[0], trainable=False)
    built = normflows.NormalizingFlow(base, layers[::-1])
    return Model(built, built.log_prob, lambda n: built.sample(n)[0]), reference_spline(
        architecture
    )


def zuko_spline(architecture: Architecture) -> tuple[Model, Any]:
    """Its coupling with its spline, on the reference's box."""
    from zuko.flows.coupling import GeneralCouplingTransform
    from zuko.transforms import MonotonicRQSTransform

    layers = []
    for index in range(architecture.depth):
        layer = GeneralCouplingTransform(
            architecture.event[0],
            mask=mask_of(architecture.event, index % 2 == 1),
            univariate=functools.partial(MonotonicRQSTransform, bound=BOUND, slope=LEAST),
            shapes=[(BINS,), (BINS,), (BINS - 1,)],
        )
        layer.hyper = by_entry(spline_net(architecture, index))
        layers.append(layer)
    return zuko_model(layers, architecture), reference_spline(architecture, zuko_knots)


# Autoregressive flows


def reference_maf(architecture: Architecture, nets: Sequence[Any] = ()) -> Any:
    """Layers in the order of the entries, with networks of their own or with these."""
    from flowref import reference as ref

    layers = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for index in range(architecture.depth):
            layer = ref.MaskedAutoregressive(architecture.event[0], architecture.hidden)
            if nets:
                layer.conditioner = nets[index]
            else:
                last: Any = layer.conditioner[-2]
                nn.init.normal_(last.weight, std=0.1)
            layers.append(layer)
    return ref.Flow(ref.StandardNormal(architecture.event), ref.Chain(*layers))


def scaled(scale: Tensor, shift: Tensor) -> Tensor:
    """Mean and log-scale for the reference of what multiplies by a scale and adds a shift."""
    return torch.stack((-shift / scale, -scale.log()), -1)


def nflows_maf(architecture: Architecture) -> tuple[Model, Any]:
    """Its layers, whose scale is a softplus."""
    from nflows import distributions, flows, transforms

    (features,), width = architecture.event, architecture.hidden[0]

    def change(numbers: Tensor) -> Tensor:
        pairs = numbers.unflatten(1, (features, 2))
        return scaled(nn.functional.softplus(pairs[..., 0]) + 1e-3, pairs[..., 1])

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [
            transforms.MaskedAffineAutoregressiveTransform(
                features, width, num_blocks=1, use_residual_blocks=False
            )
            for _ in range(architecture.depth)
        ]
    built = flows.Flow(
        transforms.CompositeTransform(layers), distributions.StandardNormal([features])
    )
    nets = [Recast(layer.autoregressive_net, change) for layer in layers]
    return Model(built, built.log_prob, built.sample), reference_maf(architecture, nets)


def normflows_maf(architecture: Architecture) -> tuple[Model, Any]:
    """Its layers the other way round: as they are its densities take a pass for each feature."""
    import normflows

    (features,), width = architecture.event, architecture.hidden[0]

    def change(numbers: Tensor) -> Tensor:
        pairs = numbers.unflatten(1, (features, 2))
        return scaled(torch.sigmoid(pairs[..., 0] + 2) + 1e-3, pairs[..., 1])

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [
            normflows.flows.MaskedAffineAutoregressive(
                features, width, num_blocks=1, use_residual_blocks=False
            )
            for _ in range(architecture.depth)
        ]
    base = normflows.distributions.DiagGaussian(features, trainable=False)
    built = normflows.NormalizingFlow(base, [normflows.flows.Reverse(one) for one in layers[::-1]])
    nets = [Recast(layer.autoregressive_net, change) for layer in layers]
    model = Model(built, built.log_prob, lambda n: built.sample(n)[0])
    return model, reference_maf(architecture, nets)


def zuko_maf(architecture: Architecture) -> tuple[Model, Any]:
    """Its layers, with its own masked networks."""
    from zuko.flows.autoregressive import MaskedAutoregressiveTransform

    (features,) = architecture.event

    def change(numbers: Tensor) -> Tensor:
        shift, raw = numbers.unflatten(1, (features, 2)).unbind(-1)
        return scaled((raw / (1 + (raw / math.log(1e-3)).abs())).exp(), shift)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [
            MaskedAutoregressiveTransform(features, hidden_features=architecture.hidden)
            for _ in range(architecture.depth)
        ]
    nets = [Recast(layer.hyper, change) for layer in layers]
    return zuko_model(layers, architecture), reference_maf(architecture, nets)


def zuko_model(layers: Sequence[nn.Module], architecture: Architecture) -> Model:
    """Layers over a standard normal base, as its flows put them together."""
    import zuko

    zeros = torch.zeros(architecture.event)
    base = zuko.lazy.UnconditionalDistribution(
        zuko.distributions.DiagNormal, zeros, zeros + 1, buffer=True
    )
    built = zuko.lazy.Flow(layers, base)
    return Model(built, lambda x: built().log_prob(x), lambda n: built().sample((n,)))


# Residual flows


class ByMode(nn.Module):
    """A roulette of one probe with as many sure terms as normflows has in each mode, and in train mode with
    its gradient, by one product.
    """

    exact, unbiased = False, True

    def __init__(self) -> None:
        super().__init__()
        from flowref.reference import Roulette

        self.few = Roulette(0.5, FEWER, 1, neumann=True)
        self.many = Roulette(0.5, TERMS, 1)

    def beside_value(
        self, g: Any, x: Tensor, noise: tuple[Tensor, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """g(x) and the estimates."""
        return (self.few if self.training else self.many).beside_value(g, x, noise)

    def forward(self, g: Any, x: Tensor, noise: tuple[Tensor, ...] = ()) -> Tensor:
        """The estimates."""
        return self.beside_value(g, x, noise)[1]


def reference_residual(architecture: Architecture, nets: Sequence[Any] = ()) -> Any:
    """Blocks with networks of their own and estimated log-dets, or with these and exact ones."""
    from flowref import reference as ref

    (features,), blocks = architecture.event, []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for index in range(architecture.depth):
            if nets:
                blocks.append(ref.Residual(nets[index], 0.9, ref.Exact()))
                continue
            bound = COEFFICIENT ** (len(architecture.hidden) + 1)
            net = ref.Contraction(features, architecture.hidden, bound)
            series: Any = ByMode()
            blocks.append(ref.Residual(net, log_det=series, tolerance=1e-5))
    return ref.Flow(ref.StandardNormal(architecture.event), ref.Chain(*blocks))


def normflows_residual(architecture: Architecture, exact: bool = False) -> tuple[Model, Any]:
    """Its blocks, whose inverse is on the way from data to latents."""
    import normflows

    (features,) = architecture.event
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        nets = [
            normflows.nets.LipschitzMLP(
                [features, *architecture.hidden, features], COEFFICIENT, init_zeros=False
            )
            for _ in range(architecture.depth)
        ]
    blocks = [normflows.flows.Residual(net, exact_trace=exact) for net in nets]
    base = normflows.distributions.DiagGaussian(features, trainable=False)
    built = normflows.NormalizingFlow(base, blocks[::-1])
    model = Model(built, built.log_prob, lambda n: built.sample(n)[0])
    return model, reference_residual(architecture, nets)


Builder = Callable[[Architecture], tuple[Model, Any]]
# Family -> how the reference builds it, and the libraries that have it.
FAMILIES: Mapping[str, tuple[Callable[[Architecture], Any], Mapping[str, Builder]]] = {
    "spline": (
        reference_spline,
        {"nflows": nflows_spline, "normflows": normflows_spline, "zuko": zuko_spline},
    ),
    "maf": (reference_maf, {"nflows": nflows_maf, "normflows": normflows_maf, "zuko": zuko_maf}),
    "residual": (reference_residual, {"normflows": normflows_residual}),
}
SIZES: Mapping[str, Architecture] = VECTORS
