"""Programs run step by step with numpy, clean or randomly rounded, without compilation.

A noisy program takes a second to compile and is run a dozen times; step by step a run of some
hundred operations takes a few milliseconds. User-facing calls are compiled, like those of users;
derivatives and everything under noise runs here. A program is traced once, at one shape; its
replicas are further rows, each with noise of its own. All control flow is entered.

Not covered: arithmetic by numpy or Python before tracing, and callbacks to the host.

Source: Parker, Pierce and Eggert, Monte Carlo Arithmetic (2000).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from flowref.backends.jax import behavior
from flowref.backends.jax.array_functions import function_of
from flowref.backends.jax.exactness import trivial_sum, without_error
from flowref.backends.jax.primitives import (
    ARGUMENT,
    BOUNDED,
    INSIDE,
    LOOPS,
    NORMWISE,
    NORMWISE_CONSTANT,
    SPECIAL,
)
from flowref.model import Undecidable

# The number of uniform numbers from which all noise is read, and of possible start positions.
BITS = 20
NUMBERS = np.random.Generator(np.random.SFC64(20)).random(2 ** (BITS + 1)) * 2 - 1
# The ratio of the units of float32 and float64.
COARSER = 2.0**29
# The largest number of interpreted iterations: a longer loop should be compiled, and under noise
# counts as non-converging.
LONGEST = 1_000
Step = Callable[[list[Any], "Noise | None"], None]


class TooLong(Exception):  # no error: a loop that should be compiled
    """A loop runs more often than is interpreted."""


class Noise:
    """Random rounding: multiplication by 1 + magnitude * xi, xi uniform in [-1, 1].

    ``single``: whether float32 results are rounded in float32 units. ``only``: perturb results of
    this dtype only, to see what they affect: all but integers, such as masks and their complements,
    which are exact in any dtype; and casts to it.
    """

    def __init__(self, seed: int, magnitude: float, single: bool = False, only: Any = None) -> None:
        self.places = random.Random(seed)
        self.magnitude, self.single, self.only = magnitude, single, only

    def concerns(self, value: Any) -> bool:
        """Whether an array is floating, not empty, and to be rounded."""
        dtype = getattr(value, "dtype", None)
        if not isinstance(dtype, np.dtype) or dtype.kind not in "fc" or not value.size:
            return False
        return self.only is None or dtype == self.only

    def uniform(self, shape: tuple[int, ...]) -> Any:
        """Uniform numbers in [-1, 1] for one array; each call reads at another position."""
        size = math.prod(shape)
        begin = self.places.getrandbits(BITS)
        drawn = NUMBERS[begin : begin + size]
        return (drawn if len(drawn) == size else np.resize(drawn, size)).reshape(shape)

    def size(self, dtype: Any, constant: float) -> float:
        """The relative error of results of a dtype."""
        coarse = self.single and dtype in (np.float32, np.complex64)
        return constant * (COARSER if coarse else 1.0) * self.magnitude

    def rounded(self, value: Any, constant: float = 1.0) -> Any:
        """A value with a relative error; inf and nan are unchanged."""
        xi = self.uniform(value.shape)
        if value.dtype.kind == "c":
            xi = xi + 1j * self.uniform(value.shape)
        moved = xi * self.size(value.dtype, constant)
        moved += 1.0
        moved *= value
        return moved if moved.dtype == value.dtype else moved.astype(value.dtype)

    def normwise(self, value: Any, axes: tuple[int, ...]) -> Any:
        """A value with an error relative to its largest entry along some axes."""
        if value.ndim < len(axes):
            return value
        largest = np.abs(value).max(axis=axes, keepdims=True)
        error = self.size(value.dtype, NORMWISE_CONSTANT) * largest * self.uniform(value.shape)
        if value.dtype.kind == "c":
            error = error * (1 + 1j * self.uniform(value.shape))
        return value + error.astype(value.dtype)


def numpy_result(value: Any) -> Any:
    """A result as a numpy array, except for random keys, which numpy does not support."""
    if isinstance(value, np.ndarray):
        return value
    dtype = getattr(value, "dtype", None)
    return np.asarray(value) if dtype is None or isinstance(dtype, np.dtype) else value


class Stepped:
    """A function, traced for some arguments, that is run step by step for others of the same
    shapes.
    """

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        # Weakly typed results, which numpy arrays cannot represent.
        self.weak = any(getattr(out, "weak_type", False) for out in closed.out_avals)
        self.program, self.structure = Program(closed), jax.tree.structure(shape)

    def __call__(self, noise: Noise | None, *args: Any) -> Any:
        """The results, as numpy arrays."""
        given = [numpy_result(leaf) for leaf in jax.tree.leaves(args)]
        return jax.tree.unflatten(self.structure, self.program.run(given, noise))


class Program:
    """A jaxpr as a list of steps on a table of values."""

    def __init__(self, closed: ClosedJaxpr | Jaxpr) -> None:
        jaxpr, consts = (
            (closed.jaxpr, closed.consts) if isinstance(closed, ClosedJaxpr) else (closed, [])
        )
        self.places: dict[Any, int] = {}
        self.start: list[Any] = []
        # Values that depend on no argument, whose exactness is known.
        self.known: dict[int, Any] = {}
        for variable, value in zip(jaxpr.constvars, consts, strict=True):
            self.known[self.place(variable)] = numpy_result(value)
            self.start[-1] = numpy_result(value)
        self.inputs = [self.place(variable) for variable in jaxpr.invars]
        self.steps = [step for equation in jaxpr.eqns if (step := self.step(equation)) is not None]
        self.outputs = [self.place(atom) for atom in jaxpr.outvars]

    def place(self, atom: Any) -> int:
        """The table index of an atom's value."""
        if isinstance(atom, Literal):
            self.start.append(np.asarray(atom.val, dtype=atom.aval.dtype))
            self.known[len(self.start) - 1] = self.start[-1]
            return len(self.start) - 1
        if atom not in self.places:
            self.places[atom] = len(self.start)
            self.start.append(None)
        return self.places[atom]

    def run(self, args: Sequence[Any], noise: Noise | None) -> list[Any]:
        """Runs the program on inputs; returns its outputs."""
        values = list(self.start)
        for index, value in zip(self.inputs, args, strict=True):
            values[index] = value
        for step in self.steps:
            step(values, noise)
        return [values[index] for index in self.outputs]

    def step(self, equation: Any) -> Step | None:
        """One equation as a step; None if its result is constant."""
        sources = [self.place(atom) for atom in equation.invars]
        name = equation.primitive.name
        several = name in LOOPS or behavior.called_program(equation) is not None
        run = inner_of(equation) if several else Operation(equation, self.given(sources))
        places = [self.place(variable) for variable in equation.outvars]
        exact = isinstance(run, Operation) and run.exact
        if exact and name not in UNKNOWN and all(index in self.known for index in sources):
            found = run([self.known[index] for index in sources], None)
            for index, value in zip(places, found, strict=True):
                self.known[index] = self.start[index] = value
            return None
        if len(places) == 1:
            (target,) = places

            def alone(values: list[Any], noise: Noise | None) -> None:
                (values[target],) = run([values[index] for index in sources], noise)

            return alone

        def step(values: list[Any], noise: Noise | None) -> None:
            found = run([values[index] for index in sources], noise)
            for index, value in zip(places, found, strict=True):
                values[index] = value

        return step

    def given(self, sources: Sequence[int]) -> list[Any]:
        """The known values at table indices, None elsewhere."""
        return [self.known.get(index) for index in sources]


