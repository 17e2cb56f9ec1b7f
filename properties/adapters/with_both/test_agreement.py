"""Two worlds, one map: what a library of torch and one of JAX compute with the same weights agrees, to the
rounding of double precision. Run where both are installed (`tox -e both`).
"""
# The libraries have no types, and are not all installed where types are checked.
# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("zuko", reason="it is one of two worlds")
pytest.importorskip("flowjax", reason="it is one of two worlds")
pytest.importorskip("numpyro", reason="it is one of two worlds")

import jax
import jax.numpy as jnp
import torch

ROWS, SIZE = 33, 4
# Of results of some dozen operations in double precision; solves and searches take it to the second.
NEAR, FOUND = 1e-12, 1e-9
# What is planted is seen down to this size, relative to the numbers.
SIZES = (1e-1, 1e-4, 1e-8)
Triple = tuple[Any, Any, Any]


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """Both worlds in double precision."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with jax.enable_x64(True):
        yield
    torch.set_default_dtype(before)


def points(seed: int = 0, low: float = -3.0, high: float = 3.0, size: int = SIZE) -> Any:
    """Rows of a box."""
    return np.random.default_rng(seed).uniform(low, high, (ROWS, size))


def gap(one: Any, other: Any) -> float:
    """How far two results are apart, relative to the larger; infinite for other shapes."""
    first, second = (np.asarray(each, dtype=np.float64) for each in (one, other))
    if first.shape != second.shape:
        return float("inf")
    size = np.maximum(np.abs(first), np.abs(second)).max() + 1e-30
    return float(np.nan_to_num(np.abs(first - second).max() / size, nan=np.inf))


def plain(tensor: Any) -> Any:
    """A tensor as an array."""
    return tensor.detach().numpy()


def of_torch(transform: Any, x: Any) -> Triple:
    """Value, log-det and way back of a transform of torch.distributions or of zuko."""
    value = transform(torch.from_numpy(x))
    back = transform.inv(value)
    ladj = transform.log_abs_det_jacobian(torch.from_numpy(x), value)
    return plain(value), plain(ladj), plain(back)


def of_flowjax(bijection: Any, x: Any) -> Triple:
    """The same of a bijection of FlowJAX, event by event."""
    import paramax

    bijection = paramax.unwrap(bijection)
    value, ladj = jax.vmap(bijection.transform_and_log_det)(x)
    return value, ladj, jax.vmap(bijection.inverse_and_log_det)(value)[0]


def of_numpyro(transform: Any, x: Any) -> Triple:
    """The same of a transform of NumPyro."""
    value = transform(jnp.asarray(x))
    return value, transform.log_abs_det_jacobian(jnp.asarray(x), value), transform.inv(value)


def layers_of(network: Any) -> Callable[[Any], Any]:
    """A network of equinox, its masks applied, as a function of torch with its weights."""
    import paramax

    pairs = [
        (torch.from_numpy(np.array(layer.weight)), torch.from_numpy(np.array(layer.bias)))
        for layer in paramax.unwrap(network).layers
    ]

    def run(x: Any) -> Any:
        for weight, bias in pairs[:-1]:
            x = torch.relu(x @ weight.T + bias)
        weight, bias = pairs[-1]
        return x @ weight.T + bias

    return run


def affine_of(numbers: Any, size: int) -> Any:
    """The affine map that FlowJAX makes of the numbers of a network: a location, and what softplus
    makes a scale of, one at zero.
    """
    from zuko.transforms import DependentTransform

    loc, raw = numbers.reshape(*numbers.shape[:-1], size, 2).unbind(-1)
    scale = torch.nn.functional.softplus(raw + np.log(np.expm1(1.0)))
    return DependentTransform(torch.distributions.AffineTransform(loc, scale), 1)


def spline() -> tuple[Triple, Triple]:
    """A rational-quadratic spline with the same knots."""
    import flowjax.bijections as fb
    import paramax
    from zuko.transforms import MonotonicRQSTransform

    made = fb.RationalQuadraticSpline(knots=6, interval=3.0, min_derivative=1e-3)
    leaves, tree = jax.tree.flatten(made)
    key = jax.random.key(3)
    moved = [
        leaf + jax.random.normal(jax.random.fold_in(key, at), leaf.shape)
        if getattr(leaf, "ndim", 0)
        else leaf
        for at, leaf in enumerate(leaves)
    ]
    made = jax.tree.unflatten(tree, moved)
    known = paramax.unwrap(made)
    twin = MonotonicRQSTransform(torch.zeros(7), torch.zeros(7), torch.zeros(6), bound=3.0)
    twin.horizontal, twin.vertical = (
        torch.from_numpy(np.array(each)) for each in (known.x_pos, known.y_pos)
    )
    slopes = np.array(known.derivatives)
    slopes[[0, -1]] = 1.0  # both continue with slope one
    twin.derivatives = torch.from_numpy(slopes)
    inside = points(1, -2.9, 2.9, 1)[:, 0]
    return of_torch(twin, inside), of_flowjax(made, inside)


def coupling() -> tuple[Triple, Triple]:
    """An affine coupling with the same network."""
    import flowjax.bijections as fb
    from zuko.transforms import CouplingTransform

    made = fb.Coupling(
        jax.random.key(1),
        transformer=fb.Affine(),
        untransformed_dim=2,
        dim=SIZE,
        nn_width=8,
        nn_depth=2,
    )
    network = layers_of(made.conditioner)
    twin = CouplingTransform(
        lambda kept: affine_of(network(kept), SIZE - 2), torch.arange(SIZE) < 2
    )
    return of_torch(twin, points(2)), of_flowjax(made, points(2))


def autoregressive() -> tuple[Triple, Triple]:
    """A masked autoregressive flow with the same network."""
    import flowjax.bijections as fb
    from zuko.transforms import AutoregressiveTransform

    made = fb.MaskedAutoregressive(
        jax.random.key(2), transformer=fb.Affine(), dim=SIZE, nn_width=8, nn_depth=1
    )
    network = layers_of(made.masked_autoregressive_mlp)
    twin = AutoregressiveTransform(lambda x: affine_of(network(x), SIZE), passes=SIZE)
    return of_torch(twin, points(3)), of_flowjax(made, points(3))


def transforms() -> dict[str, Callable[[], tuple[Triple, Triple]]]:
    """Transforms that torch.distributions and NumPyro have under one name."""
    import numpyro.distributions.transforms as nt
    import torch.distributions.transforms as tt

    rng = np.random.default_rng(5)
    loc, scale = rng.standard_normal(SIZE), rng.uniform(0.5, 2.0, SIZE)
    rows: dict[str, tuple[Any, Any, tuple[float, float]]] = {
        "affine": (
            tt.AffineTransform(torch.from_numpy(loc), torch.from_numpy(scale)),
            nt.AffineTransform(jnp.asarray(loc), jnp.asarray(scale)),
            (-3, 3),
        ),
        "exp": (tt.ExpTransform(), nt.ExpTransform(), (-3, 3)),
        "sigmoid": (tt.SigmoidTransform(), nt.SigmoidTransform(), (-3, 3)),
        "softplus": (tt.SoftplusTransform(), nt.SoftplusTransform(), (-3, 3)),
        "power": (tt.PowerTransform(torch.tensor(2.5)), nt.PowerTransform(2.5), (0.1, 3)),
        "stick-breaking": (tt.StickBreakingTransform(), nt.StickBreakingTransform(), (-2, 2)),
        "cholesky of correlations": (
            tt.CorrCholeskyTransform(), nt.CorrCholeskyTransform(), (-1, 1)
        ),
    }  # fmt: skip

    def both(
        one: Any, other: Any, box: tuple[float, float], size: int
    ) -> Callable[[], tuple[Triple, Triple]]:
        x = points(6, *box, size=size)
        return lambda: (of_torch(one, x), of_numpyro(other, x))

    return {name: both(*row, 6 if "cholesky" in name else SIZE) for name, row in rows.items()}


def named(name: str) -> Callable[[], tuple[Triple, Triple]]:
    """One of them, made when it is compared."""
    return lambda: transforms()[name]()


MAPS = {"spline": spline, "coupling": coupling, "autoregressive": autoregressive} | {
    name: named(name)
    for name in (
        "affine", "exp", "sigmoid", "softplus", "power", "stick-breaking", "cholesky of correlations",
    )
}  # fmt: skip


@pytest.mark.parametrize("name", MAPS)
def test_maps_agree(name: str) -> None:
    """Value, log-det and way back are those of the other world."""
    one, other = MAPS[name]()
    gaps = [gap(first, second) for first, second in zip(one, other, strict=True)]
    assert gaps[0] < NEAR
    assert gaps[1] < FOUND
    assert gaps[2] < FOUND


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["spline", "coupling", "autoregressive"])
def test_a_bug_in_one_world_is_seen(name: str, size: float) -> None:
    """A log-det, or an entry, that is off in one world alone is no agreement."""
    one, other = MAPS[name]()
    value, ladj, _ = (np.array(each) for each in one)
    assert gap(ladj * (1 + size), other[1]) > FOUND
    value.reshape(-1)[np.abs(value).argmax()] *= 1 + size
    assert gap(value, other[0]) > NEAR


def distributions() -> dict[str, tuple[Any, Any, tuple[float, float]]]:
    """Distributions of torch and of NumPyro with the same parameters, and where they are compared."""
    import numpyro.distributions as nd
    import torch.distributions as td

    rng = np.random.default_rng(7)
    loc, scale = rng.standard_normal(SIZE), rng.uniform(0.5, 2.0, SIZE)
    factor = np.tril(rng.standard_normal((SIZE, SIZE)), -1) + np.diag(scale)
    rows: dict[str, tuple[str, dict[str, Any], tuple[float, float]]] = {
        "normal": ("Normal", {"loc": loc, "scale": scale}, (-3, 3)),
        "log-normal": ("LogNormal", {"loc": loc, "scale": scale}, (0.1, 3)),
        "laplace": ("Laplace", {"loc": loc, "scale": scale}, (-3, 3)),
        "gumbel": ("Gumbel", {"loc": loc, "scale": scale}, (-3, 3)),
        "cauchy": ("Cauchy", {"loc": loc, "scale": scale}, (-3, 3)),
        "student": ("StudentT", {"df": scale + 2, "loc": loc, "scale": scale}, (-3, 3)),
        "gamma": ("Gamma", {"concentration": scale, "rate": scale + 1}, (0.1, 3)),
        "beta": ("Beta", {"concentration1": scale, "concentration0": scale + 1}, (0.1, 0.9)),
        "weibull": ("Weibull", {"scale": scale, "concentration": scale + 1}, (0.1, 3)),
        "exponential": ("Exponential", {"rate": scale}, (0.1, 3)),
        "kumaraswamy": (
            "Kumaraswamy", {"concentration1": scale, "concentration0": scale + 1}, (0.1, 0.9)
        ),
        "multivariate": ("MultivariateNormal", {"loc": loc, "scale_tril": factor}, (-3, 3)),
    }  # fmt: skip
    return {
        name: (
            getattr(td, kind)(**{key: torch.from_numpy(value) for key, value in given.items()}),
            getattr(nd, kind)(**{key: jnp.asarray(value) for key, value in given.items()}),
            box,
        )
        for name, (kind, given, box) in rows.items()
    }


def test_densities_agree() -> None:
    """Log-densities of the same parameters at the same points are the same in both worlds."""
    apart = {}
    for name, (one, other, box) in distributions().items():
        x = points(8, *box)
        apart[name] = gap(plain(one.log_prob(torch.from_numpy(x))), other.log_prob(jnp.asarray(x)))
    assert {name: size for name, size in apart.items() if size >= FOUND} == {}


def batch_norms() -> dict[str, Callable[[Any], Any]]:
    """Evaluation of a batch norm with the same numbers, by every library, this project's reference among
    them.
    """
    import equinox
    from flax import linen, nnx

    from flowref.reference import BatchNorm

    rng = np.random.default_rng(9)
    weight, bias, mean = (rng.standard_normal(SIZE) for _ in range(3))
    var, eps = rng.uniform(0.5, 2.0, SIZE), 1e-3
    given = {"weight": weight, "bias": bias, "running_mean": mean, "running_var": var}

    def torch_like(layer: Any) -> Callable[[Any], Any]:
        with torch.no_grad():
            for name, value in given.items():
                getattr(layer, name).copy_(torch.from_numpy(value))
        layer.eval()
        return lambda x: plain(layer(torch.from_numpy(x)))

    flat = linen.BatchNorm(use_running_average=True, epsilon=eps)
    variables = {
        "params": {"scale": weight, "bias": bias},
        "batch_stats": {"mean": mean, "var": var},
    }
    held = nnx.BatchNorm(SIZE, epsilon=eps, use_running_average=True, rngs=nnx.Rngs(0))
    held.scale, held.bias = nnx.Param(jnp.asarray(weight)), nnx.Param(jnp.asarray(bias))
    held.mean, held.var = nnx.BatchStat(jnp.asarray(mean)), nnx.BatchStat(jnp.asarray(var))
    layer, state = equinox.nn.make_with_state(equinox.nn.BatchNorm)(
        SIZE, "batch", eps=eps, mode="batch"
    )
    layer = equinox.nn.inference_mode(
        equinox.tree_at(
            lambda one: (one.weight, one.bias), layer, (jnp.asarray(weight), jnp.asarray(bias))
        )
    )
    state = state.set(layer.batch_state_index, (jnp.asarray(mean), jnp.asarray(var)))
    return {
        "torch": torch_like(torch.nn.BatchNorm1d(SIZE, eps=eps)),
        "reference": torch_like(BatchNorm(SIZE, eps=eps)),
        "linen": lambda x: flat.apply(variables, jnp.asarray(x)),
        "nnx": lambda x: held(jnp.asarray(x)),
        "equinox": lambda x: jax.vmap(lambda row: layer(row, state)[0], axis_name="batch")(
            jnp.asarray(x)
        ),
        "formula": lambda x: (x - mean) / np.sqrt(var + eps) * weight + bias,
    }


def test_batch_norms_agree() -> None:
    """In evaluation all are one affine map."""
    x = points(10)
    values = {name: run(x) for name, run in batch_norms().items()}
    apart = {name: gap(value, values["formula"]) for name, value in values.items()}
    assert {name: size for name, size in apart.items() if size >= NEAR} == {}


@pytest.mark.parametrize("size", SIZES)
def test_another_variance_is_seen(size: float) -> None:
    """Variances that are off by so much are no agreement."""
    x, known = points(10), batch_norms()
    off = known["formula"](x) * (1 + size / 2)
    assert gap(off, known["torch"](x)) > NEAR
