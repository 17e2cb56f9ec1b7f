"""What is proved of code of JAX is true: programs that are written to fool a prover, beside true ones that look alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.jax.backend import BACKEND
from flowref.backends.jax.tracing import JaxTracedCall
from flowref.model import Unsupported
from flowref.proving.criteria import LAWS
from flowref.proving.identities import Proof, prove_identity

ROWS, SIZE = 3, 2
A, B = np.array([0.7, -0.4]), np.array([1.3, 0.6])


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """In double precision."""
    with BACKEND.sandbox(0, "float64"):
        yield


class Map:
    """A map of two entries with two weights, which are changed in place as other objects' are."""

    def __init__(self, run: Any) -> None:
        self.a, self.b, self.run, self.calls = jnp.asarray(A), jnp.asarray(B), run, [0]


def proof(run: Any, law: str = "log-det") -> Proof:
    """What is found of a map of one event, which is mapped over a batch."""
    return proof_of(lambda m, x: jax.vmap(lambda one: run(m, one))(x), law)


def proof_of(run: Any, law: str = "log-det") -> Proof:
    """What is found of a map of a batch."""
    rng = np.random.default_rng(0)
    draw = [jnp.asarray(rng.standard_normal((ROWS, SIZE))) for _ in range(4)]
    try:
        traced = JaxTracedCall(Map(run), lambda obj, x, context: obj.run(obj, x), draw[0])
        if not traced.agrees(draw[1:]):
            return Proof(False, reason="the graph differs from the object")
        paths = [path for path in map(traced.path, draw) if path is not None]
        return prove_identity(traced.graph(), LAWS[law], paths)[0]
    except Unsupported as error:
        return Proof(False, reason=str(error))


def coupling(m: Any, x: Any, factor: float = 1.0) -> Any:
    """A coupling, with its log-det times a factor."""
    kept, moved = x[:1], x[1:]
    s = jnp.tanh(kept * m.a[:1] + m.b[:1]) * m.b[1:]
    out = jnp.concatenate([kept, moved * jnp.exp(s) + jax.nn.relu(kept)])
    return out, factor * s.sum()


def ruled(function: Any, rule: Any) -> Any:
    """A function with a rule of its own for its derivative."""
    made = jax.custom_jvp(function)
    made.defjvp(lambda given, along: (function(given[0]), rule(given[0]) * along[0]))
    return made


# A cube whose derivative is told to be twice as large, and an exponential whose rule is right.
cube = ruled(lambda x: x**3, lambda x: 6 * x**2)
grown = ruled(jnp.exp, jnp.exp)


def slope(function: Any, x: Any) -> Any:
    """Of each entry, as JAX differentiates."""
    return jax.vmap(jax.grad(function))(x)


def looped(m: Any, x: Any, factor: float = 1.0) -> Any:
    """Three steps of a loop, each with its log-det."""

    def step(state: Any, scale: Any) -> Any:
        value, told = state
        return (value * jnp.exp(scale * m.a), told + factor * (scale * m.a).sum()), None

    return jax.lax.scan(step, (x, jnp.zeros(())), jnp.arange(1.0, 4.0))[0]


def counted_loop(m: Any, x: Any) -> Any:
    """A loop of a length that is written in code."""
    return jax.lax.fori_loop(0, 3, lambda _, y: y * jnp.exp(m.a), x), 3 * m.a.sum()


def spline(m: Any, x: Any, shift: int = 0) -> Any:
    """A piecewise linear map whose pieces are looked up."""
    slopes, knots = jnp.exp(jnp.concatenate([m.a, m.b])), jnp.array([-1.0, 0.0, 1.0])
    at = jnp.searchsorted(knots, x)
    starts = jnp.concatenate([jnp.zeros(2), jnp.cumsum(slopes[1:3])])
    left = jnp.array([-1.0, -1.0, 0.0, 1.0])
    return starts[at] + slopes[at] * (x - left[at]), jnp.log(slopes[at + shift]).sum()


def branched(m: Any, x: Any, told: Any = jnp.cosh) -> Any:
    """Another map on either side of a point, by branches, and for some weights, by a branch of all."""
    each = jax.vmap(lambda y: jax.lax.cond(y > 0, lambda: 2 * y, lambda: jnp.sinh(y)))(x)
    ladj = jnp.where(x > 0, math.log(2), jnp.log(told(x))).sum()
    return jax.lax.cond(
        m.a[0] > 0, lambda: (each, ladj), lambda: (each * jnp.exp(m.b), ladj + m.b.sum())
    )


