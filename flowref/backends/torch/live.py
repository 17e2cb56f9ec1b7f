"""A loaded torch object and the calls that its subject is made of.

Every call runs on a fresh copy, under fixed random states, so that a cache or a counter in one call
cannot hide or cause something in another; the noise of `RandomRounding` applies inside the call and
nowhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.copies import Shelf
from flowref.backends.torch.narrowing import Watching
from flowref.backends.torch.noise import RandomRounding
from flowref.backends.torch.sandbox import sandbox
from flowref.backends.torch.state import duplicate, move, trainable
from flowref.model import (
    Array,
    Dialect,
    Facts,
    Mapped,
    Observation,
    Support,
    Undecidable,
    Unsupported,
)

DTYPES = {"float64": torch.float64, "float32": torch.float32}
# A noised call may take this many times the operations of a clean one before it counts as an
# iteration that does not settle.
BUDGET_FACTOR, BUDGET_FLOOR = 20, 2000
# Rows and numbers of one backward pass of a Jacobian; more are taken in chunks.
JACOBIAN_ROWS, JACOBIAN_SIZE = 1024, 2**18
# Results of calls without noise that an object keeps.
RECENT = 64
WHICH = ("forward", "inverse", "log_prob")


@dataclass
class Live:
    """A live object in one condition: ``pristine`` is copied for each call and never called itself."""

    pristine: Any
    dialect: Dialect
    facts: Facts
    dtype: torch.dtype
    seed: int
    rebuild: Callable[[], Any]
    fresh: Callable[[], Any]
    resolve: Callable[[Any], Dialect | None]
    rounding: tuple[int, float] | None = None
    default: torch.dtype | None = None
    calls: int = 0
    clean_operations: dict[str, int] = field(default_factory=dict)
    results: dict[tuple[Any, ...], Mapped] = field(default_factory=dict)
    observations: dict[tuple[Any, ...], Observation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shelf = Shelf(self._copied)

    def lend(self) -> contextlib.AbstractContextManager[Any]:
        """A copy for the length of one call, which is fresh or as good as fresh. Taken before the
        circumstances of the call are set up, so that copying is not slowed down by noise.
        """
        return self.shelf.lend()

    def _copied(self) -> Any:
        with sandbox(derive(self.seed, 17), self.default or self.dtype):
            return self.take()

    def take(self) -> Any:
        """A fresh copy of the object, to keep or to change."""
        try:
            return duplicate(self.pristine)
        except Exception:
            return self.rebuild()

    def speech(self, which: str) -> Callable[..., Any]:
        """The dialect's function for a call."""
        speak = getattr(self.dialect, which)
        if speak is None:
            raise Unsupported(f"it offers no {which}")
        return speak  # type: ignore[no-any-return]  # getattr on a frozen dataclass of callables

    def tensor(
        self,
        array: Array | None,
        dtype: torch.dtype | None = None,
        jitter: int = 0,
        support: Support | None = None,
    ) -> torch.Tensor | None:
        """An array as a tensor of the subject's dtype; under noise, jittered so that kinks and
        zeros are seen.

        Jitter does not leave a ``support`` that the point was in.
        """
        if array is None:
            return None
        tensor = torch.from_numpy(np.array(array, dtype=np.float64, order="C", copy=True)).to(
            dtype or self.dtype
        )
        if self.rounding is None:
            return tensor
        seed, magnitude = self.rounding
        generator = torch.Generator().manual_seed(derive(seed, self.calls, jitter))
        flat = tensor.reshape(len(tensor), -1)
        largest = flat.abs().amax(1, keepdim=True) if flat.shape[1] else flat
        size = flat.abs() + 2.0**-6 * largest + 2.0**-20
        xi = torch.rand(flat.shape, generator=generator, dtype=flat.dtype).mul_(2).sub_(1)
        moved = flat + magnitude * size * xi
        if support is not None and support.bounded:
            inside = (flat > support.low) & (flat < support.high)
            moved = torch.where(
                inside & ((moved <= support.low) | (moved >= support.high)), flat, moved
            )
        return moved.reshape(tensor.shape)

    def given(self, which: str) -> Support | None:
        """The set that the inputs of a call come from, if it is known."""
        return (
            self.facts.domain
            if which == "forward"
            else self.facts.codomain
            if which == "inverse"
            else None
        )

    @contextlib.contextmanager
    def calling(self, what: str, dtype: torch.dtype | None = None) -> Iterator[None]:
        """The circumstances of one call: fixed random state, default dtype, noise if it is on."""
        self.calls += 1
        with sandbox(derive(self.seed, 17), self.default or dtype or self.dtype):
            if self.rounding is None:
                yield
                return
            seed, magnitude = self.rounding
            clean = self.clean_operations.get(what)
            budget = None if clean is None else BUDGET_FACTOR * clean + BUDGET_FLOOR
            with RandomRounding(magnitude, derive(seed, self.calls), budget=budget):
                yield

    def count(self, what: str, run: Callable[[], Any]) -> None:
        """Count the operations of a clean call once, so that a noised one can be stopped when it
        does not settle.
        """
        if self.rounding is not None and what not in self.clean_operations:
            noise, self.rounding = self.rounding, None
            try:
                with Watching() as counter:
                    run()
                self.clean_operations[what] = counter.operations
            except Exception:
                self.clean_operations[what] = 0
            finally:
                self.rounding = noise


