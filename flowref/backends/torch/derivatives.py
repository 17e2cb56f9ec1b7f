"""Derivatives of a live object's calls by autograd, and calls with moved parameters."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.arrays import array, as_mapped
from flowref.backends.torch.live import Live
from flowref.backends.torch.methods import method
from flowref.backends.torch.sandbox import seed_torch
from flowref.backends.torch.state import move, parameter_directions, set_mode, trainable
from flowref.model import Array, Cost, Mapped, Undecidable, Unsupported, derive
from flowref.model.call import KERNELS
from flowref.model.cost import BACKWARD

# Limits of one backward pass of a Jacobian: rows, entries of the result, and bytes of the graph;
# larger ones are split. If the parameters alone take more, rows may take as much again.
JACOBIAN_ROWS, JACOBIAN_SIZE, JACOBIAN_BYTES = 1024, 2**18, 2**28


def _call_with_graph(
    live: Live, obj: Any, name: str, x: torch.Tensor, context: torch.Tensor | None
) -> tuple[torch.Tensor, Any]:
    """Value and log-det of a call, with its graph. The caller keeps ``obj`` alive: some graphs
    refer to it weakly. A call that writes to its input is repeated on a copy, since autograd
    forbids writes to a leaf. Raises `Unsupported` for a call that converts its input to numpy,
    which tensors with a graph refuse.
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


# Words of torch's errors about graphs without a backward pass -> reason.
NO_WAY_BACK = {
    "modified by an inplace operation": "overwrites what autograd needs to go back",
    "backward through the graph a second time": "frees the graph that autograd needs to go back",
    "checkpoint is incompatible with .grad()": "has a reentrant checkpoint, through which no gradient of its input "
    "can be asked for",
}


def gradients(
    name: str,
    ends: Sequence[tuple[torch.Tensor, torch.Tensor]],
    leaves: Sequence[torch.Tensor],
    again: bool = False,
) -> Sequence[torch.Tensor | None]:
    """Gradients of the leaves for (output, cotangent) pairs of a call's graph, None where a leaf
    has no influence; ``again``: with a graph of their own.

    Raises `Unsupported` if values of the graph were overwritten, or the call freed its graph by a
    backward pass of its own, or recomputes values, which needs a recorded graph. Returned values
    are still judged, by finite differences.
    """
    if not ends:
        return [None] * len(leaves)
    outs, cotangents = zip(*ends, strict=True)
    try:
        return torch.autograd.grad(outs, leaves, cotangents, create_graph=again, allow_unused=True)
    except RuntimeError as error:
        for words, reason in NO_WAY_BACK.items():
            if words in str(error):
                raise Unsupported(f"{name} {reason}") from error
        raise


