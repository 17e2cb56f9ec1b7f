"""Programs of JAX as one list of operations of few kinds: what they call is inlined, loops of a known length are unrolled, and
operations that have other names elsewhere are taken apart.

A derivative of code's own says nothing here: of ``custom_jvp`` and ``custom_vjp`` what they compute is inlined.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr
from jax.extend.source_info_util import user_context

import flowref
from flowref.backends.jax import behavior
from flowref.backends.jax.primitives import CALLS
from flowref.backends.jax.stepping import Operation, plain
from flowref.model import Unsupported

# Operations up to which loops are unrolled.
MOST = 20_000
# Whose lines are not told: those of code that calls them are.
FRAMEWORKS = tuple(f"{Path(str(one.__file__)).parent}/" for one in (jax, np, flowref))
BESIDE = ("/equinox/", "/flax/", "/jaxtyping/")


class Untraced(Unsupported):
    """A call that has no graph."""


class Held(NamedTuple):
    """A value of the program that is made; ``fixed``: the array that it is, where it depends on no input."""

    now: Any
    fixed: Any = None


def inlined(closed: ClosedJaxpr, *args: Any) -> ClosedJaxpr:
    """The program without calls and loops. Raises: `Untraced` of loops and branches that depend on its inputs."""
    steps = Inlining()

    def run(*given: Any) -> list[Any]:
        return [one.now for one in steps.run(closed, [Held(one) for one in given])]

    made: ClosedJaxpr = jax.make_jaxpr(run)(*args)
    return made


class Inlining:
    """``caller``: of whose line all is, while a function of a framework is inlined."""

    def __init__(self) -> None:
        self.operations, self.caller = 0, None

    def run(self, closed: Any, given: Sequence[Held]) -> list[Held]:
        """What a program gives."""
        jaxpr, consts = (
            (closed.jaxpr, closed.consts) if isinstance(closed, ClosedJaxpr) else (closed, [])
        )
        known = {
            variable: Held(value, plain(value))
            for variable, value in zip(jaxpr.constvars, consts, strict=True)
        }
        known.update(zip(jaxpr.invars, given, strict=True))

        def read(atom: Any) -> Held:
            if not hasattr(atom, "val"):
                return known[atom]
            value = np.asarray(atom.val, atom.aval.dtype)
            return Held(value[()], value)

        for equation in jaxpr.eqns:
            held = [read(atom) for atom in equation.invars]
            with self.line(equation):
                found = self.step(equation, held)
            known.update(zip(equation.outvars, found, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    @contextlib.contextmanager
    def line(self, equation: Any) -> Iterator[None]:
        """What is made of an equation has its line, or that of the code which called what it stands in."""
        outer = self.caller
        scanned = equation.primitive.name == "scan"
        called = equation.params["jaxpr"] if scanned else program_of(equation)
        if outer is None and called is not None and of_framework(called):
            self.caller = equation.source_info.traceback
        try:
            with user_context(outer or equation.source_info.traceback):
                yield
        finally:
            self.caller = outer

    def step(self, equation: Any, held: list[Held]) -> list[Held]:
        """What one equation gives."""
        name = equation.primitive.name
        self.operations += 1
        if self.operations > MOST:
            raise Untraced(f"it takes more than {MOST:,} operations")
        if name in LOOPS:
            return LOOPS[name](self, equation, held)
        if (called := program_of(equation)) is not None:
            return self.run(called, held)
        if not equation.outvars:  # it prints
            return []
        if name == "select_n" and held[0].fixed is not None:
            which = np.unique(held[0].fixed)
            if len(which) == 1:  # whatever the others are
                return [stretched(held[1 + int(which[0])], equation)]
        rule = RULES.get(name)
        kinds = [getattr(one.aval, "dtype", None) for one in (*equation.outvars, *equation.invars)]
        floats = kinds[0] == np.float64 and np.complex128 not in kinds
        apart = rule is not None and (floats or name in ANY)
        bound = rule(equation) if apart and rule is not None else behavior.bound(equation)
        out = bound(*(one.now for one in held))
        results = list(out) if isinstance(out, list | tuple) else [out]
        return [Held(*pair) for pair in zip(results, fixed(equation, held), strict=True)]


def fixed(equation: Any, held: Sequence[Held]) -> list[Any]:
    """The results of an equation that depends on no input; None of all others."""
    given = [one.fixed for one in held]
    if any(one is None for one in given):
        return [None] * len(equation.outvars)
    with jax.ensure_compile_time_eval():
        return Operation(equation, [None] * len(given))(given, None)


def stretched(held: Held, equation: Any) -> Held:
    """A number that stands for an array of them."""
    shape = equation.outvars[0].aval.shape
    if np.shape(held.now) == shape:
        return held
    known = None if held.fixed is None else np.broadcast_to(held.fixed, shape)
    return Held(lax.broadcast(held.now, shape), known)


def program_of(equation: Any) -> Any:
    """The program that an equation means to run; None of all others."""
    name = equation.primitive.name
    return equation.params.get(CALLS[name]) if name in CALLS else None


def of_framework(called: Any) -> bool:
    """Whether a function that is called is a framework's own."""
    info = (called.jaxpr if isinstance(called, ClosedJaxpr) else called).debug_info
    place = getattr(info, "func_src_info", None) or ""
    file = place.rpartition(" at ")[2]
    return file.startswith(FRAMEWORKS) or any(one in file for one in BESIDE)


