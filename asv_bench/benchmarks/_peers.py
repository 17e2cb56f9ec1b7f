r"""The couplings and flows of six libraries, around conditioners that are handed in.

Every library computes $z_b = x_b\,e^{s} + t$ from the numbers $(r, t)$ that its conditioner gives,
but they differ in the function $s(r)$ and in the order of the numbers. `Peer.log_scale` is the
library's function, and `Peer.order` the rows of the last layer that have to trade places, so that
all read the same weights. FrEIA has $s = \tanh r$ as an option and glasflow takes it as a function,
as the reference does; the others are measured with the formula that they have, and their values are
compared with those of the reference under that formula (see `_models`).
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Coupling(NamedTuple):
    """One coupling as its library offers it: x to z, z to x, and x to (z, ladj)."""

    module: nn.Module
    forward: Callable[[Tensor], Tensor]
    inverse: Callable[[Tensor], Tensor]
    log_det: Callable[[Tensor], tuple[Tensor, Tensor]]


class Model(NamedTuple):
    """A flow as its library offers it."""

    module: nn.Module
    log_prob: Callable[[Tensor], Tensor]
    sample: Callable[[int], Tensor]


@dataclass(frozen=True)
class Peer:
    """How to build with a library.

    ``coupling(net, event, first)``: the net sees the first half of axis 1 if ``first``, else the
    second.
    ``flow(nets, event)``: the couplings in a row, the second half kept first; ``backwards``: the
    log-density of the library's flow runs its couplings from the last to the first, each inverted.
    """

    library: str
    order: str
    log_scale: Callable[[Tensor], Tensor]
    coupling: Callable[[nn.Module, tuple[int, ...], bool], Coupling]
    flow: Callable[[Sequence[nn.Module], tuple[int, ...]], Model]
    backwards: bool = False


def reordered(net: nn.Sequential, order: str) -> nn.Sequential:
    """A copy whose last layer gives its numbers in another order: "st" as they are, "ts", or by
    turns "s,t" or "t,s".
    """
    twin = copy.deepcopy(net)
    last: Any = twin[-1]
    with torch.no_grad():
        for values in (last.weight, last.bias):
            scale, shift = values.detach().clone().chunk(2)
            parts = (scale, shift) if order.startswith("s") else (shift, scale)
            values.copy_(torch.stack(parts, 1).flatten(0, 1) if "," in order else torch.cat(parts))
    return twin


def mask_of(event: tuple[int, ...], first: bool) -> Tensor:
    """True where an entry of axis 1 is kept."""
    return (torch.arange(event[0]) < event[0] // 2) == first


class Contextual(nn.Module):
    """A conditioner with the argument that nflows passes."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, context: Any = None) -> Tensor:
        """The values."""
        values: Tensor = self.net(x)
        return values


def nflows_layer(net: nn.Module, event: tuple[int, ...], first: bool) -> Any:
    """Where the mask of nflows is positive, an entry is transformed."""
    from nflows import transforms

    return transforms.AffineCouplingTransform(
        (~mask_of(event, first)).float(), lambda i, o: Contextual(net)
    )


def exp_tanh(r: Tensor) -> Tensor:
    """What glasflow is given for the scale itself."""
    return r.tanh().exp()


def glasflow_layer(net: nn.Module, event: tuple[int, ...], first: bool) -> Any:
    """The fork of nflows in glasflow, which takes the scale's function."""
    from glasflow.transforms import AffineCouplingTransform

    mask = (~mask_of(event, first)).float()
    return AffineCouplingTransform(mask, lambda i, o: Contextual(net), scale_activation=exp_tanh)


def nflows_like(
    layer: Callable[..., Any], package: str
) -> tuple[Callable[..., Coupling], Callable[..., Model]]:
    """The builders of nflows, or of its fork."""

    def coupling(net: nn.Module, event: tuple[int, ...], first: bool) -> Coupling:
        built = layer(net, event, first)
        return Coupling(built, lambda x: built(x)[0], lambda z: built.inverse(z)[0], built)

    def flow(nets: Sequence[nn.Module], event: tuple[int, ...]) -> Model:
        flows, distributions, transforms = (
            importlib.import_module(f"{package}.{name}")
            for name in ("flows", "distributions", "transforms")
        )
        layers = [layer(net, event, index % 2 == 1) for index, net in enumerate(nets)]
        built = flows.Flow(
            transforms.CompositeTransform(layers), distributions.StandardNormal(list(event))
        )
        return Model(built, built.log_prob, built.sample)

    return coupling, flow


def normflows_block(net: nn.Module, event: tuple[int, ...], first: bool) -> Any:
    """With scale_map "exp", its default, s is r itself."""
    import normflows

    return normflows.flows.AffineCouplingBlock(
        net, split_mode="channel" if first else "channel_inv"
    )


def normflows_coupling(net: nn.Module, event: tuple[int, ...], first: bool) -> Coupling:
    """Its forward multiplies by the exponential, as the reference's does."""
    block = normflows_block(net, event, first)
    return Coupling(block, lambda x: block(x)[0], lambda z: block.inverse(z)[0], block)


def normflows_flow(nets: Sequence[nn.Module], event: tuple[int, ...]) -> Model:
    """Its forward goes from latents to data."""
    import normflows

    blocks = [normflows_block(net, event, index % 2 == 1) for index, net in enumerate(nets)]
    base = normflows.distributions.DiagGaussian(
        event if len(event) > 1 else event[0], trainable=False
    )
    built = normflows.NormalizingFlow(base, blocks)
    return Model(built, built.log_prob, lambda n: built.sample(n)[0])