def derive(*parts: int) -> int:
    """A 63-bit seed from integers, the same in every process."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def array(value: Any) -> Any:
    """A tensor as an array; Python numbers stay what they are."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    return value


def mapped(which: str, out: Any) -> Mapped:
    """The outcome of a call as plain values."""
    if which in ("forward", "inverse"):
        value, ladj = out
        return Mapped(array(value), array(ladj))
    if isinstance(out, (tuple, list)):
        return Mapped(np.array([float(part) for part in out if part is not None]), None)
    return Mapped(array(out), None)


def evaluate_anew(live: Live, which: str, x: Array, context: Array | None = None) -> Mapped:
    """Call forward, inverse or log_prob on a fresh copy."""
    speak = live.speech(which)
    live.count(which, lambda: evaluate_anew(live, which, x, context))
    with live.lend() as obj, live.calling(which):
        points = live.tensor(x, support=live.given(which))
        return mapped(which, speak(obj, points, live.tensor(context, jitter=1)))


def evaluate(live: Live, which: str, x: Array, context: Array | None = None) -> Mapped:
    """The same. Without noise it is a function of its arguments, and laws share points, so recent
    results are kept.
    """
    if live.rounding is not None:
        return evaluate_anew(live, which, x, context)
    asked = (which, *key_of(x), *key_of(context), live.default)
    out = live.results.pop(asked, None) or evaluate_anew(live, which, x, context)
    live.results[asked] = out
    if len(live.results) > RECENT:
        del live.results[next(iter(live.results))]
    return Mapped(copied(out.value), copied(out.ladj))


def key_of(array: Array | None) -> tuple[Any, ...]:
    """What tells an array from others."""
    return () if array is None else (array.dtype, array.shape, array.tobytes())


def copied(value: Any) -> Any:
    """An array in memory of its own; a Python number as it is."""
    return value.copy() if isinstance(value, np.ndarray) else value


def evaluate_log_prob(live: Live, x: Array, context: Array | None = None) -> Array:
    """The log-density of each point, as returned."""
    return evaluate(live, "log_prob", x, context).value


def evaluate_base(live: Live, z: Array, context: Array | None = None) -> Array:
    """The base log-density of each latent, as returned."""
    speak = live.speech("base_log_prob")
    with live.lend() as obj, live.calling("base_log_prob"):
        return np.asarray(array(speak(obj, live.tensor(z), live.tensor(context, jitter=1))))


def draw_samples(live: Live, n: int, seed: int, context: Array | None = None) -> Array:
    """``n`` samples with the global random state seeded by ``seed``."""
    speak = live.speech("sample")
    with live.lend() as obj, live.calling("sample"):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        with torch.no_grad():
            return np.asarray(array(speak(obj, n, live.tensor(context))))


def _graphed(
    live: Live, obj: Any, which: str, x: torch.Tensor, context: torch.Tensor | None
) -> tuple[torch.Tensor, Any]:
    """Value and log-det of a call, with the graph kept. The caller keeps ``obj`` alive: some graphs
    refer to it weakly.
    """
    out = live.speech(which)(obj, x, context)
    return (out, None) if which == "log_prob" else (out[0], out[1])