def line_of(equation: Any) -> str:
    """The last line of code that is no framework's."""
    trace = equation.source_info.traceback
    told = ""
    for frame in trace.frames if trace is not None else ():
        file = frame.file_name
        if file.startswith((*FRAMEWORKS, "<")):
            continue
        line = f"{Path(file).name}:{frame.line_num}"
        if not any(one in file for one in BESIDE):
            return line
        told = told or line
    return told


def place_of(equation: Any) -> str:
    """A primitive and its line, in words."""
    line = line_of(equation)
    return f"{equation.primitive.name} ({line})" if line else str(equation.primitive.name)


def _scan(steps: Inlining, equation: Any, held: list[Held]) -> list[Held]:
    params = equation.params
    consts, carries, length = params["num_consts"], params["num_carry"], params["length"]
    always, state, over = held[:consts], held[consts : consts + carries], held[consts + carries :]
    rows: list[Any] = [None] * length
    for place in reversed(range(length)) if params["reverse"] else range(length):
        each = [
            Held(
                lax.index_in_dim(one.now, place, keepdims=False),
                None if one.fixed is None else one.fixed[place],
            )
            for one in over
        ]
        out = steps.run(params["jaxpr"], [*always, *state, *each])
        state, rows[place] = out[:carries], out[carries:]
    if not length:
        raise Untraced(f"a loop of no steps, {place_of(equation)}")
    return [*state, *map(_rows, zip(*rows, strict=True))]


def _rows(parts: Sequence[Held]) -> Held:
    known = [one.fixed for one in parts]
    whole = None if any(one is None for one in known) else np.stack(known)
    return Held(lax.concatenate([_unsqueezed(one.now, 0) for one in parts], 0), whole)


def _unsqueezed(x: Any, axis: int) -> Any:
    shape = np.shape(x)
    return lax.reshape(x, (*shape[:axis], 1, *shape[axis:]))


def _while(steps: Inlining, equation: Any, held: list[Held]) -> list[Held]:
    params = equation.params
    asking, moving = params["cond_nconsts"], params["body_nconsts"]
    to_ask, to_move, state = (
        held[:asking],
        held[asking : asking + moving],
        held[asking + moving :],
    )
    while True:
        (more,) = steps.run(params["cond_jaxpr"], [*to_ask, *state])
        if more.fixed is None or np.ndim(more.fixed):
            raise Untraced(f"a loop whose length depends on numbers, {place_of(equation)}")
        if not more.fixed:
            return state
        state = steps.run(params["body_jaxpr"], [*to_move, *state])


