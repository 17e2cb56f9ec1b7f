"""Derivatives of a live object's calls by autograd: in the input, and along a direction in the
parameters.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.arrays import array, as_mapped
from flowref.backends.torch.live import Live
from flowref.backends.torch.methods import method
from flowref.backends.torch.sandbox import seed_torch
from flowref.backends.torch.state import directions, move, set_mode
from flowref.model import Array, Cost, Mapped, Undecidable, Unsupported, derive
from flowref.model.call import KERNELS
from flowref.model.cost import BACKWARD

# Rows, numbers of the result, and bytes of the graph of one backward pass of a Jacobian; more are
# taken in chunks. Where the parameters alone take more, rows may take as much again.
JACOBIAN_ROWS, JACOBIAN_SIZE, JACOBIAN_BYTES = 1024, 2**18, 2**28


def _graphed(
    live: Live, obj: Any, name: str, x: torch.Tensor, context: torch.Tensor | None
) -> tuple[torch.Tensor, Any]:
    """Value and log-det of a call, with the graph kept. The caller keeps ``obj`` alive: some graphs
    refer to it weakly. What writes to its input is called on a copy: a leaf of the graph refuses it.
    Raises `Unsupported` where the call hands its input to numpy, which is refused for a tensor with a
    graph.
    """
    try:
        try:
            out = live.function(name)(obj, x, context)
        except RuntimeError as error:
            if "leaf Variable that requires grad" not in str(error):
                raise
            out = live.function(name)(obj, torch.clone(x), context)
    except RuntimeError as error:
        if "call numpy() on Tensor that requires grad" not in str(error):
            raise
        raise Unsupported(f"{name} computes in numpy and records no autograd graph") from error
    return (out, None) if name == "log_prob" else (out[0], out[1])


# What torch says of a graph that cannot be walked back, and what was done to it.
NO_WAY_BACK = {
    "modified by an inplace operation": "overwrites what autograd needs to go back",
    "backward through the graph a second time": "frees the graph that autograd needs to go back",
    "checkpoint is incompatible with .grad()": "has a reentrant checkpoint, through which no gradient of its input "
    "can be asked for",
}


@contextlib.contextmanager
def walking_back(name: str) -> Iterator[None]:
    """A graph of which values were overwritten, or that the call went back through itself and freed, or
    that is recomputed at once, cannot be walked back: `Unsupported`, as where none is recorded. What the
    call returns is judged by differences.
    """
    try:
        yield
    except RuntimeError as error:
        for words, reason in NO_WAY_BACK.items():
            if words in str(error):
                raise Unsupported(f"{name} {reason}") from error
        raise


def jacobian(live: Live, name: str, x: Array, context: Array | None = None) -> Array:
    """d value / d input per point, ``(batch, outputs, inputs)``, by autograd."""

    def anew(stream: int) -> Array:
        return jacobian_anew(live, name, x, context, stream)

    shape = live.facts.latent_shape or live.facts.event_shape
    outputs = int(np.prod(shape if name == "forward" else live.facts.event_shape))
    most = graphed_rows(live.facts.cost, name)
    live.afford_jacobian(name, list(blocks(len(x), outputs, most)))
    matrices: Array = live.kept(f"jacobian {name}", (x, context), anew)
    return matrices


def jacobian_anew(
    live: Live, name: str, x: Array, context: Array | None, stream: int | None = None
) -> Array:
    """The same, called anew.

    Each row is repeated once per output and pulled back with one-hot cotangents in one backward
    pass, which is the same matrix as one pass per output wherever rows are independent; a graph
    that would take too much is made for some outputs of a row at a time. Raises `Unsupported` where
    no graph is recorded.
    """
    batch = len(x)
    shape = live.facts.latent_shape or live.facts.event_shape
    outputs = int(np.prod(shape if name == "forward" else live.facts.event_shape))
    live.count(f"jacobian {name}", lambda: jacobian_anew(live, name, x, context))
    most = graphed_rows(live.facts.cost, name)
    with live.lend() as obj, live.calling(f"jacobian {name}", stream=stream):
        whole = obj
        clean, ctx = live.tensor(x, support=live.support_of(name)), live.tensor(context, jitter=1)
        assert clean is not None
        inputs = int(np.prod(x.shape[1:]))
        matrices = np.zeros((batch, outputs, inputs), dtype=array(clean[:0]).dtype)
        for some, pulled in blocks(batch, outputs, most):
            width = pulled.stop - pulled.start
            rows = clean[some].repeat_interleave(width, 0).requires_grad_(True)
            contexts = None if ctx is None else ctx[some].repeat_interleave(width, 0)
            whole = live.take() if whole is None else whole  # each block is a call of its own
            value, _ = _graphed(live, whole, name, rows, contexts)
            if not value.requires_grad:
                raise Unsupported(f"{name} records no autograd graph")
            if value.reshape(len(rows), -1).shape[1] != outputs:
                raise Undecidable(
                    f"{name} returned {tuple(value.shape[1:])} where {tuple(shape)} was expected"
                )
            flat = value.reshape(len(rows) // width, width, outputs)
            flat = flat if width == outputs else flat[:, :, pulled]
            diagonal = torch.diagonal(flat, dim1=1, dim2=2).sum()
            with walking_back(name):
                (gradient,) = torch.autograd.grad(diagonal, rows, allow_unused=True)
            if gradient is not None:
                matrices[some, pulled] = array(gradient).reshape(len(rows) // width, width, -1)
            whole = None
    return matrices


def blocks(batch: int, outputs: int, most: int) -> Iterator[tuple[slice, slice]]:
    """The rows of a batch, and the outputs of each, of one backward pass after the other; at most
    ``most`` of them together, or one.

    >>> [(rows.stop - rows.start, pulled.stop) for rows, pulled in blocks(5, 4, 8)]
    [(2, 4), (2, 4), (1, 4)]
    >>> [(rows.start, pulled.start, pulled.stop) for rows, pulled in blocks(2, 3, 2)]
    [(0, 0, 2), (0, 2, 3), (1, 0, 2), (1, 2, 3)]
    """
    together = min(JACOBIAN_ROWS, JACOBIAN_SIZE // max(1, outputs), most)
    step = max(1, together // max(1, outputs))
    width = outputs if most >= outputs else max(1, most)
    for start in range(0, batch, step):
        for first in range(0, outputs, max(1, width)):
            yield (
                slice(start, min(start + step, batch)),
                slice(first, min(first + width, outputs)),
            )


def graphed_rows(cost: Cost, name: str) -> int:
    """How many rows the graph of a call may have."""
    written = cost.of(name).written
    return max(1, written.rows(max(JACOBIAN_BYTES, 2 * written.fixed)))


def vjp(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
) -> Array:
    """Gradient with respect to the input of <value, value_cotangent> + sum(ladj * ladj_cotangent)."""
    inputs = (x, context, value_cotangent, ladj_cotangent)

    def anew(stream: int | None = None) -> Array:
        return vjp_anew(live, name, inputs, stream)

    live.afford(name, len(x), 1 + BACKWARD, graphed=True)
    live.count(f"vjp {name}", anew)
    gradient: Array = live.kept(f"vjp {name}", inputs, anew)
    return gradient


def vjp_anew(live: Live, name: str, inputs: tuple[Any, ...], stream: int | None) -> Array:
    """The same, called anew."""
    x = inputs[0]
    with live.lend() as obj, live.calling(f"vjp {name}", stream=stream):
        leaf, total = _total(live, obj, name, *inputs)
        with walking_back(name):
            (gradient,) = torch.autograd.grad(total, leaf, allow_unused=True)
        return np.zeros(x.shape) if gradient is None else np.asarray(array(gradient))


def context_vjp(
    live: Live,
    name: str,
    x: Array,
    context: Array,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
) -> Array:
    """The same gradient, with respect to the context."""
    live.afford(name, len(x), 1 + BACKWARD, graphed=True)
    with live.lend() as obj, live.calling(f"context vjp {name}"):
        leaf = live.tensor(context, jitter=1)
        assert leaf is not None
        leaf.requires_grad_(True)
        value, ladj = _graphed(live, obj, name, live.tensor(x), leaf)  # type: ignore[arg-type]  # x is no None
        total = _weighted(value, value_cotangent, len(x)) + _weighted(ladj, ladj_cotangent, len(x))
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            raise Unsupported(f"{name} records no autograd graph")
        with walking_back(name):
            (gradient,) = torch.autograd.grad(total, leaf, allow_unused=True)
        return np.zeros(context.shape) if gradient is None else np.asarray(array(gradient))


def curvature(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
    direction: Array,
) -> Array:
    """The derivative with respect to the input of <gradient, direction>, where the gradient is that
    of `vjp`.
    """
    live.afford(name, len(x), 1 + 3 * BACKWARD, graphed=True)
    with live.lend() as obj, live.calling(f"curvature {name}"):
        leaf, total = _total(live, obj, name, x, context, value_cotangent, ladj_cotangent)
        with walking_back(name):
            (gradient,) = torch.autograd.grad(total, leaf, create_graph=True, allow_unused=True)
        if gradient is None or not gradient.requires_grad:
            return np.zeros(x.shape)
        along = (gradient * torch.from_numpy(np.array(direction)).to(gradient.dtype)).sum()
        (second,) = torch.autograd.grad(along, leaf, allow_unused=True)
        return np.zeros(x.shape) if second is None else np.asarray(array(second))


def _total(
    live: Live,
    obj: Any,
    name: str,
    x: Array,
    context: Array | None,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The input, and what `vjp` derives, with the graph between them."""
    leaf, ctx = live.tensor(x), live.tensor(context, jitter=1)
    assert leaf is not None
    leaf.requires_grad_(True)
    value, ladj = _graphed(live, obj, name, leaf, ctx)
    total = _weighted(value, value_cotangent, len(x)) + _weighted(ladj, ladj_cotangent, len(x))
    if not isinstance(total, torch.Tensor) or not total.requires_grad:
        raise Unsupported(f"{name} records no autograd graph")
    return leaf, total