def jacobian(live: Live, which: str, x: Array, context: Array | None = None) -> Array:
    """d value / d input per point, ``(batch, outputs, inputs)``, by autograd.

    Each row is repeated once per output and pulled back with one-hot cotangents in one backward
    pass, which is the same matrix as one pass per output wherever rows are independent. Raises
    `Unsupported` where no graph is recorded.
    """
    batch = len(x)
    shape = live.facts.latent_shape or live.facts.event_shape
    outputs = int(np.prod(shape if which == "forward" else live.facts.event_shape))
    live.count(f"jacobian {which}", lambda: jacobian(live, which, x, context))
    step = max(1, min(JACOBIAN_ROWS, JACOBIAN_SIZE // max(1, outputs)) // max(1, outputs))
    with live.lend() as obj, live.calling(f"jacobian {which}"):
        pieces: list[Array] = []
        clean, ctx = live.tensor(x, support=live.given(which)), live.tensor(context, jitter=1)
        assert clean is not None
        for start in range(0, batch, step):
            rows = clean[start : start + step].repeat_interleave(outputs, 0).requires_grad_(True)
            given = None if ctx is None else ctx[start : start + step].repeat_interleave(outputs, 0)
            whole = obj if not pieces else live.take()  # each chunk is a call of its own
            value, _ = _graphed(live, whole, which, rows, given)
            if not value.requires_grad:
                raise Unsupported(f"{which} records no autograd graph")
            if value.reshape(len(rows), -1).shape[1] != outputs:
                raise Undecidable(
                    f"{which} returned {tuple(value.shape[1:])} where {tuple(shape)} was expected"
                )
            flat = value.reshape(len(rows) // outputs, outputs, outputs)
            diagonal = torch.diagonal(flat, dim1=1, dim2=2).sum()
            (gradient,) = torch.autograd.grad(diagonal, rows, allow_unused=True)
            if gradient is None:
                gradient = torch.zeros_like(rows)
            pieces.append(array(gradient).reshape(len(rows) // outputs, outputs, -1))
        return np.concatenate(pieces) if pieces else np.zeros((0, outputs, outputs))


def vjp(
    live: Live,
    which: str,
    x: Array,
    context: Array | None,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
) -> Array:
    """Gradient with respect to the input of <value, value_cotangent> + sum(ladj * ladj_cotangent)."""
    live.count(
        f"vjp {which}", lambda: vjp(live, which, x, context, value_cotangent, ladj_cotangent)
    )
    with live.lend() as obj, live.calling(f"vjp {which}"):
        leaf, given = live.tensor(x), live.tensor(context, jitter=1)
        assert leaf is not None
        leaf.requires_grad_(True)
        value, ladj = _graphed(live, obj, which, leaf, given)
        total = _weighted(value, value_cotangent, len(x)) + _weighted(ladj, ladj_cotangent, len(x))
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            raise Unsupported(f"{which} records no autograd graph")
        (gradient,) = torch.autograd.grad(total, leaf, allow_unused=True)
        return np.zeros(x.shape) if gradient is None else np.asarray(array(gradient))


def curvature(
    live: Live,
    which: str,
    x: Array,
    context: Array | None,
    value_cotangent: Array | None,
    ladj_cotangent: Array | None,
    direction: Array,
) -> Array:
    """The derivative with respect to the input of <gradient, direction>, where the gradient is that
    of `vjp`.
    """
    with live.lend() as obj, live.calling(f"curvature {which}"):
        leaf, given = live.tensor(x), live.tensor(context, jitter=1)
        assert leaf is not None
        leaf.requires_grad_(True)
        value, ladj = _graphed(live, obj, which, leaf, given)
        total = _weighted(value, value_cotangent, len(x)) + _weighted(ladj, ladj_cotangent, len(x))
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            raise Unsupported(f"{which} records no autograd graph")
        (gradient,) = torch.autograd.grad(total, leaf, create_graph=True, allow_unused=True)
        if gradient is None or not gradient.requires_grad:
            return np.zeros(x.shape)
        along = (gradient * torch.from_numpy(np.array(direction)).to(gradient.dtype)).sum()
        (second,) = torch.autograd.grad(along, leaf, allow_unused=True)
        return np.zeros(x.shape) if second is None else np.asarray(array(second))


def _weighted(value: Any, weights: Array | None, batch: int) -> Any:
    """Sum of a returned quantity, weighted per point; zero if nothing was returned or asked."""
    if weights is None or not isinstance(value, torch.Tensor):
        return 0.0
    rows = torch.from_numpy(np.array(weights)).to(value.dtype)
    if value.dim() and value.shape[0] == batch:
        return (value.reshape(batch, -1) * rows.reshape(batch, -1)).sum()
    return value.sum() * rows.sum()


def along(live: Live, which: str, x: Array, context: Array | None, seed: int, t: float) -> Mapped:
    """The call with every trainable parameter moved by t times a seeded direction."""
    speak = live.speech(which)
    with live.calling(which):
        obj = live.take()
        move(obj, t, seed)
        return mapped(which, speak(obj, live.tensor(x), live.tensor(context)))


def slope(
    live: Live, which: str, x: Array, context: Array | None, seed: int, weights: Array
) -> float:
    """Autograd's derivative at t = 0 of sum(weights * ladj) (of log_prob itself for "log_prob") in
    the direction of `along`.
    """
    with live.lend() as obj, live.calling(f"slope {which}"):
        out = live.speech(which)(obj, live.tensor(x), live.tensor(context))
        total = _weighted(out if which == "log_prob" else out[1], weights, len(x))
        parameters = [parameter for _, parameter in trainable(obj)]
        if not isinstance(total, torch.Tensor) or not total.requires_grad:
            return 0.0
        gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        generator = torch.Generator().manual_seed(seed)
        derivative = 0.0
        for parameter, gradient in zip(parameters, gradients, strict=True):
            step = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if gradient is not None:
                derivative += float((gradient.double() * step).sum())
        return derivative


@contextlib.contextmanager
def noise(live: Live, seed: int, magnitude: float) -> Iterator[None]:
    """Randomly round everything that the subject computes, with a stream fixed by ``seed``."""
    before, calls = live.rounding, live.calls
    live.rounding, live.calls = (seed, magnitude), 0
    try:
        yield
    finally:
        live.rounding, live.calls = before, calls


@contextlib.contextmanager
def usual(live: Live) -> Iterator[None]:
    """Call the subject under the float32 default dtype, as users have it."""
    before, live.default = live.default, torch.float32
    try:
        yield
    finally:
        live.default = before