def _cond(steps: Inlining, equation: Any, held: list[Held]) -> list[Held]:
    which, branches = held[0].fixed, equation.params["branches"]
    if which is None:
        raise Untraced(f"a branch that depends on numbers, {place_of(equation)}")
    return steps.run(branches[min(max(int(which), 0), len(branches) - 1)], held[1:])


def _solve(steps: Inlining, equation: Any, held: list[Held]) -> list[Held]:
    """By its own solver."""
    lengths = equation.params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    consts = held[before : before + lengths.solve]
    return steps.run(equation.params["jaxprs"].solve, [*consts, *held[sum(lengths) :]])


LOOPS: dict[str, Callable[[Inlining, Any, list[Held]], list[Held]]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "custom_linear_solve": _solve,
}


Rule = Callable[[Any], Callable[..., Any]]


def _chosen(*pieces: Callable[..., tuple[Any, Any, Any]]) -> Rule:
    """By comparisons, which a path decides: with numbers as they are, which tell of signs. ``pieces``: of the arguments, and in
    turn of what was chosen, whether it is true, and what is chosen then and else.
    """

    def rule(equation: Any) -> Callable[..., Any]:
        out = equation.outvars[0].aval

        def run(*given: Any) -> Any:
            for piece in pieces:
                which, *parts = piece(*given)
                yes, no = (_wide(one, out.shape, out.dtype) for one in parts)
                given = (lax.select_n(_wide(which, out.shape, bool), no, yes), *given[1:])
            return given[0]

        return run

    return rule