def zuko_layer(net: nn.Module, event: tuple[int, ...], first: bool) -> Any:
    """The conditioner is exchanged after it was built."""
    from zuko.flows import coupling

    layer = coupling.GeneralCouplingTransform(event[0], mask=mask_of(event, first))
    layer.hyper = net
    return layer


def zuko_coupling(net: nn.Module, event: tuple[int, ...], first: bool) -> Coupling:
    """The lazy layer is called anew each time, as its flows do."""
    layer = zuko_layer(net, event, first)
    return Coupling(
        layer, lambda x: layer()(x), lambda z: layer().inv(z), lambda x: layer().call_and_ladj(x)
    )


def zuko_flow(nets: Sequence[nn.Module], event: tuple[int, ...]) -> Model:
    """As zuko.flows.NICE puts its layers together."""
    import zuko

    layers = [zuko_layer(net, event, index % 2 == 1) for index, net in enumerate(nets)]
    zeros, ones = torch.zeros(event[0]), torch.ones(event[0])
    base = zuko.lazy.UnconditionalDistribution(
        zuko.distributions.DiagNormal, zeros, ones, buffer=True
    )
    built = zuko.lazy.Flow(layers, base)
    return Model(built, lambda x: built().log_prob(x), lambda n: built().sample((n,)))


def freia_coupling(net: nn.Module, event: tuple[int, ...], first: bool) -> Coupling:
    """The one-sided block, which keeps the first half."""
    import FrEIA.modules as fm

    assert first
    block = fm.AffineCouplingOneSided(
        [event], subnet_constructor=lambda i, o: net, clamp=1.0, clamp_activation="TANH"
    )

    def log_det(x: Tensor) -> tuple[Tensor, Tensor]:
        (z,), ladj = block([x])
        return z, ladj

    return Coupling(block, lambda x: log_det(x)[0], lambda z: block([z], rev=True)[0][0], log_det)


def freia_flow(nets: Sequence[nn.Module], event: tuple[int, ...]) -> Model:
    """Blocks of two couplings each; the base, which FrEIA leaves to its users, is that of the
    reference.
    """
    import FrEIA.framework as ff
    import FrEIA.modules as fm

    from flowref.reference import StandardNormal

    built = ff.SequenceINN(*event)
    for first, second in zip(nets[::2], nets[1::2], strict=True):
        pair = iter(
            (second, first)
        )  # the block asks first for the net of the coupling that it computes last
        built.append(
            fm.GLOWCouplingBlock,
            subnet_constructor=lambda i, o, p=pair: next(p),
            clamp=1.0,
            clamp_activation="TANH",
        )
    base = StandardNormal(event)

    def log_prob(x: Tensor) -> Tensor:
        z, ladj = built(x)
        density: Tensor = base.log_prob(z) + ladj
        return density

    both = nn.ModuleList([built, base])  # which are on the same device
    return Model(both, log_prob, lambda n: built(base.sample(n), rev=True)[0])


def torchflows_layer(net: nn.Module, event: tuple[int, ...], first: bool) -> Any:
    """The network inside its conditioner is exchanged after it was built."""
    from torchflows.bijections.finite.autoregressive import layers_base
    from torchflows.bijections.finite.autoregressive.conditioning.coupling_masks import (
        Coupling as Halves,
    )
    from torchflows.bijections.finite.autoregressive.transformers.linear.affine import Affine

    layer = layers_base.CouplingBijection(
        event, Affine, coupling=Halves(event, mask_of(event, first))
    )
    layer.conditioner_transform.sequential = net
    return layer


def torchflows_coupling(net: nn.Module, event: tuple[int, ...], first: bool) -> Coupling:
    """Values and log-dets come together."""
    layer = torchflows_layer(net, event, first)
    return Coupling(layer, lambda x: layer(x)[0], lambda z: layer.inverse(z)[0], layer)


def torchflows_flow(nets: Sequence[nn.Module], event: tuple[int, ...]) -> Model:
    """Its composition and its flow."""
    from torchflows.bijections.base import BijectiveComposition
    from torchflows.flows import Flow

    layers = [torchflows_layer(net, event, index % 2 == 1) for index, net in enumerate(nets)]
    built = Flow(BijectiveComposition(layers))
    return Model(built, built.log_prob, lambda n: built.sample(n, no_grad=True))


PEERS = {
    peer.library: peer
    for peer in (
        Peer(
            "nflows",
            "ts",
            lambda r: torch.log(torch.sigmoid(r + 2) + 1e-3),
            *nflows_like(nflows_layer, "nflows"),
        ),
        Peer("normflows", "t,s", lambda r: r, normflows_coupling, normflows_flow, backwards=True),
        Peer(
            "zuko",
            "t,s",
            lambda r: r / (1 + abs(r / math.log(1e-3))),
            zuko_coupling,
            zuko_flow,
        ),
        Peer("FrEIA", "st", torch.tanh, freia_coupling, freia_flow),
        Peer("glasflow", "ts", torch.tanh, *nflows_like(glasflow_layer, "glasflow.nflows")),
        Peer("torchflows", "s,t", lambda r: r / 2, torchflows_coupling, torchflows_flow),
    )
}