# Primitives whose results may underflow: XLA flushes subnormal results to zero, numpy keeps them.
UNDERFLOWS = frozenset(
    ("exp", "exp2", "logistic", "erfc", "pow", "integer_pow", "square", "mul", "div")
)
SMALLEST = {np.dtype(kind): np.finfo(kind).tiny for kind in (np.float64, np.float32)}
NARROWING = "convert_element_type"
# Primitives with different results each time, or results that are not arrays.
UNKNOWN = frozenset(("random_seed", "random_wrap", "random_bits", "random_split"))


class Operation:
    """One primitive, and how its results are rounded. ``known``: its constant arguments, None for
    others.
    """

    def __init__(self, equation: Any, known: Sequence[Any]) -> None:
        self.name = name = equation.primitive.name
        holds = any(isinstance(value, Jaxpr | ClosedJaxpr) for value in equation.params.values())
        if holds and name not in INSIDE:
            raise Undecidable(
                f"random rounding does not know the primitive {name}, which runs a program of its own"
            )
        self.function = function_of(equation) or asked_of_jax(equation)
        self.moves = behavior.exact(equation) or trivial_sum(equation)
        self.inside = not self.moves and behavior.rounds_arguments(equation)
        self.times = ARGUMENT.get(name, 0.0)
        self.axes: tuple[int, ...] = ()
        if name in NORMWISE:
            lengths = len(equation.params["fft_lengths"]) if name == "fft" else 2
            self.axes = tuple(range(-lengths, 0))
        self.constant = SPECIAL.get(name, 1.0)
        self.dtypes = [getattr(out.aval, "dtype", None) for out in equation.outvars]
        self.where = without_error(name, known)
        self.exact = self.moves or self.where is True
        self.bounds = BOUNDED.get(name)
        self.flushed = name in UNDERFLOWS

    def __call__(self, given: list[Any], noise: Noise | None) -> list[Any]:
        """The results."""
        if noise is not None and not self.rounds(noise):
            noise = None
        if noise is not None:
            given = self.before(given, noise)
        found = self.function(*given)
        if len(self.dtypes) == 1 and not isinstance(found, list | tuple):
            found = (found,)
        results = []
        for value, dtype in zip(found, self.dtypes, strict=True):
            made = numpy_result(value)
            if isinstance(dtype, np.dtype) and made.dtype != dtype:
                made = made.astype(dtype)
            results.append(flushed(made) if self.flushed else made)
        if noise is None:
            return results
        return [self.after(value, noise) if noise.concerns(value) else value for value in results]

    def rounds(self, noise: Noise) -> bool:
        """Whether it rounds under a noise."""
        return not self.exact if noise.only is None else not self.moves or self.name == NARROWING

    def before(self, given: list[Any], noise: Noise) -> list[Any]:
        """The arguments, rounded if the primitive rounds inside."""
        if self.inside:
            return [noise.rounded(one) if noise.concerns(one) else one for one in given]
        if self.times:
            return [noise.rounded(one, self.times) if noise.concerns(one) else one for one in given]
        if self.axes:
            return [noise.normwise(one, self.axes) if noise.concerns(one) else one for one in given]
        return given

    def after(self, value: Any, noise: Noise) -> Any:
        """A result, rounded."""
        noised = noise.rounded(value, self.constant)
        where = self.where if noise.only is None else np.round(value) == value
        if where is not None:
            noised = np.where(where, value, noised)
        if self.bounds is not None and value.dtype.kind != "c":
            noised = np.clip(noised, *self.bounds)
        return noised


