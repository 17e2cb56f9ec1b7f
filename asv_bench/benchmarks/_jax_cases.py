"""Flows in JAX as their libraries build them, at the sizes of those in torch: what is called, and what it
computes.

A library's own networks are part of what is measured: of the widths of the others, with weights of its
own. What a case computes is compared with the change of variables by autodiff's Jacobian.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._sizes import VECTORS, Architecture

BINS, BOUND = 8, 3.0
# Rows whose densities are compared, and by how much float32 through all layers may be off.
ROWS, AGREEMENT = 4, 2e-3


@dataclass(frozen=True)
class Model:
    """A flow as functions of its parameters: ``log_prob(parameters, x)``, ``sample(parameters, key, n)``,
    ``latent(parameters, x)``: one event on its way to the base.
    """

    parameters: Any
    log_prob: Callable[[Any, Any], Any]
    sample: Callable[[Any, Any, int], Any]
    latent: Callable[[Any, Any], Any]


def one_thread() -> None:
    """Compute on the CPU on one thread; said before JAX is imported."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()


def flowjax_flow(kind: str, architecture: Architecture) -> Model:
    """Its coupling and masked autoregressive flows, whose layers are scanned, each with a permutation."""
    import equinox as eqx
    import flowjax.bijections as fb
    import flowjax.distributions as fd
    import flowjax.flows as ff
    import jax

    (features,), width = architecture.event, architecture.hidden[0]
    build = ff.masked_autoregressive_flow if kind == "maf" else ff.coupling_flow
    more = (
        {"transformer": fb.RationalQuadraticSpline(knots=BINS, interval=BOUND)}
        if kind == "spline"
        else {}
    )
    flow = build(
        jax.random.key(0),
        base_dist=fd.StandardNormal((features,)),
        flow_layers=architecture.depth,
        nn_width=width,
        nn_depth=len(architecture.hidden),
        **more,
    )
    parameters, rest = eqx.partition(flow, eqx.is_inexact_array)

    def whole(parameters: Any) -> Any:
        return eqx.combine(parameters, rest)

    return Model(
        parameters,
        lambda p, x: whole(p).log_prob(x),
        lambda p, key, n: whole(p).sample(key, (n,)),
        lambda p, x: whole(p).bijection.inverse(x),
    )


def bijx_flow(kind: str, architecture: Architecture) -> Model:
    """Its couplings of every other entry, with residual networks; latents to data is its forward."""
    import bijx
    import jax
    import jax.numpy as jnp
    from flax import nnx

    (features,), rngs = architecture.event, nnx.Rngs(0)
    options = {
        "n_coupling_layers": architecture.depth,
        "width": architecture.hidden[0],
        "depth": len(architecture.hidden),
        "final_kernel_init": nnx.initializers.normal(0.01),
        "rngs": rngs,
    }
    chain = (
        bijx.coupling_flow(
            features, lambda rngs: bijx.MonotoneRQSpline(BINS, (), rngs=rngs), **options
        )
        if kind == "spline"
        else bijx.realnvp_flow(features, **options)
    )
    flow = bijx.Transformed(bijx.IndependentNormal((features,), rngs=rngs), chain)
    structure, parameters, rest = nnx.split(flow, nnx.Param, ...)

    def whole(parameters: Any) -> Any:
        return nnx.merge(structure, parameters, rest)

    def sample(parameters: Any, key: Any, n: int) -> Any:
        z = jax.random.normal(key, (n, features))
        return whole(parameters).bijection.forward(z, jnp.zeros(n))[0]

    return Model(
        parameters,
        lambda p, x: whole(p).log_density(x),
        sample,
        lambda p, x: whole(p).bijection.reverse(x[None], jnp.zeros(1))[0][0],
    )


