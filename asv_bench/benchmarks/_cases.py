"""What is measured: components by name, in three sizes, in several implementations that agree.

`case` builds one implementation of one operation once per process, and compares its values with the
reference's: a fast path that computes something else cannot win. For another library the reference
has that library's formulas (see `_models`).
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from . import _continuous
from ._families import FAMILIES, normflows_residual
from ._grid import COMPILED, REFERENCE
from ._models import (
    BATCH_NORM_SHAPES,
    IMAGES,
    MULTI_SCALE,
    compiled,
    conditioner,
    conditioners,
    data,
    reference_coupling,
    reference_flow,
    reference_model,
)
from ._peers import PEERS, Coupling, Model, reordered
from ._sizes import VECTORS, Architecture
from ._timing import Call, copies, device_samples, one_thread, rotated

# Values agree up to float32 rounding through all couplings; a wrong formula is off by a hundred
# times this.
AGREEMENT = 2e-4
# The share of rows whose gradient may be that of the other side of a kink.
KINKED = 0.01


@dataclass(frozen=True)
class Case:
    """One implementation of one operation: what is called, with which inputs by turns, and the
    samples in each.
    """

    run: Callable[[Any], Any]
    inputs: Sequence[Tensor]
    batch: int

    @property
    def call(self) -> Call:
        """What is timed."""
        return (
            rotated(self.run, self.inputs)
            if len(self.inputs) > 1
            else functools.partial(self.run, self.inputs[0])
        )


def microseconds(case: Case, device: str) -> dict[str, Any]:
    """The time per sample as asv takes it, with its samples, of which it keeps median and
    quartiles.
    """
    scale = 1e6 / case.batch
    return {"samples": [scale * value for value in device_samples(case.call, device)], "number": 1}


@contextlib.contextmanager
def in_full_precision() -> Iterator[None]:
    """Convolutions on a GPU with all digits: those that are timed have as few as the default leaves."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def agree(got: Tensor, expected: Tensor, what: str, within: float = AGREEMENT) -> None:
    """Raise if two tensors differ by more than rounding explains, or a solver of that accuracy."""
    scale = 1 + float(expected.detach().abs().max())
    error = float((got.detach() - expected.detach()).abs().max()) / scale
    if not (got.shape == expected.shape and error < within):
        raise AssertionError(
            f"{what}: {tuple(got.shape)} against {tuple(expected.shape)}, relative error "
            f"{error:.2g}"
        )


@functools.cache
def batch_norm(impl: str, op: str, size: str, device: str) -> Case:
    """Batch normalisation of images: "forward" in train mode, "forward_backward", and "eval"."""
    one_thread()
    shape = BATCH_NORM_SHAPES[size]

    def built(name: str) -> Any:
        if name == "torch":
            layer: Any = nn.BatchNorm2d(shape[1])
        else:
            from flowref.reference import BatchNorm

            layer = BatchNorm(shape[1])
        with torch.no_grad():
            layer.weight.copy_(1 + 0.1 * data((shape[1],), seed=1))
            layer.bias.copy_(data((shape[1],), seed=2))
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
            (compiled(layer.forward), compiled(layer.inverse))
            if impl != "flowref"
            else (layer, layer.inverse)
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
            agree(
                built.log_det(x)[1], ladj, f"coupling log_det of {impl}"
            ) if op == "log_det" else None
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


def flow_case(impl: str, op: str, architecture: Architecture, device: str) -> Case:
    """A flow of this architecture, compared with the reference in value, in gradient, and in what
    it samples.
    """
    if impl in REFERENCE:
        model = reference_model(reference_flow(architecture).to(device), impl)
        expected = reference_flow(architecture).to(device)
    else:
        peer = PEERS[impl.removesuffix(COMPILED)]
        model = peer.flow(
            [reordered(net, peer.order) for net in conditioners(architecture)], architecture.event
        )
        model = as_named(model, impl)
        model.module.to(device)
        expected = reference_flow(architecture, peer).to(device)
    x = data((architecture.batch, *architecture.event), device)
    with in_full_precision():
        compare(model, expected, op, x, impl)
    return Case(operation(model, op, architecture.batch), copies(x, device), architecture.batch)


def as_named(model: Model, impl: str) -> Model:
    """A library's model, with its log-density compiled where its name says so: with breaks in the graph
    where its code has them, as its users would compile it.
    """
    if not impl.endswith(COMPILED):
        return model
    return model._replace(log_prob=torch.compile(model.log_prob))


