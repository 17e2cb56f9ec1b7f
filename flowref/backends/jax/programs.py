"""The calls of one object as functions of its arrays: compiled, or run step by step.

Compilation dominates the cost: half a second for a program of some hundred operations, several for
its derivatives, where a call takes less than a millisecond. So user calls are compiled, for one or
two numbers of rows; derivatives, draws and everything under noise is traced once, for `RUNS`
stretches of rows with noise of their own, and run step by step (`interpreter.py`); without noise
only if that is not too long. Programs are shared by all conditions whose objects differ in their
arrays only.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.jax.interpreter import Noise, Stepped, TooLong
from flowref.backends.jax.single_trace import OnceTraced
from flowref.backends.jax.transforms import DERIVED, weighted_sum
from flowref.backends.jax.trees import Tree
from flowref.model import Array, Dialect, derive
from flowref.model.call import PAIRED

# Rows that a program is compiled for, and for large events; more are split: a hundred calls take
# less time than compiling another program.
ROWS, FEW_ROWS, LARGE_EVENT = 48, 16, 64
# Stretches of rows with noise of their own per noisy call.
RUNS = 8
# Calls that are compiled, or run step by step, as programs of points and contexts.
POINTWISE = (
    "forward", "inverse", "log_prob", "base_log_prob", "bits_per_dim", "cdf", "icdf", "expanded",
    "log_det_by_method", "score",
)  # fmt: skip
# The number of parameters, over all runs of a call, above which programs are compiled, and noisy
# runs are made one by one.
MANY_LEAVES = 2_000_000
# The number of objects whose programs are cached.
KEPT = 12
_KEPT: OrderedDict[Any, Programs] = OrderedDict()


class Programs:
    """The programs of an object. ``padded``: whether rows may be padded with others, since rows
    are independent.
    """

    def __init__(self, tree: Tree, dialect: Dialect, single: bool) -> None:
        self.tree, self.dialect, self.single = tree, dialect, single
        self.clean: dict[Any, Callable[..., Any]] = {}
        self.stepped: dict[Any, Stepped] = {}
        self.expensive: set[Any] = set()  # forms to compile, without noise
        self.lives: dict[Any, tuple[Stepped, list[Any]]] = {}  # see `scenario.py`
        self.once: dict[str, OnceTraced] = {}
        self.observed: dict[Any, Any] = {}  # see `observation.py`
        self.padded = True
        self.ruled: dict[str, bool] = {}  # see `rules.py`
        self.stopped: list[bool] = []  # see `stopped_gradients.py`
        self.traced: dict[str, str] = {}  # errors of tracing a call, or ""

    def pair(self, name: str, rowed: bool = False) -> Callable[..., Any]:
        """A call as a function ``(leaves, x, context)`` that returns a value and a log-det or
        None, as returned by the object or, if ``rowed``, with a batch axis.
        """
        function = self.dialect.function(name)

        def called(leaves: Any, x: Any, context: Any) -> tuple[Any, Any]:
            out = function(self.tree.filled(leaves), x, context)
            if name not in PAIRED:
                return out, None
            value, ladj = out
            return value, per_row(ladj, len(x)) if rowed and ladj is not None else ladj

        return called

    def traced_pair(self, name: str, rowed: bool = False) -> Callable[..., Any]:
        """The same from a cached trace, for derivatives."""
        if name not in self.once:
            self.once[name] = OnceTraced(self.pair(name))
        called = self.once[name]
        if not rowed:
            return called

        def with_rows(leaves: Any, x: Any, context: Any) -> tuple[Any, Any]:
            value, ladj = called(leaves, x, context)
            return value, ladj if ladj is None or name not in PAIRED else per_row(ladj, len(x))

        return with_rows

    def function(self, name: str, rowed: bool = False) -> Callable[..., Any]:
        """A call, or a derivative of one, by name: "forward", "jacobian forward", "vjp
        log_prob".
        """
        kind, _, which = name.rpartition(" ")
        pair = self.traced_pair(which, rowed or bool(kind))
        return DERIVED[kind](pair) if kind else pair

    def drawn(self, name: str, n: int) -> Callable[..., Any]:
        """A call that draws, as a function ``(leaves, key, context)``, or ``(leaves, key, context,
        x)`` for a stochastic layer.
        """
        function = self.dialect.function(name)

        def called(leaves: Any, key: Any, context: Any, *points: Any) -> Any:
            return function(self.tree.filled(leaves), *(points or (n,)), context, key)

        return called

    def run(self, name: str, leaves: Any, x: Array, *more: Array | None) -> Any:
        """The result of a call or a derivative for ``x`` ``(n, *event)``, with any n."""
        if " " in name:
            found = self.in_steps(name, leaves, None, x, *more)
            if found is not None:
                return found
        if name not in self.clean:
            self.clean[name] = jax.jit(self.function(name))
        size, pieces = self.size_of(x), []
        for start in range(0, max(len(x), 1), size):
            cut = [padded(array, start, size) for array in (x, *more)]
            count = min(size, len(x) - start)
            out = self.clean[name](leaves, *cut)
            pieces.append(jax.tree.map(lambda a, kept=count: first_rows(a, size, kept), out))
        return joined_results(pieces)

    def in_steps(
        self,
        name: str,
        leaves: Any,
        rounding: tuple[int, float] | None,
        x: Array,
        *more: Array | None,
    ) -> Any:
        """The same step by step, randomly rounded if ``rounding``, (seed, magnitude), is given:
        stretches of rows have noise of their own, in parameters too. None if it should be
        compiled.
        """
        runs, rows = (RUNS, rows_per_stretch(x)) if self.padded else (1, max(1, len(x)))
        if runs * sum(math.prod(leaf.shape) for leaf in leaves) > MANY_LEAVES:
            if rounding is None:
                return None
            runs = 1
        repeated = [np.broadcast_to(np.asarray(leaf), (runs, *leaf.shape)) for leaf in leaves]
        axes = (0, 0, *(None if one is None else 0 for one in more))
        pieces = []
        for start in range(0, max(len(x), 1), rows * runs):
            cut = [padded(array, start, rows * runs) for array in (x, *more)]
            stretches = [
                None if array is None else array.reshape(runs, rows, *array.shape[1:])
                for array in cut
            ]
            out = self.step(
                (name, axes, rows, str(x.dtype)),
                lambda: jax.vmap(self.function(name, rowed=True), in_axes=axes),
                None if rounding is None else (derive(rounding[0], start), rounding[1]),
                repeated,
                *stretches,
            )
            if out is None:
                return None
            pieces.append(jax.tree.map(partial(unstacked_rows, runs * rows, len(x) - start), out))
        return joined_results(pieces)

    def step(
        self,
        form: Any,
        make: Callable[[], Callable[..., Any]],
        rounding: tuple[int, float] | None,
        *args: Any,
    ) -> Any:
        """The result of a function, traced once for each form and run step by step; None if it
        cannot be traced, or should be compiled, and there is no noise.
        """
        if rounding is None and form in self.expensive:
            return None
        try:
            if form not in self.stepped:
                self.stepped[form] = Stepped(make(), *args)
        except Exception:
            if rounding is not None:
                raise
            self.expensive.add(form)  # compiled, it may raise that again
            return None
        noise = None if rounding is None else Noise(*rounding, self.single)
        try:
            return self.stepped[form](noise, *args)
        except TooLong:
            self.expensive.add(form)
            return None

    def size_of(self, x: Array) -> int:
        """The number of rows per call."""
        return rows_per_stretch(x) if self.padded else max(1, len(x))

    def slope(
        self,
        name: str,
        leaves: Any,
        x: Array,
        context: Array | None,
        weights: tuple[Array | None, Array | None],
        rounding: tuple[int, float] | None,
    ) -> Any:
        """The gradients, one in the shape of each array of the object, of the weighted sum of a
        call's results; padding rows have weight zero.
        """
        form = (f"slope {name}", *(one is not None for one in (context, *weights)))
        size, gradients = self.size_of(x), []
        for start in range(0, max(len(x), 1), size):
            cut = [padded(array, start, size) for array in (x, context)]
            weighing = [
                None if one is None else blank(padded(one, start, size), len(x) - start)
                for one in weights
            ]
            found = self.step(
                (*form, size),
                lambda: jax.grad(weighted_sum(self.traced_pair(name, rowed=True))),
                rounding,
                leaves,
                *cut,
                *weighing,
            )
            if found is None:
                if form not in self.clean:
                    run = jax.grad(weighted_sum(self.traced_pair(name, rowed=True)))
                    self.clean[form] = jax.jit(run)
                found = self.clean[form](leaves, *cut, *weighing)
            gradients.append(found)
        return jax.tree.map(lambda *parts: sum(np.asarray(part) for part in parts), *gradients)

    def draw(
        self,
        name: str,
        leaves: Any,
        n: int,
        seed: int,
        context: Array | None,
        rounding: tuple[int, float] | None,
        *points: Array,
    ) -> Any:
        """The result of a call that draws, possibly at points, randomly rounded if ``rounding`` is
        given.
        """
        key, form = jax.random.key(seed % 2**32), (name, n, context is not None)
        more = (context, *points)
        given = self.step(form, lambda: self.drawn(name, n), rounding, leaves, key, *more)
        if given is not None:
            return given
        if form not in self.clean:
            self.clean[form] = jax.jit(self.drawn(name, n))
        return jax.tree.map(np.array, self.clean[form](leaves, key, *more))


def programs_of(tree: Tree, leaves: Sequence[Any], dialect: Dialect, single: bool) -> Programs:
    """The programs of an object, shared by all objects that differ in their arrays only."""
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    try:
        key = (tree.key, shapes, dialect, single)
        hash(key)
    except Exception:  # unhashable static field
        return Programs(tree, dialect, single)
    try:
        if key not in _KEPT:
            _KEPT[key] = Programs(tree, dialect, single)
        _KEPT.move_to_end(key)
        while len(_KEPT) > KEPT:
            _KEPT.popitem(last=False)
        return _KEPT[key]
    except Exception:  # static fields without a comparison, such as arrays
        return Programs(tree, dialect, single)


def rows_per_stretch(x: Array) -> int:
    """The number of rows of one stretch."""
    return FEW_ROWS if math.prod(x.shape[1:]) > LARGE_EVENT else ROWS


def unstacked_rows(rows: int, kept: int, array: Any) -> Any:
    """The rows of stretches in order, ``(kept, ...)``, without padding."""
    return np.asarray(array).reshape(rows, *array.shape[2:])[:kept]


def per_row(ladj: Any, batch: int) -> Any:
    """A log-det with one or more entries for each row, ``(batch, ...)``: a constant is repeated."""
    ladj = jnp.asarray(ladj)
    whole = ladj.ndim and ladj.shape[0] == batch
    return ladj if whole else jnp.broadcast_to(ladj, (batch, *ladj.shape))


def padded(array: Array | None, start: int, size: int) -> Array | None:
    """``size`` rows from ``start`` on, ``(size, ...)``, padded with copies of the first; None
    stays None.
    """
    if array is None:
        return None
    cut = array[start : start + size]
    if len(cut) == size or not len(array):
        return cut
    return np.concatenate([cut, np.repeat(cut[:1], size - len(cut), axis=0)])


def blank(array: Array | None, rows: int) -> Array | None:
    """The array ``(n, ...)`` with rows from ``rows`` on set to zero."""
    if array is None or rows >= len(array):
        return array
    kept = np.array(array)
    kept[rows:] = 0
    return kept


def first_rows(array: Any, size: int, kept: int) -> Any:
    """The first ``kept`` rows of a result with ``size`` rows; a result without rows, such as a
    scalar log-det, is unchanged.
    """
    plain = np.array(array)
    return plain[:kept] if plain.ndim and len(plain) == size else plain


def joined_results(pieces: list[Any]) -> Any:
    """The concatenated results of stretches."""

    def together(*parts: Any) -> Any:
        rows = len(parts) > 1 and parts[0].ndim
        return np.concatenate(parts) if rows else parts[0]

    return jax.tree.map(together, *pieces)