def flushed(value: Any) -> Any:
    """A real array with subnormal numbers replaced by zero."""
    if value.dtype not in SMALLEST:
        return value
    small = np.abs(value) < SMALLEST[value.dtype]
    return np.where(small, np.copysign(0, value), value) if small.any() else value


def asked_of_jax(equation: Any) -> Callable[..., Any]:
    """A primitive run alone by JAX."""
    bound = behavior.bound(equation)

    def run(*given: Any) -> Any:
        return bound(*(jnp.asarray(v) if isinstance(v, np.ndarray) else v for v in given))

    return run


Inner = Callable[[list[Any], "Noise | None"], list[Any]]


def inner_of(equation: Any) -> Inner:
    """The function of an equation that runs inner programs."""
    name = equation.primitive.name
    if name in LOOPS:
        kinds: dict[str, Callable[[Any], Inner]] = {
            "while": While, "scan": Scan, "cond": Cond, "custom_linear_solve": Solve,
        }  # fmt: skip
        return kinds[name](equation)
    return Program(behavior.called_program(equation)).run


class Scan:
    """A loop of known length."""

    def __init__(self, equation: Any) -> None:
        self.params, self.body = equation.params, Program(equation.params["jaxpr"])
        self.outs = [variable.aval for variable in equation.outvars]

    def __call__(self, given: list[Any], noise: Noise | None) -> list[Any]:
        """The last state, and the stacked outputs of the iterations."""
        params = self.params
        consts, carries, length = params["num_consts"], params["num_carry"], params["length"]
        fixed, held = given[:consts], given[consts : consts + carries]
        over = given[consts + carries :]
        gathered: list[Any] = [None] * length
        for place in reversed(range(length)) if params["reverse"] else range(length):
            out = self.body.run([*fixed, *held, *(one[place] for one in over)], noise)
            held, gathered[place] = out[:carries], out[carries:]
        if not length:
            return [*held, *(np.zeros(out.shape, out.dtype) for out in self.outs[carries:])]
        return [*held, *(stacked(parts) for parts in zip(*gathered, strict=True))]