def _wide(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if np.shape(x) == shape:
        return x
    return (
        lax.broadcast_in_dim(x, shape, range(len(shape)))
        if np.ndim(x)
        else lax.full(shape, x, dtype)
    )


def _counted(equation: Any) -> Callable[..., Any]:
    """Whole numbers, of which nothing has to be computed."""
    shape, axis = equation.params["shape"], equation.params["dimension"]
    dtype = equation.outvars[0].aval.dtype
    return lambda: lax.convert_element_type(lax.broadcasted_iota(np.int64, shape, axis), dtype)


def _broadcast(equation: Any) -> Callable[..., Any]:
    """A reshape, and a stretch of axes of one."""
    shape, places = equation.params["shape"], equation.params["broadcast_dimensions"]
    ones = [1] * len(shape)
    for place, size in zip(places, equation.invars[0].aval.shape, strict=True):
        ones[place] = size

    def run(x: Any) -> Any:
        if not np.ndim(x):
            return lax.broadcast(x, shape)
        x = x if np.shape(x) == tuple(ones) else lax.reshape(x, ones)
        return x if tuple(ones) == tuple(shape) else lax.broadcast_in_dim(x, shape, range(x.ndim))

    return run


def _slice(equation: Any) -> Callable[..., Any]:
    """Cut along one axis after another."""
    params = equation.params
    steps = params["strides"] or [1] * len(params["start_indices"])
    ends = list(zip(params["start_indices"], params["limit_indices"], steps, strict=True))

    def run(x: Any) -> Any:
        for axis, (start, end, step) in enumerate(ends):
            if (start, end, step) != (0, x.shape[axis], 1):
                x = lax.slice_in_dim(x, start, end, step, axis)
        return x

    return run


def _split(equation: Any) -> Callable[..., Any]:
    axis, sizes = equation.params["axis"], equation.params["sizes"]
    ends = np.cumsum([0, *sizes]).tolist()
    return lambda x: [
        lax.slice_in_dim(x, start, start + size, 1, axis)
        for start, size in zip(ends, sizes, strict=False)
    ]


def _stack(equation: Any) -> Callable[..., Any]:
    axis = equation.params["axis"]
    return lambda *given: lax.concatenate([_unsqueezed(one, axis) for one in given], axis)


def _dot(equation: Any) -> Callable[..., Any]:
    """A product of matrices, with one batch axis or none."""
    (left_in, right_in), (left_batch, right_batch) = equation.params["dimension_numbers"]
    left, right = (variable.aval for variable in equation.invars)
    left_free = [axis for axis in range(left.ndim) if axis not in (*left_in, *left_batch)]
    right_free = [axis for axis in range(right.ndim) if axis not in (*right_in, *right_batch)]
    rows, inner, columns = (
        math.prod(whole.shape[axis] for axis in axes)
        for whole, axes in ((left, left_free), (left, left_in), (right, right_free))
    )
    batch = [math.prod(left.shape[axis] for axis in left_batch)] if left_batch else []
    shape, kind = equation.outvars[0].aval.shape, equation.params["preferred_element_type"]
    first = len(batch)
    numbers = (((first + 1,), (first,)), (tuple(range(first)),) * 2)

    def moved(x: Any, order: Sequence[int], sizes: Sequence[int]) -> Any:
        x = x if list(order) == sorted(order) else lax.transpose(x, order)
        return x if x.shape == tuple(sizes) else lax.reshape(x, sizes)

    def run(x: Any, y: Any) -> Any:
        x = moved(x, (*left_batch, *left_free, *left_in), (*batch, rows, inner))
        y = moved(y, (*right_batch, *right_in, *right_free), (*batch, inner, columns))
        out = lax.dot_general(x, y, numbers, preferred_element_type=kind)
        return out if out.shape == tuple(shape) else lax.reshape(out, shape)

    return run


def entries(x: Any, places: Any) -> Any:
    """Some entries of an array, by their places in the array as a list."""
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    return lax.gather(
        lax.reshape(x, (math.prod(np.shape(x)),)), _unsqueezed(places, np.ndim(places)), numbers, (1,),
        mode="promise_in_bounds",
    )  # fmt: skip


def _places(each: Sequence[Any]) -> Any:
    """Places in an array as a list, of places along each axis."""
    strides = np.cumprod([1, *each[0].shape[:0:-1]])[::-1]
    return sum(one * stride for one, stride in zip(each, strides, strict=True))


def _moving(equation: Any) -> Callable[..., Any]:
    """What puts entries of arrays elsewhere, by what it makes of their places: of each array that is no array of places."""
    name, kinds = equation.primitive.name, [one.aval.dtype for one in equation.invars]
    bound = behavior.bound(equation)
    if name == "gather" and equation.params["mode"].name == "FILL_OR_DROP":
        bound = _bound(equation, fill_value=-1)

    def run(*given: Any) -> Any:
        arrays = [one for one, kind in zip(given, kinds, strict=True) if kind == kinds[0]]
        ends = np.cumsum([0, *(math.prod(np.shape(one)) for one in arrays)]).tolist()
        numbers = iter(
            np.arange(start, end).reshape(np.shape(one))
            for one, start, end in zip(arrays, ends, ends[1:], strict=False)
        )
        places = bound(
            *(
                next(numbers) if kind == kinds[0] else one
                for one, kind in zip(given, kinds, strict=True)
            )
        )
        whole = [lax.reshape(one, (math.prod(np.shape(one)),)) for one in arrays]
        found = entries(whole[0] if len(whole) == 1 else lax.concatenate(whole, 0), places)
        if name != "gather" or equation.params["mode"].name != "FILL_OR_DROP":
            return found
        nothing = lax.full(found.shape, np.nan, found.dtype)
        return lax.select_n(lax.lt(places, np.zeros((), places.dtype)), found, nothing)

    return run


def _bound(equation: Any, **params: Any) -> Callable[..., Any]:
    return lambda *given: equation.primitive.bind(*given, **{**equation.params, **params})


def _sort(equation: Any) -> Callable[..., Any]:
    """By the order of the first array, which a path decides."""
    axis = equation.params["dimension"]

    def run(*given: Any) -> Any:
        shape = given[0].shape
        _, order = lax.sort((given[0], lax.broadcasted_iota(np.int64, shape, axis)), dimension=axis)
        each = [lax.broadcasted_iota(np.int64, shape, other) for other in range(len(shape))]
        each[axis] = order
        return [entries(one, _places(each)) for one in given]

    return run


def _running(equation: Any) -> Callable[..., Any]:
    axis, back = equation.params["axis"], equation.params["reverse"]
    forward = _bound(equation, reverse=False)
    return lambda x: lax.rev(forward(lax.rev(x, (axis,))), (axis,)) if back else forward(x)


def _triangular(equation: Any) -> Callable[..., Any]:
    params = equation.params
    if not params["transpose_a"]:
        return behavior.bound(equation)
    lower = _bound(equation, transpose_a=False, lower=not params["lower"])
    return lambda a, b: lower(lax.transpose(a, (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)), b)


def _factors(equation: Any) -> Callable[..., Any]:
    """An elimination without pivots, of rows in the order that pivots took, which a path decides."""
    bound = behavior.bound(equation)

    def run(x: Any) -> Any:
        _, pivots, order = bound(x)
        each = [lax.broadcasted_iota(np.int64, x.shape, axis) for axis in range(x.ndim)]
        rows = lax.convert_element_type(_unsqueezed(order, x.ndim - 1), np.int64)
        each[-2] = lax.broadcast_in_dim(rows, x.shape, range(x.ndim))
        return [_eliminated(entries(x, _places(each))), pivots, order]

    return run


def _eliminated(x: Any) -> Any:
    """L and U in one matrix."""
    row, column = x.ndim - 2, x.ndim - 1
    if 1 in x.shape[row:]:
        first = lax.slice_in_dim(x, 0, 1, axis=row)
        if x.shape[row] == 1:
            return x
        rest = lax.slice_in_dim(x, 1, None, axis=row)
        return lax.concatenate([first, lax.div(rest, _wide(first, rest.shape, x.dtype))], row)
    top, below = lax.slice_in_dim(x, 0, 1, axis=row), lax.slice_in_dim(x, 1, None, axis=row)
    left, right = (
        lax.slice_in_dim(below, 0, 1, axis=column),
        lax.slice_in_dim(below, 1, None, axis=column),
    )
    pivot = lax.slice_in_dim(top, 0, 1, axis=column)
    factor = lax.div(left, _wide(pivot, left.shape, x.dtype))
    across = _wide(lax.slice_in_dim(top, 1, None, axis=column), right.shape, x.dtype)
    rest = lax.sub(right, lax.mul(_wide(factor, right.shape, x.dtype), across))
    return lax.concatenate([top, lax.concatenate([factor, _eliminated(rest)], column)], row)


# What operations are taken apart into, where they give floating numbers.
RULES: dict[str, Rule] = {
    "max": _chosen(lambda a, b: (lax.gt_p.bind(a, b), a, b)),
    "min": _chosen(lambda a, b: (lax.lt_p.bind(a, b), a, b)),
    "abs": _chosen(lambda x: (lax.lt_p.bind(x, np.float64(0)), lax.neg(x), x)),
    # Of the lower end, an array and the upper end.
    "clamp": _chosen(
        lambda low, x, high: (lax.lt_p.bind(x, low), low, x),
        lambda y, x, high: (lax.gt_p.bind(y, high), high, y),
    ),
    "erfc": lambda _: lambda x: lax.sub_p.bind(np.float64(1), lax.erf(x)),
    "tan": lambda _: lambda x: lax.div(lax.sin(x), lax.cos(x)),
    "iota": _counted,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "split": _split,
    "stack": _stack,
    "dot_general": _dot,
    **dict.fromkeys(
        ("gather", "dynamic_slice", "dynamic_update_slice", "scatter", "pad", "tile"), _moving
    ),
    "sort": _sort,
    **dict.fromkeys(("cumsum", "cumprod"), _running),
    "triangular_solve": _triangular,
    "lu": _factors,
}
# What is taken apart of truth values, too.
ANY = ("broadcast_in_dim", "slice", "split", "stack")