def jacobian(live: Live, name: str, x: Array, context: Array | None = None) -> Array:
    """d value / d input per point, ``(batch, outputs, inputs)``, by autograd.

    Each row is repeated once per output and pulled back with one-hot cotangents in one backward
    pass, which gives the same matrix as one pass per output if rows are independent; a graph that
    would be too large is built for some outputs of a row at a time. Raises `Unsupported` if no
    graph is recorded.
    """
    shape = live.facts.event_shape
    if name == "forward":
        shape = live.facts.latent_shape or shape
    batch, outputs, inputs = len(x), math.prod(shape), math.prod(x.shape[1:])
    parts = list(blocks(batch, outputs, graphed_rows(live.facts.cost, name)))
    what = f"jacobian {name}"

    def anew(stream: int | None = None) -> Array:
        with live.lend() as obj, live.calling(what, stream=stream):
            whole = obj
            clean = live.tensor(x, support=live.support_of(name))
            ctx = live.tensor(context, jitter=1)
            assert clean is not None
            matrices = np.zeros((batch, outputs, inputs), dtype=array(clean[:0]).dtype)
            for some, pulled in parts:
                width = pulled.stop - pulled.start
                rows = clean[some].repeat_interleave(width, 0).requires_grad_(True)
                contexts = None if ctx is None else ctx[some].repeat_interleave(width, 0)
                whole = live.take() if whole is None else whole  # each block is a separate call
                value, _ = _call_with_graph(live, whole, name, rows, contexts)
                if not value.requires_grad:
                    raise Unsupported(f"{name} records no autograd graph")
                flat = value.reshape(len(rows), -1)
                if flat.shape[1] != outputs:
                    raise Undecidable(
                        f"{name} returned {tuple(value.shape[1:])} where {tuple(shape)} was expected"
                    )
                units = torch.eye(outputs, dtype=flat.dtype)[pulled].repeat(len(rows) // width, 1)
                (gradient,) = gradients(name, [(flat, units)], [rows])
                if gradient is not None:
                    matrices[some, pulled] = array(gradient).reshape(len(rows) // width, width, -1)
                whole = None
        return matrices

    live.afford_jacobian(name, parts)
    live.count(what, anew)
    found: Array = live.kept(what, (x, context), anew)
    return found


def blocks(batch: int, outputs: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Yields the (rows, outputs) of each backward pass; at most ``most`` in total per pass, at
    least one.

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
    """The maximal number of rows of a call with a graph."""
    written = cost.of(name).written
    return max(1, written.rows(max(JACOBIAN_BYTES, 2 * written.fixed)))


def pull(
    live: Live,
    name: str,
    x: Array,
    context: Array | None,
    values: Array | None,
    ladjs: Array | None,
    toward: str = "x",
    along: Array | None = None,
    *,
    only: str = "",
    draws: int | None = None,
    training: bool = False,
) -> Any:
    """See `flowref.backends.derivatives.Derivatives.pull`. Parameters without influence have zero
    gradients.
    """
    what = f"pull {name} toward {toward}"
    inputs = (x, context, values, ladjs, along, only, draws, training)

    def anew(stream: int | None = None) -> Any:
        with live.lend() as obj, live.calling(what, stream=stream):
            if training:
                set_mode(obj, training)
            set_random_state(live, draws)
            points: Any = live.tensor(x)
            given: Any = live.tensor(context, jitter=1)
            leaves = [points if toward == "x" else given]
            if toward == "parameters":
                leaves = [one for which, one in trainable(obj) if only in ("", which)]
            else:
                leaves[0].requires_grad_(True)
            outs = _call_with_graph(live, obj, name, points, given)
            ends = [
                (out, cotangent_of(out, weights, len(x)))
                for out, weights in zip(outs, (values, ladjs), strict=True)
                if weights is not None and isinstance(out, torch.Tensor) and out.requires_grad
            ]
            if not ends and toward != "parameters":
                raise Unsupported(f"{name} records no autograd graph")
            found = gradients(name, ends, leaves, again=along is not None)
            if along is not None:
                ends = [
                    (one, torch.from_numpy(np.array(along)).to(one.dtype))
                    for one in found
                    if one is not None and one.requires_grad
                ]
                found = gradients(name, ends, leaves)
            pulled = tuple(
                np.zeros(leaf.shape) if one is None else np.asarray(array(one))
                for one, leaf in zip(found, leaves, strict=True)
            )
            return pulled if toward == "parameters" else pulled[0]

    live.afford(name, len(x), 1 + (1 if along is None else 3) * BACKWARD, graphed=True)
    live.count(what, anew)
    return live.kept(what, inputs, anew)


def cotangent_of(out: torch.Tensor, weights: Array, batch: int) -> torch.Tensor:
    """Weights ``(n, ...)`` in the shape of a result; a result shared by all points gets
    their sum.
    """
    rows = torch.from_numpy(np.array(weights)).to(out.dtype)
    if out.dim() and len(out) == batch:
        return rows.reshape(batch, -1).expand(batch, math.prod(out.shape[1:])).reshape(out.shape)
    return rows.sum().expand(out.shape)


def set_random_state(live: Live, draws: int | None) -> None:
    """Seed all generators with stream number ``draws``; None leaves the state of the condition."""
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
    """The `Mapped` result of a call at ``x`` ``(n, *event)`` with all trainable parameters, or
    ``only`` one, moved by t times a seeded direction; ``draws``: with other random numbers.
    Several laws ask for the same result, so expensive ones are cached.
    """
    live.afford(name, len(x))

    def anew(stream: int | None = None) -> Mapped:
        with live.calling(name, stream=stream):
            obj = live.take()
            move(obj, t, seed, only)
            # These take a seed; the random state is that of the call.
            run = live.function(name) if name in KERNELS else method(live, name)
            set_random_state(live, draws)
            return as_mapped(name, run(obj, live.tensor(x), live.tensor(context)))

    if live.rounding is not None or not live.facts.cost.heavy:
        return anew()
    out: Mapped = live.kept(f"along {name}", (x, context, seed, t, only, draws), anew)
    return out


def steps(live: Live, seed: int, only: str = "") -> Iterator[Array]:
    """The direction in which `along` moves the parameters: an array for each trained one, or for
    ``only``.
    """
    return (step.numpy() for _, step in parameter_directions(live.pristine, seed, only))


def directional(total: torch.Tensor, obj: Any, seed: int, largest: int = 0) -> float:
    """The derivative of a scalar in the direction of `move`, by autograd; if ``largest`` is given,
    for parameters with at most that many entries, and the graph is kept.
    """
    steps = [
        one for one in parameter_directions(obj, seed) if not largest or one[0].numel() <= largest
    ]
    if not steps:
        return 0.0
    found = torch.autograd.grad(
        total, [p for p, _ in steps], allow_unused=True, retain_graph=bool(largest)
    )
    slopes = (
        float((gradient.double() * step).sum())
        for gradient, (_, step) in zip(found, steps, strict=True)
        if gradient is not None
    )
    return sum(slopes, 0.0)
