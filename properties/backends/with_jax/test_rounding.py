"""Random rounding of programs of JAX: exact operations stay exact, others move by rounding and no
more, and every kind of control flow is entered.
"""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")
jnp = jax.numpy
lax = jax.lax

from jax.extend.core import Primitive  # noqa: E402

from flowref.backends.jax import interpreter, operation_count  # noqa: E402
from flowref.backends.jax.interpreter import Noise, Stepped  # noqa: E402

MAGNITUDE = 2.0**-43
X = np.array([0.7, -1.3, 2.9, -0.2])

EXACT: dict[str, Callable[[Any], Any]] = {
    "times-two": lambda x: x * 2,
    "times-an-eighth": lambda x: x * 0.125,
    "times-a-mask": lambda x: x * np.array([0.0, 1.0, 1.0, 0.0]),
    "divided-by-four": lambda x: x / 4,
    "plus-zero": lambda x: x + 0.0,
    "negated": lambda x: -x,
    "absolute": jnp.abs,
    "view": lambda x: x.reshape(2, 2).T[::-1],
    "indexed": lambda x: x[jnp.array([3, 1, 1, 0])],
    "where": lambda x: jnp.where(x > 0, x, 1.0),
    "clipped": lambda x: jnp.clip(x, -0.5, 0.5),
    "relu": jax.nn.relu,
    "sorted": jnp.sort,
    "largest": jnp.max,
    "joined": lambda x: jnp.concatenate([x, x]),
    "compared": lambda x: (x > 0.3).astype(x.dtype),
    "floor": jnp.floor,
    "scattered": lambda x: jnp.zeros(9).at[jnp.arange(4)].set(x),
    "drawn": lambda x: jax.random.bits(jax.random.key(0), (4,)).astype(x.dtype) + 0.0,
}


@jax.custom_jvp
def _steep(x: Any) -> Any:
    return x * 0.3


_steep.defjvps(lambda tangent, out, x: tangent)


@jax.custom_vjp
def _pulled(x: Any) -> Any:
    return x * 0.3


_pulled.defvjp(lambda x: (x * 0.3, None), lambda _, g: (g,))


def halved(x: Any) -> Any:
    """Divided by three until it is small, a loop of unknown length."""
    return lax.while_loop(lambda y: jnp.abs(y).max() > 0.1, lambda y: y / 3, x)


# Functions of which every result moves, by how many magnitudes at most.
ROUNDED: dict[str, tuple[Callable[[Any], Any], float]] = {
    "plus": (lambda x: x + 0.3, 2),
    "times": (lambda x: x * 0.3, 1),
    "divided": (lambda x: x / 3, 1),
    "square": (lambda x: x * x, 1),
    "exp": (jnp.exp, 2),
    "tanh": (jnp.tanh, 8),
    "sinh": (jnp.sinh, 8),
    "dot": (lambda x: x @ np.full((4, 2), 0.3), 8),
    "jit": (jax.jit(lambda x: x * 0.3), 1),
    "cond": (lambda x: lax.cond(x[0] > 0, lambda y: y * 0.3, lambda y: y, x), 1),
    "switch": (lambda x: lax.switch(1, [lambda y: y, lambda y: y / 3], x), 1),
    "scan": (lambda x: lax.scan(lambda c, _: (c * 0.3, c), x, None, length=5)[0], 6),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda _, y: y * 0.3, x), 6),
    "while": (halved, 6),
    "custom-jvp": (_steep, 1),
    "custom-vjp": (_pulled, 1),
    "checkpoint": (jax.checkpoint(lambda x: x * 0.3), 1),
    "vmapped-while": (jax.vmap(halved), 6),
    "solve": (lambda x: jnp.linalg.solve(2 * jnp.eye(4) + 0.3, x), 200),
    "gradient": (jax.grad(lambda x: jnp.sin(x).sum() * 0.3), 4),
}


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """64-bit types, for the length of a property."""
    with jax.enable_x64(True):
        yield


def run(function: Any, seed: int, magnitude: float = MAGNITUDE, x: Any = X, **how: Any) -> Any:
    """The result under the noise of a seed; of none, where that is 0."""
    noise = Noise(seed, magnitude, **how) if seed else None
    return np.asarray(Stepped(function, x)(noise, x))


@pytest.mark.parametrize("name", EXACT)
def test_what_rounds_nothing_is_left_alone(name: str) -> None:
    """An exact operation gives the same numbers under noise."""
    assert np.array_equal(run(EXACT[name], 1), run(EXACT[name], 0))


@pytest.mark.parametrize("name", ROUNDED)
def test_what_rounds_moves_by_rounding(name: str) -> None:
    """Every other operation moves under noise, by its magnitude and no more, otherwise for another
    seed and equally for the same one; without magnitude nothing moves.
    """
    function, most = ROUNDED[name]
    clean = run(function, 0)
    first, again, other = run(function, 1), run(function, 1), run(function, 2)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert (first != clean).any()
    scale = np.abs(clean) + (1.5 if name == "plus" else 0.0)
    assert (np.abs(first - clean) <= most * MAGNITUDE * scale + 1e-15).all()
    assert np.array_equal(run(function, 1, 0.0), clean)


