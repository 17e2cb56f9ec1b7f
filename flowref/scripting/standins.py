"""Light stand-ins for flowref's own machinery: what a program that stands alone contains in its
place.

Nothing here searches, counts or rounds at random; what is measured is the same to the last bit. The
sources of these definitions are written into programs.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import torch

from flowref import model
from flowref.backends.torch import calls, live, present, state
from flowref.backends.torch import sandbox as guard
from flowref.backends.torch.calls import feeds_float32, reseeded
from flowref.backends.torch.live import derive
from flowref.backends.torch.present import WARM_BATCH, WARM_SIZE
from flowref.backends.torch.sandbox import random_state, settings
from flowref.backends.torch.state import duplicate, set_mode
from flowref.model import draw

Mapped = namedtuple("Mapped", "value ladj")
Batch = namedtuple("Batch", "x context seed")
Observation = namedtuple("Observation", "printed rng globals mutated dtypes float32")


class Unsupported(Exception):
    """The object cannot do what is asked of it, so that the law says nothing."""


class Undecidable(Exception):
    """What was measured cannot be judged."""


class Plain:
    """Named values; what was not given is None, and nothing is promised."""

    promises: dict[str, Any] = {}  # noqa: RUF012  read only

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)


class Support:
    """The points with every coordinate in (low, high), or a subset of them."""

    def __init__(self, kind: str, low: float, high: float) -> None:
        self.kind, self.low, self.high = kind, low, high

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.low) or np.isfinite(self.high))

    def holds(self, x: Any) -> Any:
        flat = x.reshape(len(x), -1)
        inside = np.isfinite(flat).all(1) & (flat > self.low).all(1) & (flat < self.high).all(1)
        if self.kind == "ordered":
            inside &= (np.diff(x, axis=-1) > 0).reshape(len(x), -1).all(1)
        if self.kind == "simplex":
            inside &= (np.abs(x.sum(-1) - 1) < 1e-6).reshape(len(x), -1).all(1)
        return inside


class Residual(Plain):
    """What was measured, a row per point: `value` should be zero; the law says nothing in rows that
    are `silent`.
    """

    def __init__(self, value: Any, scale: Any = 1.0, **others: Any) -> None:
        super().__init__(value=value, scale=scale, **{"allowed": 0.0, "observed": {}, **others})

    def per_row(self) -> Any:
        value = np.abs(np.asarray(self.value, dtype=np.float64))
        return value.reshape(len(value), -1).max(1) if value.size else np.zeros(len(value))

    @property
    def silent(self) -> Any:
        silent = np.zeros(len(self.value), dtype=bool)
        if self.decidable is not None:
            silent |= ~np.asarray(self.decidable, dtype=bool)
        return silent if self.excused is None else silent | self.excused()


@contextlib.contextmanager
def sandbox(seed: int, dtype: Any = None) -> Any:
    """Fixed random states and a default dtype, put back afterwards; yields what is printed."""
    before, states, printed = (
        torch.get_default_dtype(),
        (np.random.get_state(), random.getstate()),
        io.StringIO(),
    )
    with (
        torch.random.fork_rng(devices=[]),
        torch.enable_grad(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            torch.set_default_dtype(dtype or before)
            yield printed
        finally:
            torch.set_default_dtype(before)
            np.random.set_state(states[0])
            random.setstate(states[1])


class Live:
    """The object in the recorded condition; every call is made on a fresh copy of it, under fixed
    random states.
    """

    def __init__(
        self,
        rebuild: Any,
        dialect: Any,
        facts: Any,
        dtype: Any,
        seed: int,
        fresh: Any,
        resolve: Any,
    ) -> None:
        self.rebuild, self.dialect, self.facts, self.dtype, self.seed = (
            rebuild,
            dialect,
            facts,
            dtype,
            seed,
        )
        self.fresh, self.resolve = fresh, resolve
        self.default, self.pristine = None, rebuild()

    def take(self) -> Any:
        try:
            return duplicate(self.pristine)
        except Exception:
            return self.rebuild()

    @contextlib.contextmanager
    def lend(self) -> Any:
        yield self.take()

    def speech(self, which: str) -> Any:
        speak = getattr(self.dialect, which)
        if speak is None:
            raise Unsupported(f"it offers no {which}")
        return speak

    def tensor(self, array: Any, dtype: Any = None) -> Any:
        if array is None:
            return None
        return torch.from_numpy(np.array(array, dtype=np.float64, order="C", copy=True)).to(
            dtype or self.dtype
        )

    @contextlib.contextmanager
    def calling(self, what: str, dtype: Any = None) -> Any:
        with sandbox(derive(self.seed, 17), self.default or dtype or self.dtype):
            yield


def warm(
    obj: Any, speak: Any, support: Any, shape: Any, context_shape: Any, dtype: Any, seed: int
) -> None:
    """Batches in train mode, so that first-call and running state are what they are in use."""
    set_mode(obj, True)
    rng = np.random.default_rng(derive(seed, 7) % 2**32)
    large = np.prod(shape) >= WARM_SIZE
    rows, times = (2, 1) if large else (WARM_BATCH, 2)
    for _ in range(times):
        x = torch.from_numpy(draw(support, (rows, *shape), rng)).to(dtype)
        context = None
        if context_shape is not None:
            context = torch.from_numpy(rng.standard_normal((rows, *context_shape))).to(dtype)
        with (
            contextlib.suppress(Exception),
            torch.set_grad_enabled(not large),
        ):  # a train-mode pass may be refused
            speak(obj, x, context)


def observe_conduct(
    live: Any, which: str, x: Any, context: Any = None, default: str = "float32"
) -> Any:
    """What one call does besides returning, under the float32 default dtype, as users have it."""
    speak, obj = live.speech(which), live.take()
    inputs = [tensor for tensor in (live.tensor(x), live.tensor(context)) if tensor is not None]
    copies = [tensor.clone() for tensor in inputs]
    with sandbox(derive(live.seed, 17), getattr(torch, default)) as printed:
        before, states = settings(), random_state()
        out = speak(obj, *inputs, *[None] * (2 - len(inputs)))
        ended, spoken = random_state(), printed.getvalue()
        changed = tuple(name for name, value in settings().items() if value != before[name])
    if ended != states:
        changed += reseeded(live, which, x, context, getattr(torch, default), ended)
    mutated = tuple(
        name
        for name, tensor, clean in zip(("x", "context"), inputs, copies, strict=False)
        if tensor._version > 0 or not torch.equal(torch.nan_to_num(tensor), torch.nan_to_num(clean))
    )
    results = [out] if which == "log_prob" else list(out)
    dtypes = tuple(
        str(v.dtype).removeprefix("torch.") if isinstance(v, torch.Tensor) else "number"
        for v in results
    )
    return Observation(spoken, ended != states, changed, mutated, dtypes, False)


def observe_precision(
    live: Any, which: str, x: Any, context: Any = None, default: str = "float32"
) -> Any:
    """The same, with whether float32 arithmetic feeds a float64 result."""
    narrow = live.dtype == torch.float64 and feeds_float32(
        live, which, x, context, getattr(torch, default)
    )
    return observe_conduct(live, which, x, context, default)._replace(float32=narrow)


def draw_normal(support: Any, shape: Any, rng: Any) -> Any:
    """Ordinary points of the real line."""
    return rng.standard_normal(shape)


def cast_module(obj: Any, dtype: Any) -> Any:
    """Cast parameters and buffers."""
    return obj.to(dtype)


def module_itself(obj: Any) -> Any:
    """The modules of an object, of which it is one."""
    return [obj]


def set_mode_of_module(obj: Any, training: bool) -> None:
    """Put the object into train or eval mode."""
    obj.train(training)


def trainable_of_module(obj: Any) -> Any:
    """The named parameters that require a gradient."""
    return [
        (name, p) for name, p in obj.named_parameters() if p.requires_grad and p.is_floating_point()
    ]


def state_of_module(obj: Any) -> Any:
    """Parameters and buffers by name."""
    return dict(obj.state_dict(keep_vars=True))


def substitutes(obj: Any, facts: model.Facts, precision: bool) -> dict[Any, Any]:
    """What stands in for what, for one object: the walks through attributes are only for those that
    need them.

    ``precision``: whether the law asks if float32 arithmetic feeds a result, which takes random
    rounding to see.
    """
    found: dict[Any, Any] = {
        model.Mapped: Mapped,
        model.Batch: Batch,
        model.Observation: Observation,
        model.Unsupported: Unsupported,
        model.Undecidable: Undecidable,
        model.Subject: Plain,
        model.Dialect: Plain,
        model.Facts: Plain,
        model.Normalizer: Plain,
        model.Squeezing: Plain,
        model.MultiScale: Plain,
        model.Coupling: Plain,
        model.Support: Support,
        model.Residual: Residual,
        live.Live: Live,
        guard.sandbox: sandbox,
        present.warm: warm,
        live.evaluate: live.evaluate_anew,
        calls.observe: observe_precision if precision else observe_conduct,
    }
    supports = {facts.domain.kind, facts.codomain.kind if facts.codomain is not None else "real"}
    if supports == {"real"}:
        found[model.draw] = draw_normal
    if isinstance(obj, torch.nn.Module):
        found |= {
            state.modules: module_itself,
            state.trainable: trainable_of_module,
            state.named_state: state_of_module,
        }
        if all(callable(part.train) for part in obj.modules()):
            found[state.set_mode] = set_mode_of_module
        if _casts(obj):
            found[state.cast] = cast_module
    with contextlib.suppress(Exception):
        copy.deepcopy(obj)
        found[state.duplicate] = copy.deepcopy
    return found


def _casts(module: Any) -> bool:
    """Whether ``.to(dtype)`` reaches every tensor that a module holds."""
    for dtype in (torch.float32, torch.float64):
        try:
            moved = copy.deepcopy(module).to(dtype)
        except Exception:
            return False
        floating = [tensor for tensor in state.tensors(moved) if tensor.is_floating_point()]
        if any(tensor.dtype != dtype for tensor in floating):
            return False
    return True
