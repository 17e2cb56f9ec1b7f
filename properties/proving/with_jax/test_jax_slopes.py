"""Gradients of JAX are proved where they are the derivatives, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jax")

from flowref import registry
from flowref.proving import certified

VALUE, WEIGHTS = "gradient/input[value]", "gradient/parameters[value]"
FLOWS = """
import equinox as eqx
import jax
import jax.numpy as jnp


@jax.custom_vjp
def twice(x):
    return jnp.exp(x)


twice.defvjp(lambda x: (jnp.exp(x), x), lambda x, grad: (2 * grad * jnp.exp(x),))


@jax.custom_jvp
def own(x):
    return jnp.exp(x)


own.defjvp(lambda x, t: (jnp.exp(x[0]), t[0] * jnp.exp(x[0])))


class Affine(eqx.Module):
    s: jax.Array
    event_shape = (3,)

    def __init__(self):
        self.s = jnp.asarray([0.3, -0.2, 0.1])

    def scale(self):
        return jnp.exp(self.s)

    def forward(self, x):
        a = self.scale()
        return x * a, jnp.log(a).sum() + 0 * x.sum(-1)


class OwnRule(Affine):
    def scale(self):
        return own(self.s)


class WrongRule(Affine):
    def scale(self):
        return twice(self.s)


class Stopped(Affine):
    def scale(self):
        return jnp.exp(jax.lax.stop_gradient(self.s))


class Cut(Affine):
    def forward(self, x):
        z, told = super().forward(x)
        return z.at[:, 1].add(jnp.sin(x[:, 0])), told


class Held(Affine):
    def forward(self, x):
        z, told = super().forward(x)
        return z + jax.lax.stop_gradient(x) ** 3, told
"""
RIGHT = {
    "Affine": {VALUE, WEIGHTS},
    "OwnRule": {VALUE, WEIGHTS},
    "WrongRule": {VALUE},
    "Stopped": {VALUE},
    "Cut": {VALUE, WEIGHTS},
    "Held": {WEIGHTS},
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_the_derivative_is_proved(name: str, tmp_path: Path) -> None:
    """For all inputs and weights; and of what is none nothing is."""
    (tmp_path / "slopes.py").write_text(FLOWS)
    target = registry.parse_target(f"{tmp_path / 'slopes.py'}:{name}")
    laws = map(registry.find_law, (VALUE, WEIGHTS))
    found = {one.statement: one.proof for one in certified(target, laws)}
    assert {law for law, proof in found.items() if proof.proved} == RIGHT[name], found