def test_steps_of_a_loop_have_noise_of_their_own() -> None:
    """Each step of a scan is rounded otherwise than the one before."""

    def steps(x: Any) -> Any:
        return lax.scan(lambda c, _: (c, c * 0.3), x, None, length=6)[1]

    moved = run(steps, 3) / run(steps, 0)
    assert len({row.tobytes() for row in moved}) == 6


def test_a_loop_that_does_not_settle_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that noise keeps from ending gives nan, which no law takes for an answer."""
    monkeypatch.setattr(interpreter, "LONGEST", 50)

    def endless(x: Any) -> Any:
        return lax.while_loop(lambda y: y[0] * 0.3 != 0.3 * 0.7, lambda y: y * 1.0, x)

    assert np.isnan(run(endless, 1)).all()
    assert np.isfinite(run(endless, 0)).all()


def test_replicas_are_rows_with_noise_of_their_own() -> None:
    """Each has numbers of its own, in what is the same for all as well."""
    rows = np.repeat(X[None], 4, axis=0)
    many = run(jax.vmap(lambda x: jnp.exp(x) * 0.3), 5, x=rows)
    assert len({row.tobytes() for row in many}) == 4


def test_what_is_checked_as_it_runs_has_replicas() -> None:
    """A value that raises where it is wrong, by a call of Python that does not map over replicas."""
    equinox = pytest.importorskip("equinox")

    def checked(x: Any) -> Any:
        return equinox.error_if(jnp.exp(x), (x > 9).any(), "too large") * 0.3

    many = run(jax.vmap(checked), 5, x=np.repeat(X[None], 3, axis=0))
    assert len({row.tobytes() for row in many}) == 3
    with pytest.raises(Exception, match="too large"):
        run(checked, 5, x=X + 9)


def narrow(x: Any) -> Any:
    """A product in single precision."""
    return (x.astype(jnp.float32) * jnp.float32(0.3)).astype(x.dtype)


def test_single_precision_is_rounded_in_its_own_units() -> None:
    """What a program computes in float32 moves by units of float32, where that is asked for."""
    clean, fine = run(narrow, 0), run(narrow, 1)
    assert np.array_equal(fine, clean)
    assert not np.array_equal(run(narrow, 1, single=True), clean)


def test_single_precision_alone_is_disturbed_where_that_is_asked_for() -> None:
    """Results in float32 and what is narrowed to it, but for whole numbers."""
    alone: Any = {"magnitude": 2.0**-18, "only": np.dtype(np.float32)}
    assert not np.array_equal(run(narrow, 1, **alone), run(narrow, 0))
    assert np.array_equal(run(lambda x: x * 0.3, 1, **alone), X * 0.3)
    assert not np.array_equal(run(lambda x: x.astype(jnp.float32), 1, **alone), np.float32(X))
    assert np.array_equal(run(lambda x: (x > 0).astype(jnp.float32) * 2, 1, **alone), (X > 0) * 2)


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_every_primitive_of_ordinary_programs_is_listed(name: str) -> None:
    """No primitive is noised for want of a table that lists it."""
    function = EXACT[name] if name in EXACT else ROUNDED[name][0]
    assert operation_count.unlisted(jax.make_jaxpr(function)(X)) == set()


def primitive_of(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A primitive that no version of JAX has, of arrays of one shape."""
    made = Primitive(name)
    made.def_impl(function)
    made.def_abstract_eval(lambda x: x)
    return made.bind  # type: ignore[no-any-return]  # JAX has no types here


@pytest.mark.parametrize(
    ("name", "function", "unknown"),
    [
        ("turned_around", lambda x: -x[::-1], False),
        ("a_third", lambda x: x / 3, True),
    ],
)
def test_a_primitive_that_no_table_lists_is_looked_at(
    name: str, function: Callable[[Any], Any], unknown: bool
) -> None:
    """A copy rounds nothing, and all else is named and taken to round."""
    bind = primitive_of(name, function)
    program = jax.make_jaxpr(bind)(X)
    assert operation_count.unlisted(program) == ({name} if unknown else set())
    stepped = Stepped(bind, X)
    moved = stepped(interpreter.Noise(0, MAGNITUDE), X)
    assert np.array_equal(moved, function(np.asarray(X))) != unknown


def test_operations_of_loops_are_counted_by_their_length() -> None:
    """A scan of ten steps of two operations counts twenty, and a little more around them."""

    def steps(x: Any) -> Any:
        return lax.fori_loop(0, 10, lambda _, y: jnp.exp(y) * 0.3, x)

    assert 20 <= operation_count.operations(jax.make_jaxpr(steps)(X)) <= 40