def checked(m: Any, x: Any) -> Any:
    """A map that raises where weights are large, as `equinox.error_if` does."""

    def fail() -> Any:
        def host(y: Any) -> Any:
            raise ValueError

        return jax.pure_callback(host, x, x, vmap_method="sequential")

    return jax.lax.cond(m.a[0] > 9, fail, lambda: x) * jnp.exp(m.a), m.a.sum()


def masked(m: Any, x: Any, told: int = 1) -> Any:
    """Scales where the other entry is positive, which is looked up."""
    scales, other = jnp.array([2.0, 3.0]), (x > 0)[jnp.array([1, 0])]
    at = (x > 0)[jnp.array([told, 1 - told])]
    return jnp.where(other, scales, 1.0) * x, jnp.where(at, jnp.log(scales), 0.0).sum()


def fenced(m: Any, x: Any, told: int = 1) -> Any:
    """What a barrier gives."""
    both = jax.lax.optimization_barrier((m.a, m.b))
    return x * jnp.exp(both[1]) + both[0], both[told].sum()


def keyed(m: Any, x: Any) -> Any:
    """A key beside the numbers."""
    key = jax.random.split(jax.random.key(3))[0]
    return x + 0.0 * jax.random.key_data(key)[0], 0.0


RIGHT = {
    "masked": masked,
    "fenced": fenced,
    "keyed": keyed,
    "no axes": lambda m, x: (jnp.sum(x * jnp.exp(m.a), axis=()), m.a.sum()),
    "branched": branched,
    "affine": lambda m, x: (x * m.a + m.b, jnp.log(jnp.abs(m.a)).sum()),
    "exponential": lambda m, x: (x * jnp.exp(m.a) + m.b, m.a.sum()),
    "softplus": lambda m, x: (
        x * jax.nn.softplus(m.a),
        jnp.log(jax.nn.softplus(m.a)).sum(),
    ),
    "coupling": coupling,
    "sinh": lambda m, x: (jnp.sinh(x), jnp.log(jnp.cosh(x)).sum()),
    "asinh": lambda m, x: (jnp.arcsinh(x), -0.5 * jnp.log(1 + x**2).sum()),
    "tanh": lambda m, x: (jnp.tanh(x), 2 * (math.log(2) - x - jax.nn.softplus(-2 * x)).sum()),
    "sigmoid": lambda m, x: (jax.nn.sigmoid(x), (-jax.nn.softplus(-x) - jax.nn.softplus(x)).sum()),
    "two slopes": lambda m, x: (jnp.where(x > 0, 2 * x, x), (x > 0).sum() * math.log(2)),
    "matrix": lambda m, x: (
        x @ (jnp.outer(m.a, m.b) + jnp.eye(2)),
        jnp.log(jnp.abs(1 + m.a @ m.b)),
    ),
    "slogdet": lambda m, x: (
        jnp.stack([m.a, m.b]) @ x,
        jnp.linalg.slogdet(jnp.stack([m.a, m.b]))[1],
    ),
    "swap": lambda m, x: (x[::-1], jnp.zeros(())),
    "permuted": lambda m, x: (x[jnp.array([1, 0])] * jnp.exp(m.a), m.a.sum()),
    "put": lambda m, x: (x.at[1].set(x[1] * jnp.exp(m.a[0])), m.a[0]),
    "plain number": lambda m, x: (x + m.a, 0.0),
    "sine": lambda m, x: (
        x + 0.5 * jnp.sin(x + m.a),
        jnp.log(jnp.abs(1 + 0.5 * jnp.cos(x + m.a))).sum(),
    ),
    "softmax": lambda m, x: (x * jax.nn.softmax(m.a), jax.nn.log_softmax(m.a).sum()),
    "differentiated": lambda m, x: (
        jnp.exp(x) + x,
        jnp.log(slope(lambda one: jnp.exp(one) + one, x)).sum(),
    ),
    "own rule": lambda m, x: (grown(x), x.sum()),
    "own wrong rule": lambda m, x: (cube(x), jnp.log(3 * x**2).sum()),
    "stopped": lambda m, x: (jax.lax.stop_gradient(x) * jnp.exp(m.a), m.a.sum()),
    "checkpoint": lambda m, x: (jax.checkpoint(jnp.sinh)(x), jnp.log(jnp.cosh(x)).sum()),
    "jit": lambda m, x: (jax.jit(jnp.sinh)(x), jax.jit(lambda y: jnp.log(jnp.cosh(y)).sum())(x)),
    "scan": looped,
    "loop": counted_loop,
    "cumulative": lambda m, x: (jnp.cumsum(x) * jnp.exp(m.a), m.a.sum()),
    "triangular": lambda m, x: (
        jax.scipy.linalg.solve_triangular(
            jnp.array([[1.0, 0.0], [0.5, 1.0]]) * jnp.exp(m.a[0]), x, lower=True
        ),
        -2 * m.a[0],
    ),
}
# What counts truth values, or chooses the largest, is proved on paths.
ON_PATHS = ("two slopes", "softmax")
WRONG = {
    "masked": lambda m, x: masked(m, x, 0),
    "fenced": lambda m, x: fenced(m, x, 0),
    "branched": lambda m, x: branched(m, x, jnp.sinh),
    "large": lambda m, x: jax.lax.cond(m.a[0] > 9, lambda: (2 * x, 0.0), lambda: (x, 0.0)),
    "halved": lambda m, x: (x * jnp.exp(m.a), m.a.sum() / 2),
    "negated": lambda m, x: (x * jnp.exp(m.a), -m.a.sum()),
    "nearly": lambda m, x: (x * jnp.exp(m.a), m.a.sum() * (1 + 1e-12)),
    "constant": lambda m, x: (2 * x, 2 * 0.69314),
    "one": lambda m, x: (x * jnp.exp(m.a), m.a[0]),
    "scaled coupling": lambda m, x: coupling(m, x, 0.5),
    "looped": lambda m, x: looped(m, x, 0.5),
    "sums of absolutes": lambda m, x: (
        x * (m.a + m.b),
        jnp.log(jnp.abs(m.a) + jnp.abs(m.b)).sum(),
    ),
    "root of a square": lambda m, x: (
        x * (1 + jnp.sqrt(m.a**2)),
        jnp.log(jnp.abs(1 + m.a)).sum(),
    ),
    "sign": lambda m, x: (x * (2 + jnp.sign(m.b)), 2 * math.log(3)),
    "clipped": lambda m, x: (x * jnp.clip(jnp.exp(m.a), 0, 1e3), m.a.sum()),
    "other side": lambda m, x: (jnp.where(x > -50, x, 2 * x), 0.0),
    "no number": lambda m, x: (jnp.where(jnp.isnan(jnp.log(x + 50)), 2 * x, x), 0.0),
    "no root": lambda m, x: (jnp.where(jnp.isfinite(jnp.sqrt(x + 50)), x, 2 * x), 0.0),
    "no quantile": lambda m, x: (
        jnp.where(jnp.isnan(jax.scipy.special.erfinv(x / 50)), 2 * x, x),
        0.0,
    ),
    "floor": lambda m, x: (x + jnp.floor(x), 0.0),
    "whole": lambda m, x: (x + x.astype(int), 0.0),
    "tie": lambda m, x: (jnp.where(x == 3, 2 * x, x), 0.0),
    "largest": lambda m, x: (x * jnp.exp(jnp.maximum(m.a, m.b)), m.b.sum()),
    "wrong rule": lambda m, x: (cube(x), jnp.log(slope(cube, x)).sum()),
    "stopped slope": lambda m, x: (
        x**3 + x,
        jnp.log(slope(lambda y: jax.lax.stop_gradient(y) ** 3 + y, x)).sum(),
    ),
    "sorted": lambda m, x: (jnp.sort(x) * jnp.exp(m.a), m.a.sum() * (1 + (x[0] > 50))),
    "chosen": lambda m, x: (x * (1 + jnp.argmax(x + jnp.array([50.0, 0.0]))), 0.0),
    "neighbour piece": lambda m, x: spline(m, x, -1),
}
EVERYWHERE = (
    "halved", "negated", "nearly", "constant", "one", "scaled coupling", "looped", "sums of absolutes", "wrong rule",
    "stopped slope",
)  # fmt: skip
# Of a batch, of which points depend on others.
TOGETHER = {
    "rows": lambda m, x: (x * jnp.exp(m.a) + x.mean(0), m.a.sum() * jnp.ones(len(x))),
    "neighbour": lambda m, x: (
        x * jnp.exp(m.a) + 1e-9 * jnp.roll(x, 1, 0),
        m.a.sum() * jnp.ones(len(x)),
    ),
    "batch": lambda m, x: (x * jnp.exp(m.a), m.a.sum() * len(x)),
}
REFUSED = {
    "leaves": (lambda m, x: (x * float(x.sum()), 0.0), "a number leaves an array"),
    "asked": (lambda m, x: (2 * x if x.sum() > 50 else x, 0.0), "a number leaves an array"),
    "array": (lambda m, x: (x * np.asarray(x).sum(), 0.0), "a number leaves an array"),
    "cast": (lambda m, x: (x.astype("float32").astype("float64"), 0.0), "float32"),
    "half": (lambda m, x: (x + x.astype("bfloat16"), 0.0), "bfloat16"),
    "product": (
        lambda m, x: (jnp.dot(jnp.eye(2), x, preferred_element_type="float32") * 1.0 * m.a[0], 0.0),
        "float32 numbers, by dot_general",
    ),
    "complex": (lambda m, x: (jnp.abs(x * 1j), 0.0), "complex"),
    "narrowed": (lambda m, x: (jax.lax.reduce_precision(x, 8, 7), 0.0), "reduce_precision"),
    "branch": (
        lambda m, x: jax.lax.switch(
            jnp.argmax(m.a), [lambda: (2 * x, 0.0), lambda: (x, 0.0), lambda: (x, 0.0)]
        ),
        "a branch that depends on numbers, cond (test_jaxprs.py:",
    ),
    "unending": (
        lambda m, x: (jax.lax.while_loop(lambda y: m.a[0] > 9, lambda y: 2 * y, x), 0.0),
        "a loop whose length depends on numbers, while (test_jaxprs.py:",
    ),
    "long": (
        lambda m, x: (jax.lax.fori_loop(0, 30_000, lambda _, y: y + 1, x), 0.0),
        "operations",
    ),
    "host": (
        lambda m, x: (jax.pure_callback(lambda y: np.asarray(y), x, x, vmap_method="sequential"), 0.0),
        "pure_callback (test_jaxprs.py:",
    ),
    "drawn": (
        lambda m, x: (
            x + jax.random.normal(jax.random.split(jax.random.key(0))[0], x.shape),
            0.0,
        ),
        "not modelled",
    ),
}  # fmt: skip