def numpyro_flow(kind: str, architecture: Architecture) -> Model:
    """Inverse autoregressive transforms, of which sampling is one pass, and a density one for each entry."""
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as nd
    from numpyro.distributions.flows import InverseAutoregressiveTransform
    from numpyro.nn import AutoregressiveNN

    (features,) = architecture.event
    init, apply = AutoregressiveNN(features, list(architecture.hidden))
    parameters = [
        init(jax.random.key(index), (features,))[1] for index in range(architecture.depth)
    ]

    def whole(parameters: Any) -> Any:
        layers = [
            InverseAutoregressiveTransform(functools.partial(apply, one)) for one in parameters
        ]
        base = nd.Normal(jnp.zeros(features), 1.0).to_event(1)
        return nd.TransformedDistribution(base, layers)

    def latent(parameters: Any, x: Any) -> Any:
        for layer in reversed(whole(parameters).transforms):
            x = layer.inv(x)
        return x

    return Model(
        parameters,
        lambda p, x: whole(p).log_prob(x),
        lambda p, key, n: whole(p).sample(key, (n,)),
        latent,
    )


# Family -> the libraries that have it.
FLOWS: dict[str, dict[str, Callable[[str, Architecture], Model]]] = {
    "coupling": {"flowjax": flowjax_flow, "bijx": bijx_flow},
    "spline": {"flowjax": flowjax_flow, "bijx": bijx_flow},
    "maf": {"flowjax": flowjax_flow, "numpyro": numpyro_flow},
}


def agree(model: Model, x: Any) -> None:
    """Raise if densities are not the base's at the latents plus log|det| of autodiff's Jacobian."""
    import jax
    import jax.numpy as jnp

    def expected(point: Any) -> Any:
        z = model.latent(model.parameters, point)
        jacobian = jax.jacrev(lambda one: model.latent(model.parameters, one))(point)
        base = -0.5 * (z**2).sum() - 0.5 * len(z) * math.log(2 * math.pi)
        return base + jnp.linalg.slogdet(jacobian)[1]

    told = np.asarray(jax.jit(model.log_prob)(model.parameters, x))
    truth = np.asarray(jax.jit(jax.vmap(expected))(x))
    error = np.abs(told - truth).max() / (1 + np.abs(truth).max())
    if not error < AGREEMENT:
        raise AssertionError(f"log_prob is off the change of variables by {error:.2g}")


@functools.cache
def built(kind: str, impl: str, size: str) -> Model:
    """A flow, compared with the change of variables; the small one stands for all sizes."""
    one_thread()
    if size != "small":
        built(kind, impl, "small")
        return FLOWS[kind][impl](kind, VECTORS[size])
    model = FLOWS[kind][impl](kind, VECTORS[size])
    agree(model, points(size)[:ROWS])
    return model


def points(size: str) -> Any:
    """Standard normal points."""
    import jax.numpy as jnp

    architecture = VECTORS[size]
    shape = (architecture.batch, *architecture.event)
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape), "float32")


def operation(kind: str, impl: str, op: str, size: str, fresh: bool = False) -> Callable[[], Any]:
    """What is timed: a compiled function of its own, with its inputs, that ends when its results are
    there. Its first call compiles; ``fresh``: all that was traced and compiled before is forgotten.
    """
    model = built(kind, impl, size)
    import jax
    import optax

    if fresh:
        jax.clear_caches()
    x, count = points(size), VECTORS[size].batch
    if op == "log_prob":
        density = jax.jit(lambda p, x: model.log_prob(p, x))
        return lambda: jax.block_until_ready(density(model.parameters, x))
    if op == "sample":
        draw = jax.jit(lambda p, key: model.sample(p, key, count))
        return lambda: jax.block_until_ready(draw(model.parameters, jax.random.key(7)))
    # So small a step that the weights are after thousands of steps what they were.
    adam = optax.adam(1e-9)

    def stepped(parameters: Any, state: Any, x: Any) -> Any:
        loss, slope = jax.value_and_grad(lambda p: -model.log_prob(p, x).mean())(parameters)
        updates, state = adam.update(slope, state)
        return optax.apply_updates(parameters, updates), state, loss

    step = jax.jit(stepped)
    held = [model.parameters, adam.init(model.parameters)]

    def train() -> Any:
        *held[:], loss = step(*held, x)
        return jax.block_until_ready(loss)

    return train
