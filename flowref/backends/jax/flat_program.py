"""Programs of JAX as one list of operations of few kinds: calls are inlined, loops of known length
are unrolled, and operations are reduced to elementary ones.

Custom derivative rules do not matter here: the primal of ``custom_jvp`` and ``custom_vjp`` is
inlined.
"""

from __future__ import annotations

import contextlib
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
from flowref.backends.jax.elementary import ANY, RULES, stretched_to_shape, unsqueezed
from flowref.backends.jax.interpreter import Operation, numpy_result
from flowref.backends.jax.operation_count import equations
from flowref.backends.jax.primitives import CALLS
from flowref.model import Unsupported

# The limit of operations when loops are unrolled.
MOST = 20_000
# Packages whose source lines are not reported, but those of their callers.
FRAMEWORKS = tuple(f"{Path(str(one.__file__)).parent}/" for one in (jax, np, flowref))
LIBRARIES = ("/equinox/", "/flax/", "/jaxtyping/")


class Untraced(Unsupported):
    """A call without a graph."""


class ProgramValue(NamedTuple):
    """A value of the program; ``fixed``: its array, if it depends on no input; ``truth``: the
    boolean of which it is the integer.
    """

    now: Any
    fixed: Any = None
    truth: Any = None


def inlined(closed: ClosedJaxpr, *args: Any) -> tuple[ClosedJaxpr, tuple[str, ...]]:
    """Returns the program without calls and loops, and the conditions under which it does not
    raise. Raises `Untraced` for loops that depend on its inputs.
    """
    steps = Inlining()

    def run(*given: Any) -> list[Any]:
        return [one.now for one in steps.run(closed, [ProgramValue(one) for one in given])]

    return jax.make_jaxpr(run)(*args), tuple(steps.guards)