def counted(m: Any, x: Any) -> Any:
    """Another map at every other call."""
    m.calls[0] += 1
    return (x * jnp.exp(m.a), m.a.sum()) if m.calls[0] % 2 else (2 * x, m.a.sum())


def once(m: Any, x: Any) -> Any:
    """Another map after some calls, all of which are traced alike."""
    m.calls[0] += 1
    return (x * jnp.exp(m.a), m.a.sum()) if m.calls[0] < 3 else (2 * x, m.a.sum())


def drawing(m: Any, x: Any) -> Any:
    """A number of Python that is drawn at each call."""
    return x * np.random.standard_normal(), 0.0


def trembling(m: Any, x: Any) -> Any:
    """A small number that is drawn at each call."""
    return x * (1 + 1e-13 * np.random.standard_normal()), jnp.zeros(len(x))


def asking(m: Any, x: Any) -> Any:
    """Another map where it is traced, of a batch."""
    traced = isinstance(x, jax.core.Tracer)
    return (x * jnp.exp(m.a) if traced else 2 * x), m.a.sum() * jnp.ones(len(x))


def left(m: Any, x: Any) -> Any:
    """What a call leaves in a list is used in the next."""
    m.calls.append(x)
    return x + m.calls[-2], jnp.zeros(len(x))


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_proved(name: str) -> None:
    """For all weights."""
    found = proof(RIGHT[name])
    assert found.proved and "all weights" in found.weights, found.reason
    assert (found.paths > 0) == (name in ON_PATHS), found.clause