def compare(model: Model, expected: Any, op: str, x: Tensor, impl: str) -> None:
    """Raise where a model is not what is expected, in what an operation gives."""
    if op == "log_prob":
        with torch.no_grad():
            agree(model.log_prob(x), expected.log_prob(x), f"log_prob of {impl}")
    elif op == "training_step":
        there, here = x.clone().requires_grad_(), x.clone().requires_grad_()
        model.log_prob(there).sum().backward()
        expected.log_prob(here).sum().backward()
        assert there.grad is not None and here.grad is not None
        near = (there.grad - here.grad).abs() <= AGREEMENT * (1 + here.grad.abs().max())
        rows = near.reshape(len(near), -1).all(1)
        # Rounding takes few rows to the other side of a kink of ReLU, where the gradient is another.
        rows = rows if rows.double().mean() > 1 - KINKED else torch.ones_like(rows)
        agree(there.grad[rows], here.grad[rows], f"gradient of log_prob of {impl}")
    else:
        # All draw standard normal numbers of this shape, so that one seed gives one sample.
        with torch.no_grad():
            got, told = (_drawn(one, len(x)) for one in (model.sample, expected.sample))
            if x.is_cuda and impl == "torchflows":  # it draws on the host
                told = _drawn(expected.cpu().sample, len(x)).to(x.device)
        agree(got, told, f"sample of {impl}")


def _drawn(sample: Callable[[int], Tensor], n: int) -> Tensor:
    torch.manual_seed(7)
    return sample(n)


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


def family(kind: str, impl: str, op: str, size: str, device: str) -> Case:
    """A flow of a family, compared with the reference around the networks of its library."""
    one_thread()
    architecture, (build, peers) = VECTORS[size], FAMILIES[kind]
    x = data((architecture.batch, *architecture.event), device)
    training = op == "training_step"
    if impl in REFERENCE:
        flow = build(architecture).to(device).train(training)
        # What draws its series as it goes is no one graph.
        graphs = kind != "residual"
        model = reference_model(flow, impl, graphs)
        if impl != "flowref" and graphs and op != "sample":
            with torch.no_grad():
                agree(model.log_prob(x), flow.log_prob(x), f"{op} of {kind} of {impl}")
        return Case(operation(model, op, architecture.batch), copies(x, device), architecture.batch)
    model, expected = peers[impl.removesuffix(COMPILED)](architecture)
    model = as_named(model, impl)
    model.module.to(device).train(training)
    expected.to(device).eval()
    with torch.no_grad():
        if kind == "residual":
            # Estimates differ: those of the same weights with exact traces do not.
            exact, _ = normflows_residual(architecture, exact=True)
            exact.module.load_state_dict(model.module.state_dict())
            exact.module.to(device).eval()
            model.module.eval()
            few = x[:32]
            agree(exact.log_prob(few).detach(), expected.log_prob(few), f"log_prob of {impl}")
            model.module.train(training)
        elif op == "sample":
            torch.manual_seed(7)
            got = model.sample(architecture.batch)
            torch.manual_seed(7)
            agree(got, expected.sample(architecture.batch), f"sample of {kind} of {impl}")
        else:
            agree(model.log_prob(x), expected.log_prob(x), f"{op} of {kind} of {impl}")
    return Case(operation(model, op, architecture.batch), copies(x, device), architecture.batch)


@functools.cache
def spline(impl: str, op: str, size: str, device: str) -> Case:
    """Couplings of halves by rational-quadratic splines: "log_prob", "sample", "training_step"."""
    return family("spline", impl, op, size, device)


@functools.cache
def maf(impl: str, op: str, size: str, device: str) -> Case:
    """Masked autoregressive flows, each library's own networks of the same widths."""
    return family("maf", impl, op, size, device)


@functools.cache
def residual(impl: str, op: str, size: str, device: str) -> Case:
    """Residual flows, log-dets by a roulette of one probe with as many sure terms."""
    return family("residual", impl, op, size, device)


@functools.cache
def continuous(impl: str, op: str, size: str, device: str) -> Case:
    """Continuous flows along one field with exact divergences, each by its own solver."""
    one_thread()
    architecture = VECTORS[size]
    model, expected = (_continuous.continuous(name, size) for name in (impl, "flowref"))
    for built in (model, expected):
        built.module.to(device)
    x = data((architecture.batch, *architecture.event), device)
    torch.manual_seed(7)
    with torch.no_grad():
        got = model.sample(architecture.batch) if op == "sample" else model.log_prob(x)
    torch.manual_seed(7)
    with torch.no_grad():
        told = expected.sample(architecture.batch) if op == "sample" else expected.log_prob(x)
    # Each is as exact as `_continuous.ACCURACY`.
    agree(got, told, f"{op} of a continuous flow of {impl}", 4 * _continuous.ACCURACY)
    return Case(operation(model, op, architecture.batch), copies(x, device), architecture.batch)


COMPONENTS = {
    "batch_norm": batch_norm,
    "coupling": coupling,
    "vector_flow": vector_flow,
    "image_flow": image_flow,
    "multi_scale": multi_scale,
    "spline": spline,
    "maf": maf,
    "residual": residual,
    "continuous": continuous,
}


def case(component: str, op: str, impl: str, size: str, device: str) -> Case:
    """One implementation of one operation."""
    return COMPONENTS[component](impl, op, size, device)