def _weighted(value: Any, weights: Array | None, batch: int) -> Any:
    """Sum of a returned quantity, weighted per point; zero if nothing was returned or asked."""
    if weights is None or not isinstance(value, torch.Tensor):
        return 0.0
    rows = torch.from_numpy(np.array(weights)).to(value.dtype)
    if value.dim() and value.shape[0] == batch:
        return (value.reshape(batch, -1) * rows.reshape(batch, -1)).sum()
    return value.sum() * rows.sum()


def drawing(live: Live, draws: int | None) -> None:
    """Set the random states to one of many, where the call is not that of the condition."""
    if draws is not None:
        for seeded in (seed_torch, np.random.seed, random.seed):
            seeded(derive(live.seed, 41, draws) % 2**32)


def along(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    seed: int,
    t: float,
    only: str = "",
    draws: int | None = None,
) -> Mapped:
    """The call with every trainable parameter, or ``only`` one, moved by t times a seeded direction;
    ``draws``: with other random numbers. Several laws ask the same of a value and of its log-det, so
    what is dear is kept.
    """
    live.afford(name, len(x))

    def anew(stream: int | None = None) -> Mapped:
        with live.calling(name, stream=stream):
            obj = live.take()
            move(obj, t, seed, only)
            # Those take a seed; the random state is that of the call.
            run = live.function(name) if name in KERNELS else method(live, name)
            drawing(live, draws)
            return as_mapped(name, run(obj, live.tensor(x), live.tensor(context)))

    if live.rounding is not None or not live.facts.cost.heavy:
        return anew()
    out: Mapped = live.kept(f"along {name}", (x, context, seed, t, only, draws), anew)
    return out


