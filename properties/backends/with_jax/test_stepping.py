"""Programs that are run step by step give what they give when they are compiled."""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")
jnp = jax.numpy
lax = jax.lax

from flowref.backends.jax.array_functions import FUNCTIONS  # noqa: E402
from flowref.backends.jax.interpreter import Noise, Stepped, TooLong  # noqa: E402

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 5))
WHICH = np.array([[3], [0], [4], [1]])


@jax.custom_jvp
def _steep(x: Any) -> Any:
    return jnp.sinh(x)


_steep.defjvps(lambda tangent, out, x: tangent * jnp.cosh(x))


def solved(x: Any) -> Any:
    """A linear solve with a solver of its own."""
    matrix = jnp.eye(5) + 0.1 * jnp.outer(x[0], x[1])
    return lax.custom_linear_solve(
        lambda v: matrix @ v, x[2], lambda f, b: jnp.linalg.solve(matrix, b), symmetric=False,
        transpose_solve=lambda f, b: jnp.linalg.solve(matrix.T, b),
    )  # fmt: skip


def convolved(x: Any) -> Any:
    """Gradients of convolutions in their kernels, mapped over several."""

    def loss(kernel: Any, weights: Any) -> Any:
        points = jnp.stack([x, x * x])[:, None]
        return (lax.conv_general_dilated(points, kernel, (1, 1), "SAME") * weights).sum()

    kernels = jnp.cos(jnp.arange(24.0)).reshape(2, 3, 1, 2, 2)
    weights = jnp.sin(jnp.arange(240.0)).reshape(2, 2, 3, 4, 5)
    return jax.vmap(jax.grad(loss))(kernels, weights)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (x * 2 + 1) / (3 - x) - x**3 + x**-2 + x % 0.7,
    "functions": lambda x: (
        jnp.tanh(x),
        jnp.exp(x),
        jnp.log1p(x * x),
        jax.nn.softplus(x),
        lax.rsqrt(x * x + 1),
    ),
    "more-functions": lambda x: (
        jax.nn.sigmoid(x),
        jnp.arctan2(x, 2.0),
        jnp.cbrt(x),
        jnp.sinh(x),
        jax.scipy.special.erf(x),
    ),
    "comparisons": lambda x: jnp.where((x > 0) & ~(x > 1) | (x == x[0]), x, -x),
    "total-order": lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1]),
    "clip-round": lambda x: (jnp.clip(x, -0.5, 0.5), jnp.round(x), jnp.floor(x), jnp.sign(x)),
    "shapes": lambda x: (
        x.T[::-1],
        x.reshape(2, 10)[:, None, ::2],
        jnp.concatenate([x, 2 * x], 1),
        jnp.broadcast_to(x[:1], (3, 5)),
    ),
    "padded": lambda x: (
        jnp.pad(x, ((1, 2), (0, 3)), constant_values=7.0),
        lax.pad(x, 0.0, ((0, 1, 2), (1, 0, 0))),
    ),
    "cut-by-numbers": lambda x: lax.dynamic_slice(x, (2, 3), (2, 2)),
    "cut-beyond-the-end": lambda x: lax.dynamic_slice(x, (jnp.int32(7), jnp.int32(-9)), (2, 2)),
    "set": lambda x: lax.dynamic_update_slice(x, x[:2, :2] * 3, (1, 2)),
    "sums": lambda x: (
        x.sum(),
        x.sum(0),
        x.max(1),
        x.min(),
        x.prod(1),
        (x > 0).any(0),
        (x > 0).all(),
    ),
    "whole-numbers": lambda x: (
        (x * 10).astype(jnp.int32).sum(),
        jnp.arange(7) // 2,
        (x * 10).astype(jnp.uint32),
    ),
    "running": lambda x: (
        jnp.cumsum(x, 1),
        jnp.cumprod(x, 0),
        lax.cummax(x, 1),
        lax.cumlogsumexp(x, 1),
        lax.cumsum(x, 0, reverse=True),
    ),
    "places": lambda x: (jnp.argmax(x, 1), jnp.argmin(x)),
    "sorted": lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0)),
    "dots": lambda x: (
        x @ x.T,
        jnp.einsum("ij,ij->i", x, x),
        jnp.einsum("ij,kj->ki", x, x),
        jnp.tensordot(x, x, 2),
    ),
    "batched-dot": lambda x: jax.vmap(lambda a: a @ a.T)(jnp.stack([x, 2 * x])),
    "along": lambda x: jnp.take_along_axis(x, WHICH, axis=1),
    "indexed": lambda x: (
        x[jnp.array([2, 0, 0])],
        x[:, jnp.array([4, 1])],
        x[jnp.array([1, 2]), jnp.array([0, 3])],
        x.at[jnp.array([9])].get(mode="fill"),
    ),
    "mapped-indices": lambda x: jax.vmap(lambda row, at: row[at])(x, WHICH[:, 0]),
    "scattered": lambda x: (
        x.at[jnp.array([1, 1])].add(2.0),
        x.at[:, 2].set(0.5),
        x.at[jnp.array([1, 9])].set(3.0),
        x.at[0, jnp.array([0, 0])].multiply(2.0),
    ),
    "looked-up-gradient": lambda x: jax.grad(
        lambda y: (jnp.take_along_axis(y, WHICH, 1) ** 3).sum()
    )(x),
    "scan": lambda x: lax.scan(lambda carry, row: (carry * 0.5 + row, carry.sum()), x[0], x),
    "scan-backwards": lambda x: lax.scan(
        lambda carry, row: (carry + row, carry), x[0], x, reverse=True
    ),
    "while": lambda x: lax.while_loop(lambda y: jnp.abs(y).max() > 0.1, lambda y: y / 3, x),
    "mapped-while": lambda x: jax.vmap(
        lambda row: lax.while_loop(lambda y: jnp.abs(y).max() > 0.1, lambda y: y / 3, row)
    )(x),
    "for": lambda x: lax.fori_loop(0, 5, lambda i, y: y + i * 0.1, x),
    "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    "mapped-cond": lambda x: jax.vmap(lambda row: lax.cond(row[0] > 0, jnp.sin, jnp.cos, row))(x),
    "switch": lambda x: lax.switch(jnp.int32(2), [jnp.sin, jnp.cos, jnp.tanh], x),
    "custom": _steep,
    "custom-gradient": jax.grad(lambda x: _steep(x).sum()),
    "jit": jax.jit(lambda x: jnp.tanh(x) * 2),
    "checkpoint": jax.grad(lambda x: jax.checkpoint(jnp.tanh)(x).sum()),
    "jacobian": jax.jacfwd(lambda x: jnp.tanh(x[0]) * x[1].sum()),
    "hessian": jax.hessian(lambda x: (jnp.tanh(x[0]) * x[1]).sum()),
    "linalg": lambda x: (
        jnp.linalg.det(x[:, :4]),
        jnp.linalg.slogdet(x[:, :4]),
        jnp.linalg.solve(x[:, :4], x[:, 4]),
        jnp.linalg.qr(x)[1],
    ),
    "cholesky": lambda x: jax.scipy.linalg.cholesky(x @ x.T + jnp.eye(4), lower=True),
    "solve": solved,
    "drawn": lambda x: x + jax.random.normal(jax.random.key(2), x.shape),
    "bits": lambda x: (
        lax.bitcast_convert_type(x, jnp.uint64) >> 9,
        jnp.uint32(5) << 3,
        jnp.int32(-5) >> 1,
    ),
    "keys": lambda x: [jax.random.normal(key) for key in jax.random.split(jax.random.key(3), 3)],
    "mapped-keys": lambda x: jax.vmap(
        lambda key: jax.random.bits(jax.random.split(key)[1], (2,), "uint8")
    )(jax.random.split(jax.random.key(3), 4)),
    "mapped-convolution": convolved,
    "fourier": lambda x: jnp.abs(jnp.fft.fft(x)),
    "constants": lambda x: x * jnp.log(2.0) + np.array([1.0, 2.0, 0.5, 3.0, 0.0]),
    "nothing": lambda x: (x[:0].sum(), x[:, :0] * 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_give_what_is_compiled(name: str) -> None:
    """Every primitive gives, step by step, what XLA gives, in shape and dtype too."""
    with jax.enable_x64(True):
        expected = jax.jit(PROGRAMS[name])(X)
        found = Stepped(PROGRAMS[name], X)(None, X)
        assert jax.tree.structure(found) == jax.tree.structure(expected)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            assert np.allclose(one, other, rtol=1e-12, atol=1e-13, equal_nan=True)


@pytest.mark.parametrize(
    "name",
    [
        "arithmetic",
        "functions",
        "dots",
        "scan",
        "mapped-while",
        "looked-up-gradient",
        "cond",
        "linalg",
    ],
)
def test_noise_moves_steps_by_rounding(name: str) -> None:
    """Under noise results move by some units of it, alike for one seed and otherwise for another."""
    with jax.enable_x64(True):
        program = Stepped(PROGRAMS[name], X)
        clean = jax.tree.leaves(program(None, X))[0]
        one, again, other = (
            jax.tree.leaves(program(Noise(seed, 2.0**-40), X))[0] for seed in (1, 1, 2)
        )
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert 0 < np.abs(one - clean).max() / np.abs(clean).max() < 1e-9


def test_rows_have_noise_of_their_own() -> None:
    """The same row, standing twice, is rounded in two ways."""
    x = np.repeat(X[:1], 4, 0)
    with jax.enable_x64(True):
        out = Stepped(jnp.tanh, x)(Noise(1, 2.0**-40), x)
    assert len(np.unique(out[:, 0])) == 4


def test_single_precision_stays_single() -> None:
    """Programs in single precision are run in it."""
    x = X.astype(np.float32)
    out = Stepped(lambda x: jnp.tanh(x) * 2 + 1, x)(Noise(1, 1e-5), x)
    assert out.dtype == np.float32


def test_what_does_not_end_is_left_to_the_compiler() -> None:
    """A loop of very many iterations is not taken step by step."""
    with jax.enable_x64(True), pytest.raises(TooLong):
        Stepped(lambda x: lax.while_loop(lambda y: y.sum() > -9, jnp.cos, x), X)(None, X)


def test_arguments_are_not_written_to() -> None:
    """Arrays that are handed in stay what they were."""
    x = X.copy()
    x.flags.writeable = False
    with jax.enable_x64(True):
        for name in ("scattered", "set", "shapes", "running"):
            Stepped(PROGRAMS[name], x)(Noise(1, 2.0**-40), x)
    assert np.array_equal(x, X)


def test_few_primitives_are_asked_of_jax() -> None:
    """What is met often has a function of numpy."""
    assert {"add", "mul", "dot_general", "gather", "scatter-add", "select_n"} <= set(FUNCTIONS)


@pytest.mark.parametrize("noisy", [False, True])
def test_what_underflows_is_zero_as_it_is_compiled(noisy: bool) -> None:
    """Numbers too small for their dtype are zero, as in compiled programs: the logarithm of one that
    noise alone would save is infinite in both.
    """

    def run(x: Any) -> Any:
        return jnp.exp(x), jnp.exp(x / 2) * jnp.exp(x / 2), jnp.log(jax.nn.softplus(x))

    with jax.enable_x64(True), np.errstate(all="ignore"):
        x = np.array([-740.0, -700.0])
        stepped = Stepped(run, x)(Noise(1, 2.0**-50) if noisy else None, x)
        for one, other in zip(stepped, jax.jit(run)(x), strict=True):
            assert np.allclose(one, other, rtol=1e-9)
            assert other[0] in (0, -np.inf)


def test_gamma_variables_are_those_of_jax() -> None:
    """They are drawn among others, and are what JAX draws alone, for one key and for several, and their
    logarithms.
    """

    def run(key: Any) -> Any:
        keys = jax.random.split(key, 5)
        several = jax.vmap(lambda one: jax.random.loggamma(one, 5.0, (3,)))(keys)
        return jax.random.gamma(key, 2.5, (5, 2)), several

    with jax.enable_x64(True):
        key = jax.random.key(7)
        for one, other in zip(Stepped(run, key)(None, key), jax.jit(run)(key), strict=True):
            assert np.allclose(one, other, rtol=1e-12)
