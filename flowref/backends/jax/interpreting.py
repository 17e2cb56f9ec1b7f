"""Random rounding of a program: a function is traced to a jaxpr, which is evaluated equation by
equation, with every result rounded as `Noise` says; all control flow is entered.

Nothing is interpreted while numbers flow: the evaluation runs under `jax.jit`, once per shape, and
what comes out is an ordinary compiled function ``noisy(pool, magnitude, *args)``, of which many
replicas are one `jax.vmap` over ``pool``.

Not seen: arithmetic by numpy or Python before tracing, and callbacks to the host.

Source: Parker, Pierce and Eggert, Monte Carlo Arithmetic (2000).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from flowref.backends.jax import behavior
from flowref.backends.jax.noise import Noise
from flowref.backends.jax.primitives import (
    ARGUMENT,
    BOUNDED,
    INSIDE,
    LOOPS,
    NORMWISE,
    SPECIAL,
)
from flowref.model import Undecidable

# A loop that runs this often under noise does not settle: its results become nan.
LOOP_LIMIT = 20_000


def randomly_rounded(
    function: Callable[..., Any], only: tuple[str, ...] = (), single: bool = False
) -> Callable[..., Any]:
    """``noisy(pool, magnitude, *args)``: the function with every floating-point operation rounded at
    random. Jit it; vmap it over ``pool`` for replicas.
    """

    def noisy(pool: Any, magnitude: Any, *args: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        noise = Noise(pool, jnp.asarray(magnitude), only=only, single=single)
        flat = interpreted(closed, jax.tree.leaves(args), noise)
        return jax.tree.unflatten(jax.tree.structure(shape), flat)

    return noisy


def interpreted(program: Jaxpr | ClosedJaxpr, args: Sequence[Any], noise: Noise) -> list[Any]:
    """The outputs of a program, rounded as it goes."""
    jaxpr, consts = (
        (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, ())
    )
    variables = [*jaxpr.constvars, *jaxpr.invars]
    values: dict[Any, Any] = dict(zip(variables, [*consts, *args], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        found = _apply(equation, [read(atom) for atom in equation.invars], noise)
        values.update(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: Any, given: list[Any], noise: Noise) -> list[Any]:
    """The results of one equation."""
    name = equation.primitive.name
    if (program := behavior.called(equation)) is not None:
        return interpreted(program, given, noise)
    if name in LOOPS:
        return {"while": _while, "scan": _scan, "cond": _cond, "custom_linear_solve": _solve}[name](
            equation, given, noise
        )
    holds = any(isinstance(value, Jaxpr | ClosedJaxpr) for value in equation.params.values())
    if holds and name not in INSIDE:
        raise Undecidable(
            f"random rounding does not know the primitive {name}, which runs a program of its own"
        )
    # Narrowing to a dtype that is rounded alone counts as its rounding.
    exact = behavior.exact(equation) and not (noise.only and name == "convert_element_type")
    exact = exact or trivial_sum(equation)
    if not exact and behavior.inside(equation):
        given = [
            noise.rounded(_array(value)) if noise.concerns(value) else value for value in given
        ]
    elif name in ARGUMENT:
        times = ARGUMENT[name]
        given = [noise.rounded(_array(v), times) if noise.concerns(v) else v for v in given]
    elif name in NORMWISE:
        lengths = len(equation.params["fft_lengths"]) if name == "fft" else 2
        axes = tuple(range(-lengths, 0))
        given = [noise.normwise(v, axes) if noise.concerns(v) else v for v in given]
    found = behavior.bound(equation)(*given)
    results = list(found) if equation.primitive.multiple_results else [found]
    return results if exact else [_rounded(name, given, value, noise) for value in results]


def _rounded(name: str, given: list[Any], value: Any, noise: Noise) -> Any:
    if not noise.concerns(value):
        return value
    # In the search for a dtype whole numbers, such as a mask and what is left of one, are exact in any.
    where = jnp.round(value) == value if noise.only else _without_error(name, given)
    if where is True:
        return value
    noised = noise.rounded(value, SPECIAL.get(name, 1.0))
    if where is not None:
        noised = jnp.where(where, value, noised)
    if name in BOUNDED and not jnp.issubdtype(value.dtype, jnp.complexfloating):
        noised = jnp.clip(noised, *BOUNDED[name])
    return noised


def _array(value: Any) -> Any:
    return value if hasattr(value, "dtype") else jnp.asarray(value)


def trivial_sum(equation: Any) -> bool:
    """Whether it is a sum over one term."""
    if equation.primitive.name != "reduce_sum":
        return False
    shape = equation.invars[0].aval.shape
    return bool(math.prod(shape[axis] for axis in equation.params["axes"]) == 1)


def _without_error(name: str, given: list[Any]) -> Any:
    return without_error(
        name,
        [None if isinstance(value, jax.core.Tracer) else np.asarray(value) for value in given],
    )


def without_error(name: str, plain: Sequence[Any]) -> Any:
    """Where an operation has no rounding error at all, as far as numbers of the program itself, None
    where there are none, tell it: sums with zero and of whole numbers, products with and quotients by
    powers of two. True everywhere, or an array; None if nowhere.

    Entries that are known only when the program runs are taken to round: the test would be most of
    the program that is compiled.
    """
    if any(value is not None and value.dtype.kind not in "fiu" for value in plain):
        return None
    exact: Any = False
    if name in ("add", "sub", "add_any"):
        for value in plain:
            exact = exact if value is None else exact | (value == 0)
        if all(value is not None for value in plain):
            first, second = plain
            exact = exact | ((np.trunc(first) == first) & (np.trunc(second) == second))
    elif name == "mul":
        for value in plain:
            exact = exact if value is None else exact | _power_of_two(value)
    elif name == "div" and plain[1] is not None:
        exact = _power_of_two(plain[1])
    if not np.any(exact):
        return None
    return True if np.all(exact) else exact


def _power_of_two(value: Any) -> Any:
    """Where an entry is a power of two, or 0."""
    return np.isin(np.abs(np.frexp(value)[0]), (0.0, 0.5))


def _scan(equation: Any, given: list[Any], noise: Noise) -> list[Any]:
    params = equation.params
    consts, carries = params["num_consts"], params["num_carry"]
    fixed, start = given[:consts], given[consts : consts + carries]
    over = given[consts + carries :]

    def body(state: Any, entries: Any) -> Any:
        iteration, held = state
        out = interpreted(params["jaxpr"], [*fixed, *held, *entries], noise.within(iteration))
        return (iteration + 1, tuple(out[:carries])), tuple(out[carries:])

    options = {key: params[key] for key in ("reverse", "length", "unroll")}
    begin = (jnp.int32(0), tuple(map(_array, start)))
    (_, ends), gathered = lax.scan(body, begin, tuple(over), **options)
    return [*ends, *gathered]


def _while(equation: Any, given: list[Any], noise: Noise) -> list[Any]:
    params = equation.params
    asked, moved = params["cond_nconsts"], params["body_nconsts"]
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    to_ask, to_move, start = given[:asked], given[asked : asked + moved], given[asked + moved :]
    batched = bool(condition.out_avals[0].shape)

    def wanted(state: Any) -> Any:
        iteration, held = state
        (more,) = interpreted(condition, [*to_ask, *held], noise.within(2 * iteration))
        return more

    def going(state: Any) -> Any:
        return wanted(state).any() & (state[0] < LOOP_LIMIT)

    def step(state: Any) -> Any:
        iteration, held = state
        out = interpreted(body, [*to_move, *held], noise.within(2 * iteration + 1))
        if batched:  # rows that are done stay as they are
            more = wanted(state)
            out = [
                jnp.where(more.reshape(more.shape + (1,) * (new.ndim - more.ndim)), new, old)
                for new, old in zip(out, held, strict=True)
            ]
        return iteration + 1, tuple(out)

    begin = (jnp.int32(0), tuple(map(_array, start)))
    iterations, ends = lax.while_loop(going, step, begin)
    settled = iterations < LOOP_LIMIT
    return [
        jnp.where(settled, end, jnp.nan) if jnp.issubdtype(end.dtype, jnp.floating) else end
        for end in ends
    ]


def _cond(equation: Any, given: list[Any], noise: Noise) -> list[Any]:
    place, *operands = given

    def branch(program: Any) -> Any:
        return lambda *values: interpreted(program, list(values), noise)

    branches = [branch(program) for program in equation.params["branches"]]
    return list(lax.switch(place, branches, *operands))


def _solve(equation: Any, given: list[Any], noise: Noise) -> list[Any]:
    """A linear solve is what its own solver does; the operator and its transpose serve
    differentiation only.
    """
    lengths, programs = equation.params["const_lengths"], equation.params["jaxprs"]
    before = lengths.matvec + lengths.vecmat
    consts, right = given[before : before + lengths.solve], given[sum(lengths) :]
    return interpreted(programs.solve, [*consts, *right], noise)