def slope(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    seed: int,
    weights: Array | None,
    values: Array | None = None,
    only: str = "",
    draws: int | None = None,
    training: bool = False,
) -> float:
    """Autograd's derivative at t = 0 of sum(weights * ladj) (of log_prob itself for "log_prob") in
    the direction of `along`; ``values``: weights of the values of a map, added; ``training``: in
    train mode.
    """
    live.afford(name, len(x), 1 + BACKWARD, graphed=True)
    with live.lend() as obj, live.calling(f"slope {name}"):
        if training:
            set_mode(obj, training)
        drawing(live, draws)
        out = live.function(name)(obj, live.tensor(x), live.tensor(context))
        value, ladj = (None, out) if name == "log_prob" else (out[0], out[1])
        total = _weighted(ladj, weights, len(x)) + _weighted(value, values, len(x))
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            return 0.0
        with walking_back(name):
            return directional(total, obj, seed, only)


def directional(
    total: torch.Tensor, obj: Any, seed: int, only: str = "", largest: int = 0
) -> float:
    """The derivative of a total in the direction of `move`, by autograd; of parameters of no more
    entries than the ``largest``, if that is given, and then the graph is kept.
    """
    steps = [one for one in directions(obj, seed, only) if not largest or one[0].numel() <= largest]
    if not steps:
        return 0.0
    gradients = torch.autograd.grad(
        total, [p for p, _ in steps], allow_unused=True, retain_graph=bool(largest)
    )
    slopes = (
        float((gradient.double() * step).sum())
        for gradient, (_, step) in zip(gradients, steps, strict=True)
        if gradient is not None
    )
    return sum(slopes, 0.0)
