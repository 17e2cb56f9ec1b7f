"""The calls of one object as functions of its arrays: compiled, or run step by step.

Compilation is what costs: half a second for a program of some hundred operations, several for its
derivatives, where a call takes less than a millisecond. So what users call is compiled, for one number of
rows or two; derivatives, draws and all that is rounded is traced once, for `RUNS` stretches of rows with
noise of their own, and run step by step (`interpreter.py`); without noise only as long as that is not too
long. Programs are shared by all conditions in which objects differ by their arrays alone.
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

# Rows that a program is compiled for, and for events of many entries; more are taken in pieces: a
# hundred calls take less than to compile another program.
ROWS, FEW_ROWS, LARGE_EVENT = 48, 16, 64
# Stretches of rows with noise of their own that one noisy call takes.
RUNS = 8
# Calls that are compiled, or run step by step, as programs of points and contexts.
POINTWISE = (
    "forward", "inverse", "log_prob", "base_log_prob", "bits_per_dim", "cdf", "icdf", "expanded",
    "told_late", "score",
)  # fmt: skip
# Numbers of parameters, for all runs of a call, beyond which programs are compiled, and noise is of one run
# after the other.
MANY_LEAVES = 2_000_000
# Objects whose programs are kept.
KEPT = 12
_KEPT: OrderedDict[Any, Programs] = OrderedDict()


class Programs:
    """``padded``: whether rows may be filled up with others, since results of a row depend on no
    other row.
    """

    def __init__(self, tree: Tree, dialect: Dialect, single: bool) -> None:
        self.tree, self.dialect, self.single = tree, dialect, single
        self.clean: dict[Any, Callable[..., Any]] = {}
        self.stepped: dict[Any, Stepped] = {}
        self.dear: set[Any] = set()  # what had better be compiled, without noise
        self.lives: dict[Any, tuple[Stepped, list[Any]]] = {}  # see `scenario.py`
        self.once: dict[str, OnceTraced] = {}
        self.observed: dict[Any, Any] = {}  # see `observation.py`
        self.padded = True
        self.ruled: dict[str, bool] = {}  # see `rules.py`
        self.stopped: list[bool] = []  # see `stopped_gradients.py`
        self.traced: dict[str, str] = {}  # what tracing a call raised, empty where it did not

    def pair(self, name: str, rowed: bool = False) -> Callable[..., Any]:
        """A call as a function ``(leaves, x, context)`` of a value and a log-det or None, which is as
        it is returned or, ``rowed``, has the batch first.
        """
        speak = self.dialect.function(name)

        def called(leaves: Any, x: Any, context: Any) -> tuple[Any, Any]:
            out = speak(self.tree.filled(leaves), x, context)
            if name not in PAIRED:
                return out, None
            value, ladj = out
            return value, per_row(ladj, len(x)) if rowed and ladj is not None else ladj

        return called

    def traced_pair(self, name: str, rowed: bool = False) -> Callable[..., Any]:
        """The same by a trace that is made once, of what is derived from it."""
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
        """A call, or a derivative of one: "forward", "jacobian forward", "vjp log_prob"."""
        kind, _, which = name.rpartition(" ")
        pair = self.traced_pair(which, rowed or bool(kind))
        return DERIVED[kind](pair) if kind else pair

    def drawn(self, name: str, n: int) -> Callable[..., Any]:
        """A call that draws, as a function ``(leaves, key, context)``, and of a kernel ``(leaves, key,
        context, x)``.
        """
        speak = self.dialect.function(name)

        def called(leaves: Any, key: Any, context: Any, *points: Any) -> Any:
            return speak(self.tree.filled(leaves), *(points or (n,)), context, key)

        return called

    def run(self, name: str, leaves: Any, x: Array, *more: Array | None) -> Any:
        """The result for a batch of any size."""
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
        """The same step by step, randomly rounded where that is asked: stretches of rows have noise of
        their own, in parameters too. None where it had better be compiled.
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
        """What a function gives, traced once for each form and run step by step; None where that
        cannot be, or had better not, and there is no noise.
        """
        if rounding is None and form in self.dear:
            return None
        try:
            if form not in self.stepped:
                self.stepped[form] = Stepped(make(), *args)
        except Exception:
            if rounding is not None:
                raise
            self.dear.add(form)  # compiled, it raises that again, or does not
            return None
        noise = None if rounding is None else Noise(*rounding, self.single)
        try:
            return self.stepped[form](noise, *args)
        except TooLong:
            self.dear.add(form)
            return None

    def size_of(self, x: Array) -> int:
        """The rows of one call of a batch."""
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
        """The gradients, in the arrays of the object, of the weighted sum of a call's results: rows
        that are filled in weigh nothing.
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
        """What a call that draws, by itself or at points, gives, randomly rounded where that is asked."""
        key, form = jax.random.key(seed % 2**32), (name, n, context is not None)
        more = (context, *points)
        given = self.step(form, lambda: self.drawn(name, n), rounding, leaves, key, *more)
        if given is not None:
            return given
        if form not in self.clean:
            self.clean[form] = jax.jit(self.drawn(name, n))
        return jax.tree.map(np.array, self.clean[form](leaves, key, *more))


def programs_of(tree: Tree, leaves: Sequence[Any], dialect: Dialect, single: bool) -> Programs:
    """The programs of an object, shared with all that differ from it by their arrays alone."""
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)
    try:
        key = (tree.key, shapes, dialect, single)
        hash(key)
    except Exception:  # a static field that does not hash
        return Programs(tree, dialect, single)
    try:
        if key not in _KEPT:
            _KEPT[key] = Programs(tree, dialect, single)
        _KEPT.move_to_end(key)
        while len(_KEPT) > KEPT:
            _KEPT.popitem(last=False)
        return _KEPT[key]
    except Exception:  # static fields that do not compare, as arrays do not
        return Programs(tree, dialect, single)


def rows_per_stretch(x: Array) -> int:
    """Rows of one stretch."""
    return FEW_ROWS if math.prod(x.shape[1:]) > LARGE_EVENT else ROWS


def unstacked_rows(rows: int, kept: int, array: Any) -> Any:
    """The rows of stretches, one after the other, as far as they were asked for."""
    return np.asarray(array).reshape(rows, *array.shape[2:])[:kept]


def per_row(ladj: Any, batch: int) -> Any:
    """A log-det with one entry, or more, for each row: a constant is repeated."""
    ladj = jnp.asarray(ladj)
    whole = ladj.ndim and ladj.shape[0] == batch
    return ladj if whole else jnp.broadcast_to(ladj, (batch, *ladj.shape))


def padded(array: Array | None, start: int, size: int) -> Array | None:
    """A stretch of rows, filled up with copies of its first."""
    if array is None:
        return None
    cut = array[start : start + size]
    if len(cut) == size or not len(array):
        return cut
    return np.concatenate([cut, np.repeat(cut[:1], size - len(cut), axis=0)])


def blank(array: Array | None, rows: int) -> Array | None:
    """An array whose rows from there on are zero."""
    if array is None or rows >= len(array):
        return array
    kept = np.array(array)
    kept[rows:] = 0
    return kept


def first_rows(array: Any, size: int, kept: int) -> Any:
    """The first rows of a result for so many; what has no rows, as a log-det that is one number, whole."""
    plain = np.array(array)
    return plain[:kept] if plain.ndim and len(plain) == size else plain


def joined_results(pieces: list[Any]) -> Any:
    """The results of stretches, one after the other."""

    def together(*parts: Any) -> Any:
        rows = len(parts) > 1 and parts[0].ndim
        return np.concatenate(parts) if rows else parts[0]

    return jax.tree.map(together, *pieces)