def stacked(parts: Sequence[Any]) -> Any:
    """Stacks outputs of iterations along a first axis."""
    arrays = all(isinstance(part, np.ndarray | np.generic) for part in parts)
    return np.stack(parts) if arrays else jnp.stack(parts)


class While:
    """A loop of unknown length; finished rows are not updated."""

    def __init__(self, equation: Any) -> None:
        params = equation.params
        self.asked, self.moved = params["cond_nconsts"], params["body_nconsts"]
        self.condition, self.body = Program(params["cond_jaxpr"]), Program(params["body_jaxpr"])

    def __call__(self, given: list[Any], noise: Noise | None) -> list[Any]:
        """The last state; under noise nan in rows that do not converge."""
        to_ask = given[: self.asked]
        to_move = given[self.asked : self.asked + self.moved]
        held = given[self.asked + self.moved :]
        for _ in range(LONGEST):
            (more,) = self.condition.run([*to_ask, *held], noise)
            if not np.any(more):
                return held
            out = self.body.run([*to_move, *held], noise)
            if np.ndim(more):
                out = [chosen(more, new, old) for new, old in zip(out, held, strict=True)]
            held = out
        if noise is None:
            raise TooLong
        return [chosen(more, np.nan, one) if noise.concerns(one) else one for one in held]


def chosen(rows: Any, new: Any, old: Any) -> Any:
    """New values in some rows, old ones in others."""
    rows = np.reshape(rows, np.shape(rows) + (1,) * (np.ndim(old) - np.ndim(rows)))
    return np.where(rows, new, old)


class Cond:
    """One of several branches."""

    def __init__(self, equation: Any) -> None:
        self.branches = [Program(program) for program in equation.params["branches"]]

    def __call__(self, given: list[Any], noise: Noise | None) -> list[Any]:
        """The results of the branch."""
        place, *operands = given
        which = min(max(int(place), 0), len(self.branches) - 1)
        return self.branches[which].run(operands, noise)


class Solve:
    """A linear solve, by its own solver."""

    def __init__(self, equation: Any) -> None:
        self.lengths = equation.params["const_lengths"]
        self.solver = Program(equation.params["jaxprs"].solve)

    def __call__(self, given: list[Any], noise: Noise | None) -> list[Any]:
        """The solution."""
        before = self.lengths.matvec + self.lengths.vecmat
        consts = given[before : before + self.lengths.solve]
        return self.solver.run([*consts, *given[sum(self.lengths) :]], noise)