def test_what_raises_bounds_a_claim() -> None:
    """It is of where code does not raise."""
    found = proof(checked)
    assert found.proved and found.bounded and "conditions" in found.conditions[0], found.reason


def test_pieces_that_are_looked_up_are_proved_on_paths() -> None:
    """Of a spline, whose places comparisons decide."""
    found = proof(spline)
    assert found.proved and found.paths, found.reason


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not_proved_for_all_inputs_and_weights(name: str) -> None:
    """On the paths that drawn points take, and for these weights, it may be right."""
    found = proof(WRONG[name])
    assert not (found.proved and not found.bounded and "all weights" in found.weights)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_what_is_wrong_everywhere_is_proved_on_no_path(name: str) -> None:
    """Nor for these weights."""
    assert not proof(WRONG[name]).proved


@pytest.mark.parametrize("name", TOGETHER)
def test_what_depends_on_other_points_is_not_proved(name: str) -> None:
    """Nor is a log-det of the batch."""
    assert not proof_of(TOGETHER[name]).proved


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_modelled_is_refused(name: str) -> None:
    """With the primitive, and its line where there is one."""
    run, reason = REFUSED[name]
    found = proof(run)
    assert not found.proved and reason in found.reason, found.reason


@pytest.mark.parametrize("run", [counted, once, drawing, trembling, left, asking])
def test_a_graph_that_is_not_the_object_proves_nothing(run: Any) -> None:
    """The call is traced again, and made op by op."""
    assert proof_of(run).reason == "the graph differs from the object"
