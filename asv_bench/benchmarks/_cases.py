r"""What is measured: components by name, in three sizes, in several implementations that agree.

`case` builds one implementation of one operation once per process, and compares its values with the reference's: a fast path
that computes something else cannot win. The reference is evaluated with the library's own formula for the log-scale, $s(r)$: a
conditioner that gives $\operatorname{atanh}(s(r) / c)$ in place of $r$, and the learned scale at $c = 8$, make its
$c \tanh$ that function.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import shutil
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ._peers import PEERS, Coupling, Model, Peer, reordered
from ._timing import Call, copies, device_samples, one_thread, rotated

REFERENCE = ("flowref", "flowref-compiled")
IMPLS = (*REFERENCE, *PEERS)
SIZES = ("small", "medium", "large")
DEVICES = ("cpu", "cuda")
# (batch, channels, height, width)
BATCH_NORM_SHAPES = {"small": (32, 16, 16, 16), "medium": (32, 64, 32, 32), "large": (64, 128, 56, 56)}
# Values agree up to float32 rounding through all couplings; a wrong formula is off by a hundred times this.
AGREEMENT = 2e-4
WIDEST_SCALE = 8.0


@dataclass(frozen=True)
class Architecture:
    """A stack of couplings of halves: the shape of an event, how many couplings, their hidden widths, and the batch."""

    event: tuple[int, ...]
    depth: int
    hidden: tuple[int, ...]
    batch: int


VECTORS = {
    "small": Architecture((8,), 4, (32, 32), 64),
    "medium": Architecture((16,), 8, (64, 64), 1024),
    "large": Architecture((64,), 8, (256, 256), 2048),
}
IMAGES = {
    "small": Architecture((4, 8, 8), 4, (16, 16), 16),
    "medium": Architecture((12, 16, 16), 4, (32, 32), 32),
    "large": Architecture((12, 32, 32), 8, (64, 64), 32),
}
# Arguments of the reference's multi-scale model of images, and the batch.
MULTI_SCALE = {
    "small": (((1, 8, 8), {"scales": 2, "couplings": 1, "final": 2, "hidden": 8, "blocks": 1}), 16),
    "medium": (((3, 16, 16), {"scales": 2, "couplings": 3, "final": 4, "hidden": 16, "blocks": 1}), 16),
    "large": (((3, 32, 32), {"scales": 3, "couplings": 3, "final": 4, "hidden": 32, "blocks": 2}), 16),
}


@dataclass(frozen=True)
class Case:
    """One implementation of one operation: what is called, with which inputs by turns, and the samples in each."""

    run: Callable[[Any], Any]
    inputs: Sequence[Tensor]
    batch: int

    @property
    def call(self) -> Call:
        """What is timed."""
        return rotated(self.run, self.inputs) if len(self.inputs) > 1 else functools.partial(self.run, self.inputs[0])


def microseconds(case: Case, device: str) -> dict[str, Any]:
    """The time per sample as asv takes it, with its samples, of which it keeps median and quartiles."""
    scale = 1e6 / case.batch
    return {"samples": [scale * value for value in device_samples(case.call, device)], "number": 1}


@functools.cache
def installed(name: str) -> bool:
    """Whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@functools.cache
def available(impl: str) -> bool:
    """Whether an implementation can run here: the library is there, or for compiled code the compiler with Python's headers."""
    if impl == "torch":
        return True
    if impl == "flowref":
        return installed("flowref.reference")
    if impl == "flowref-compiled":
        headers = Path(sysconfig.get_path("include")) / "Python.h"
        return available("flowref") and headers.is_file() and any(map(shutil.which, ("g++", "c++", "clang++")))
    return installed(impl) and available("flowref")


@functools.cache
def offered(name: str) -> bool:
    """Whether the reference has a class of this name, which earlier commits lack."""
    return available("flowref") and hasattr(importlib.import_module("flowref.reference"), name)