class Inlining:
    """Inlines programs. ``caller``: the traceback for lines while a framework's function is
    inlined; ``guards``: conditions under which the code would raise.
    """

    def __init__(self) -> None:
        self.operations, self.caller = 0, None
        self.guards: list[str] = []

    def run(self, closed: Any, given: Sequence[ProgramValue]) -> list[ProgramValue]:
        """Inlines a program on values; returns its results."""
        jaxpr, consts = (
            (closed.jaxpr, closed.consts) if isinstance(closed, ClosedJaxpr) else (closed, [])
        )
        known = {
            variable: ProgramValue(value, numpy_result(value))
            for variable, value in zip(jaxpr.constvars, consts, strict=True)
        }
        known.update(zip(jaxpr.invars, given, strict=True))

        def read(atom: Any) -> ProgramValue:
            if not hasattr(atom, "val"):
                return known[atom]
            value = np.asarray(atom.val, atom.aval.dtype)
            return ProgramValue(value[()], value)

        for equation in jaxpr.eqns:
            held = [read(atom) for atom in equation.invars]
            with self.line(equation):
                found = self.step(equation, held)
            known.update(zip(equation.outvars, found, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    @contextlib.contextmanager
    def line(self, equation: Any) -> Iterator[None]:
        """Results of an equation inside have its source line, or that of the code that called the
        framework.
        """
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

    def step(self, equation: Any, held: list[ProgramValue]) -> list[ProgramValue]:
        """Inlines one equation; returns its results."""
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
        if name == "optimization_barrier":
            return held
        if name == "convert_element_type" and not isinstance(held[0].now, jax.core.Tracer):
            value = np.asarray(held[0].now)
            if not value.ndim:  # Python numbers stay numbers
                made = value.astype(equation.params["new_dtype"])
                return [ProgramValue(made[()], made)]
        if (found := truth_of(equation, held)) is not None:
            return [found]
        if name == "select_n" and held[0].fixed is not None:
            which = np.unique(held[0].fixed)
            if len(which) == 1:  # a single branch
                chosen, out = held[1 + int(which[0])], equation.outvars[0].aval
                known = None if chosen.fixed is None else np.broadcast_to(chosen.fixed, out.shape)
                return [ProgramValue(stretched_to_shape(chosen.now, out.shape, out.dtype), known)]
        rule = RULES.get(name)
        kinds = [getattr(one.aval, "dtype", None) for one in (*equation.outvars, *equation.invars)]
        floats = kinds[0] == np.float64 and np.complex128 not in kinds
        apart = floats or (name in ANY and kinds[0] == np.bool_)
        bound = rule(equation) if rule is not None and apart else behavior.bound(equation)
        given = [one.now for one in held]
        if name == "scatter-add" and held[1].fixed is not None:
            given[1] = held[1].fixed  # fixed indices show whether they are distinct
        out = bound(*given)
        results = list(out) if isinstance(out, list | tuple) else [out]
        return [
            ProgramValue(*pair)
            for pair in zip(results, constant_results(equation, held), strict=True)
        ]


def constant_results(equation: Any, held: Sequence[ProgramValue]) -> list[Any]:
    """The results of an equation that depends on no input; None for all others."""
    given = [one.fixed for one in held]
    if any(one is None for one in given):
        return [None] * len(equation.outvars)
    with jax.ensure_compile_time_eval():
        return Operation(equation, [None] * len(given))(given, None)


def truth_of(equation: Any, held: Sequence[ProgramValue]) -> ProgramValue | None:
    """The value of an equation on a boolean that was converted to an integer, as in branches that
    `jax.vmap` turns into selections; None for all others.
    """
    name, out = equation.primitive.name, equation.outvars[0].aval
    if name == "convert_element_type" and equation.invars[0].aval.dtype == bool:
        if np.dtype(out.dtype).kind not in "iu" or held[0].fixed is not None:
            return None
        return ProgramValue(behavior.bound(equation)(held[0].now), None, held[0].now)
    truth = held[0].truth if held else None
    if truth is None:
        return None
    number = held[1].fixed if name in ("eq", "ne") and np.shape(truth) == out.shape else None
    if number is not None and not np.ndim(number) and number in (0, 1):
        same = (number == 1) == (name == "eq")
        return ProgramValue(truth if same else lax.bitwise_not(truth))
    if name == "select_n" and len(held) == 3:
        return ProgramValue(lax.select_n(truth, held[1].now, held[2].now))
    return None


def program_of(equation: Any) -> Any:
    """The program that an equation calls, or None."""
    name = equation.primitive.name
    return equation.params.get(CALLS[name]) if name in CALLS else None


def of_framework(called: Any) -> bool:
    """Whether a called function belongs to a framework."""
    info = (called.jaxpr if isinstance(called, ClosedJaxpr) else called).debug_info
    place = getattr(info, "func_src_info", None) or ""
    file = place.rpartition(" at ")[2]
    return file.startswith(FRAMEWORKS) or any(one in file for one in LIBRARIES)


def line_of(equation: Any) -> str:
    """The innermost frame outside of frameworks as "file:line", or ""."""
    trace = equation.source_info.traceback
    source = ""
    for frame in trace.frames if trace is not None else ():
        file = frame.file_name
        if file.startswith((*FRAMEWORKS, "<")):
            continue
        line = f"{Path(file).name}:{frame.line_num}"
        if not any(one in file for one in LIBRARIES):
            return line
        source = source or line
    return source


def primitive_and_line(equation: Any) -> str:
    """A primitive with its source line."""
    line = line_of(equation)
    return f"{equation.primitive.name} ({line})" if line else str(equation.primitive.name)


def _scan(steps: Inlining, equation: Any, held: list[ProgramValue]) -> list[ProgramValue]:
    params = equation.params
    consts, carries, length = params["num_consts"], params["num_carry"], params["length"]
    always, state, over = held[:consts], held[consts : consts + carries], held[consts + carries :]
    rows: list[Any] = [None] * length
    for place in reversed(range(length)) if params["reverse"] else range(length):
        each = [
            ProgramValue(
                lax.index_in_dim(one.now, place, keepdims=False),
                None if one.fixed is None else one.fixed[place],
            )
            for one in over
        ]
        out = steps.run(params["jaxpr"], [*always, *state, *each])
        state, rows[place] = out[:carries], out[carries:]
    if not length:
        raise Untraced(f"a loop of no steps, {primitive_and_line(equation)}")
    return [*state, *map(_stacked_rows, zip(*rows, strict=True))]


def _stacked_rows(parts: Sequence[ProgramValue]) -> ProgramValue:
    known = [one.fixed for one in parts]
    whole = None if any(one is None for one in known) else np.stack(known)
    return ProgramValue(lax.concatenate([unsqueezed(one.now, 0) for one in parts], 0), whole)


def _while(steps: Inlining, equation: Any, held: list[ProgramValue]) -> list[ProgramValue]:
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
            raise Untraced(
                f"a loop whose length depends on numbers, {primitive_and_line(equation)}"
            )
        if not more.fixed:
            return state
        state = steps.run(params["body_jaxpr"], [*to_move, *state])


def _cond(steps: Inlining, equation: Any, held: list[ProgramValue]) -> list[ProgramValue]:
    """The branch; a selection if it depends on inputs, or the branch that does not raise."""
    which, branches = held[0].fixed, equation.params["branches"]
    if which is not None:
        return steps.run(branches[min(max(int(which), 0), len(branches) - 1)], held[1:])
    quiet = [one for one in branches if not any(map(_calls_out, equations(one)))]
    if len(quiet) == 1:
        steps.guards.append(primitive_and_line(equation))
        return steps.run(quiet[0], held[1:])
    if len(branches) != 2 or held[0].truth is None:
        raise Untraced(f"a branch that depends on numbers, {primitive_and_line(equation)}")
    results = [steps.run(one, held[1:]) for one in branches]
    return [
        ProgramValue(lax.select_n(held[0].truth, no.now, yes.now))
        for no, yes in zip(*results, strict=True)
    ]


def _calls_out(equation: Any) -> bool:
    return bool(equation.primitive.name == behavior.CALLBACK)


def _solve(steps: Inlining, equation: Any, held: list[ProgramValue]) -> list[ProgramValue]:
    lengths = equation.params["const_lengths"]
    before = lengths.matvec + lengths.vecmat
    consts = held[before : before + lengths.solve]
    return steps.run(equation.params["jaxprs"].solve, [*consts, *held[sum(lengths) :]])


LOOPS: dict[str, Callable[[Inlining, Any, list[ProgramValue]], list[ProgramValue]]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "custom_linear_solve": _solve,
}