def skipped(
    impls: Sequence[str],
    sizes: Sequence[Any],
    devices: Sequence[str] = DEVICES,
    images: bool = False,
    needs: str = "Flow",
) -> list[tuple[Any, ...]]:
    """The combinations that this machine lacks, which asv shows as n/a: the parameters stay, and with them the history.

    ``needs``: a class of the reference, with which all but torch's own layers are compared.
    """
    return [
        (impl, size, device)
        for impl, size, device in product(impls, sizes, devices)
        if not available(impl)
        or (impl != "torch" and not offered(needs))
        or (device == "cuda" and not torch.cuda.is_available())
        or (images and impl in PEERS and not PEERS[impl].images)
    ]


def on_the_cpu(impls: Sequence[str], sizes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """All combinations with the CPU, to leave out what only a GPU has."""
    return [(impl, size, "cpu") for impl, size in product(impls, sizes)]


def agree(got: Tensor, expected: Tensor, what: str) -> None:
    """Raise if two tensors differ by more than rounding explains."""
    scale = 1 + float(expected.detach().abs().max())
    error = float((got.detach() - expected.detach()).abs().max()) / scale
    if not (got.shape == expected.shape and error < AGREEMENT):
        raise AssertionError(f"{what}: {tuple(got.shape)} against {tuple(expected.shape)}, relative error {error:.2g}")


def conditioner(architecture: Architecture, index: int) -> nn.Sequential:
    """The network of one coupling, with weights drawn for its index; 3x3 and 1x1 convolutions for images."""
    half = architecture.event[0] // 2
    widths = [half, *architecture.hidden, 2 * half]
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 + index)
        for place, (before, after) in enumerate(pairwise(widths)):
            if len(architecture.event) == 1:
                layers += [nn.Linear(before, after), nn.ReLU()]
            else:
                size = 3 if place in (0, len(widths) - 2) else 1
                layers += [nn.Conv2d(before, after, size, padding=size // 2), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def conditioners(architecture: Architecture) -> list[nn.Sequential]:
    """The networks of all couplings."""
    return [conditioner(architecture, index) for index in range(architecture.depth)]


def data(shape: tuple[int, ...], device: str = "cpu", seed: int = 0) -> Tensor:
    """Standard normal numbers, the same on every device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


class Recast(nn.Module):
    """A conditioner whose numbers make the reference's log-scale the function of a library."""

    def __init__(self, net: nn.Module, log_scale: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.log_scale = net, log_scale

    def forward(self, x: Tensor) -> Tensor:
        """The numbers, those of the scale first."""
        r, t = self.net(x).chunk(2, 1)
        return torch.cat((torch.atanh(self.log_scale(r) / WIDEST_SCALE), t), 1)


def reference_coupling(net: nn.Module, first: bool, log_scale: Callable[[Tensor], Tensor] | None = None) -> Any:
    """The reference's coupling of halves, with its own log-scale or that of a library."""
    from flowref import reference as ref

    last: Any = net[-1]  # type: ignore[index]  # a Sequential, whose last layer gives two numbers per entry
    layer = ref.AffineCoupling(ref.channel_mask(len(last.bias), int(not first)), net)
    if log_scale is not None:
        layer.conditioner = Recast(net, log_scale)
        with torch.no_grad():
            layer.scale.fill_(WIDEST_SCALE)
    return layer


def reference_flow(architecture: Architecture, peer: Peer | None = None) -> Any:
    """The reference's flow, or with the formula and the direction of a library."""
    from flowref import reference as ref

    log_scale = None if peer is None else peer.log_scale
    nets = conditioners(architecture)
    chain = ref.Chain(*(reference_coupling(net, index % 2 == 1, log_scale) for index, net in enumerate(nets)))
    bijection = ref.Inverse(chain) if peer is not None and peer.backwards else chain
    return ref.Flow(ref.StandardNormal(architecture.event), bijection)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """One graph or an error: a break would be measured as if it were none."""
    result: Callable[..., Any] = torch.compile(function, fullgraph=True)
    return result


@functools.cache
def batch_norm(impl: str, op: str, size: str, device: str) -> Case:
    """Batch normalisation of images: "forward" in train mode, "forward_backward", and "eval"."""
    one_thread()
    shape = BATCH_NORM_SHAPES[size]

    def built(name: str) -> Any:
        if name == "torch":
            layer: nn.Module = nn.BatchNorm2d(shape[1])
        else:
            from flowref.reference import BatchNorm

            layer = BatchNorm(shape[1])
        with torch.no_grad():
            layer.weight.copy_(1 + 0.1 * data((shape[1],), seed=1))  # type: ignore[union-attr, operator]
            layer.bias.copy_(data((shape[1],), seed=2))  # type: ignore[union-attr, operator]
        layer.to(device).train(op != "eval")
        return torch.compile(layer, fullgraph=True) if name.endswith("compiled") else layer

    x = data(shape, device).requires_grad_(op == "forward_backward")
    dy = data(shape, device, seed=3)

    def run_of(layer: Any) -> Callable[[Tensor], Any]:
        def forward(x: Tensor) -> Any:
            with torch.no_grad():
                return layer(x)

        def forward_backward(x: Tensor) -> Any:
            x.grad = None
            layer(x).backward(dy)
            return x.grad

        return forward_backward if op == "forward_backward" else forward

    layer = built(impl)
    run = run_of(layer)
    agree(run(x).clone(), run_of(built("torch"))(x), f"batch_norm {op} of {impl}")
    return Case(run, copies(x, device), shape[0])


@functools.cache
def coupling(impl: str, op: str, size: str, device: str) -> Case:
    """One coupling of vectors: "forward" x to z, "inverse" z to x, "log_det" x to (z, ladj)."""
    one_thread()
    architecture = VECTORS[size]
    return _coupling_case(impl, op, architecture, device)


def _coupling_case(impl: str, op: str, architecture: Architecture, device: str) -> Case:
    net = conditioner(architecture, 0)
    if impl in REFERENCE:
        layer = reference_coupling(copy.deepcopy(net), True).to(device)
        forward, inverse = (
            (compiled(layer.forward), compiled(layer.inverse)) if impl != "flowref" else (layer, layer.inverse)
        )
        built = Coupling(layer, lambda x: forward(x)[0], lambda z: inverse(z)[0], forward)
        expected = reference_coupling(net, True).to(device)
    else:
        peer = PEERS[impl]
        built = peer.coupling(reordered(net, peer.order).to(device), architecture.event, True)
        built.module.to(device)
        expected = reference_coupling(net, True, peer.log_scale).to(device)
    x = data((architecture.batch, *architecture.event), device)
    with torch.no_grad():
        if op == "inverse":
            agree(built.inverse(x), expected.inverse(x)[0], f"coupling inverse of {impl}")
        else:
            z, ladj = expected(x)
            agree(built.forward(x), z, f"coupling forward of {impl}")
            agree(built.log_det(x)[1], ladj, f"coupling log_det of {impl}") if op == "log_det" else None
    chosen = getattr(built, op)

    def run(x: Tensor) -> Any:
        with torch.no_grad():
            return chosen(x)

    return Case(run, copies(x, device), architecture.batch)


@functools.cache
def vector_flow(impl: str, op: str, size: str, device: str) -> Case:
    """Couplings of vectors in a row over a standard normal: "log_prob", "sample", "training_step"."""
    one_thread()
    return flow_case(impl, op, VECTORS[size], device)


@functools.cache
def image_flow(impl: str, op: str, size: str, device: str) -> Case:
    """The same of images by channels, with convolutions in the conditioners."""
    one_thread()
    return flow_case(impl, op, IMAGES[size], device)


def reference_model(flow: Any, impl: str) -> Model:
    """The reference as it is, or with its two directions compiled."""
    if impl == "flowref":
        return Model(flow, flow.log_prob, flow.sample)
    inverse = compiled(flow.bijection.inverse)

    @torch.no_grad()
    def sample(n: int) -> Tensor:
        x: Tensor = inverse(flow.base.sample(n))[0]
        return x

    return Model(flow, compiled(flow.log_prob), sample)


def flow_case(impl: str, op: str, architecture: Architecture, device: str) -> Case:
    """A flow of this architecture, compared with the reference in value, in gradient, and in what it samples."""
    if impl in REFERENCE:
        model = reference_model(reference_flow(architecture).to(device), impl)
        expected = reference_flow(architecture).to(device)
    else:
        peer = PEERS[impl]
        model = peer.flow([reordered(net, peer.order) for net in conditioners(architecture)], architecture.event)
        model.module.to(device)
        expected = reference_flow(architecture, peer).to(device)
    x = data((architecture.batch, *architecture.event), device)
    if op == "log_prob":
        with torch.no_grad():
            agree(model.log_prob(x), expected.log_prob(x), f"log_prob of {impl}")
    elif op == "training_step":
        there, here = x.clone().requires_grad_(), x.clone().requires_grad_()
        model.log_prob(there).sum().backward()
        expected.log_prob(here).sum().backward()
        assert there.grad is not None and here.grad is not None
        agree(there.grad, here.grad, f"gradient of log_prob of {impl}")
    else:
        # All draw standard normal numbers of this shape, so that one seed gives one sample.
        torch.manual_seed(7)
        with torch.no_grad():
            got = model.sample(architecture.batch)
        torch.manual_seed(7)
        agree(got, expected.sample(architecture.batch), f"sample of {impl}")
    return Case(operation(model, op, architecture.batch), copies(x, device), architecture.batch)


def operation(model: Model, op: str, batch: int) -> Callable[[Tensor], Any]:
    """The function of a batch that is timed."""

    def log_prob(x: Tensor) -> Any:
        with torch.no_grad():
            return model.log_prob(x)

    def sample(x: Tensor) -> Any:
        with torch.no_grad():
            return model.sample(batch)

    # So small a step that the weights are after thousands of steps what they were.
    adam = torch.optim.Adam(model.module.parameters(), lr=1e-9)

    def training_step(x: Tensor) -> Any:
        adam.zero_grad()
        loss = -model.log_prob(x).mean()
        loss.backward()
        adam.step()
        return loss

    return {"log_prob": log_prob, "sample": sample, "training_step": training_step}[op]


@functools.cache
def multi_scale(impl: str, op: str, size: str, device: str) -> Case:
    """The reference's multi-scale model of images; in eval mode but for the training step."""
    from flowref import reference as ref

    one_thread()
    (event, options), batch = MULTI_SCALE[size]

    def built() -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            bijection = ref.RealNVP(event, **options)
            with torch.no_grad():
                for values in bijection.parameters():
                    values.add_(0.02 * torch.randn(values.shape))
        flow = ref.Flow(ref.StandardNormal((event[0] * event[1] * event[2],)), bijection).to(device)
        return flow.train(op == "training_step")

    flow = built()
    model = reference_model(flow, impl)
    x = 256 * torch.rand((batch, *event), generator=torch.Generator().manual_seed(0)).to(device)
    if op == "log_prob" and impl != "flowref":
        with torch.no_grad():
            agree(model.log_prob(x), built().log_prob(x), f"multi-scale log_prob of {impl}")
    return Case(operation(model, op, batch), copies(x, device), batch)


COMPONENTS = {
    "batch_norm": batch_norm,
    "coupling": coupling,
    "vector_flow": vector_flow,
    "image_flow": image_flow,
    "multi_scale": multi_scale,
}


def case(component: str, op: str, impl: str, size: str, device: str) -> Case:
    """One implementation of one operation."""
    return COMPONENTS[component](impl, op, size, device)
