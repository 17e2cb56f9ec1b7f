"""Noise processes in JAX: the forms of the laws' tests, and those in which users of JAX write them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")
pytest.importorskip("equinox", reason="the modules are equinox's")

import equinox as eqx
import jax
import jax.numpy as jnp

from flowref import check
from flowref.adapters.user.jax.adapter import recognizes
from flowref.model import Status
from laws import process_forms
from rows import one_of_each

MOMENTS, SCHEDULE, RATES = "process/moments", "process/schedule", "process/rates"
FUNCTIONS, CONVERSIONS = "process/schedule[functions]", "process/conversions"
PRIOR = "process/prior"


def batch_mul(a: Any, b: Any) -> Any:
    """A number for each point times the point."""
    return jax.vmap(lambda a, b: a * b)(a, b)


class Preserving:
    """Drift and diffusion of a batch of points at times, with a prior of its own."""

    def __init__(self, wrong: bool = False) -> None:
        self.beta_0, self.beta_1, self.wrong = 0.1, 20.0, wrong

    @property
    def T(self) -> int:
        """The last time."""
        return 1

    def sde(self, x: Any, t: Any) -> Any:
        """Drift and diffusion."""
        beta_t = self.beta_0 + t * (self.beta_1 - self.beta_0)
        return -0.5 * batch_mul(beta_t, x), beta_t if self.wrong else jnp.sqrt(beta_t)

    def marginal_prob(self, x: Any, t: Any) -> Any:
        """Mean and deviation."""
        log_mean = -0.25 * t**2 * (self.beta_1 - self.beta_0) - 0.5 * t * self.beta_0
        return batch_mul(jnp.exp(log_mean), x), jnp.sqrt(1 - jnp.exp(2 * log_mean))

    def prior_sampling(self, rng: Any, shape: Any) -> Any:
        """Noise."""
        return (1.2 if self.wrong else 1.0) * jax.random.normal(rng, shape)

    def prior_logp(self, z: Any) -> Any:
        """Its log-density."""
        return jax.scipy.stats.norm.logpdf(z).reshape(len(z), -1).sum(1)


class OneEvent(eqx.Module):  # type: ignore[misc]  # equinox is not looked into
    """Drift and diffusion of one event at one time, which are compiled."""

    wrong: bool = False

    @eqx.filter_jit  # type: ignore[untyped-decorator]  # not looked into
    def sde(self, x: Any, t: Any) -> Any:
        """Drift and diffusion."""
        beta = 0.1 + 19.9 * t.reshape(())
        return -0.5 * beta * x, beta if self.wrong else jnp.sqrt(beta)

    @eqx.filter_jit  # type: ignore[untyped-decorator]  # not looked into
    def marginal_prob(self, x: Any, t: Any) -> Any:
        """Mean and deviation."""
        whole = (0.1 * t + 9.95 * t**2).reshape(())
        return jnp.exp(-0.5 * whole) * x, jnp.sqrt(-jnp.expm1(-whole))


class Steps:
    """Arrays of a schedule, and data from the noise."""

    def __init__(self, wrong: bool = False) -> None:
        self.num_timesteps, self.wrong = 50, wrong
        self.betas = jnp.linspace(1e-4, 0.02, 50)
        self.alphas_cumprod = jnp.cumprod(1 - self.betas)
        self.sqrt_alphas_cumprod = jnp.sqrt(self.alphas_cumprod)
        left = 1 - self.alphas_cumprod
        self.sqrt_one_minus_alphas_cumprod = left if wrong else jnp.sqrt(left)

    def q_sample(self, x_start: Any, t: Any, noise: Any) -> Any:
        """Data with noise."""
        left = self.sqrt_one_minus_alphas_cumprod[t]
        return self.sqrt_alphas_cumprod[t][:, None] * x_start + left[:, None] * noise

    def predict_start_from_noise(self, x_t: Any, t: Any, noise: Any) -> Any:
        """Data from the noise."""
        left = jnp.sqrt(1 - self.alphas_cumprod[t])
        return (x_t - left[:, None] * noise) / self.sqrt_alphas_cumprod[t][:, None]


class Rates(eqx.Module):  # type: ignore[misc]  # equinox is not looked into
    """Rates of tokens, compiled, at one time."""

    wrong: bool = False
    vocab_size: int = 4

    @jax.jit  # type: ignore[untyped-decorator]  # not looked into
    def rate_matrix(self, t: float) -> Any:
        """The rates."""
        rates = jnp.ones((4, 4)) / 4 - jnp.eye(4)
        return (1 + t) * jnp.where(self.wrong, -rates, rates)


class Ratio(eqx.Module):  # type: ignore[misc]  # equinox is not looked into
    """Shares of data and noise of a number, with the logarithm of their ratio."""

    slope: Any
    wrong: bool = eqx.field(static=True, default=False)

    def __init__(self, wrong: bool = False) -> None:
        self.slope, self.wrong = jnp.array(12.0), wrong

    def alpha(self, t: Any) -> Any:
        """The share of data."""
        return jnp.sqrt(jax.nn.sigmoid(8 - self.slope * t))

    def sigma(self, t: Any) -> Any:
        """The share of noise."""
        return jnp.sqrt(jax.nn.sigmoid(self.slope * t - 8))

    def log_snr(self, t: Any) -> Any:
        """The logarithm."""
        return 8 - self.slope * (t**2 if self.wrong else t)


FORMS = (
    (Preserving, MOMENTS),
    (Preserving, PRIOR),
    (OneEvent, MOMENTS),
    (Steps, SCHEDULE),
    (Steps, CONVERSIONS),
    (Rates, RATES),
    (Ratio, FUNCTIONS),
)
# Those of other frameworks as well; each law once by default.
SHARED = one_of_each(process_forms.FORMS, lambda row: row[1])


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize(("kind", "law"), [*FORMS, *SHARED])
def test_a_process_is_read_and_judged(kind: Any, law: str, wrong: bool) -> None:
    """What is right holds, and what is wrong is violated."""
    assert check(kind(wrong), law).status is (Status.VIOLATED if wrong else Status.HOLDS)


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _ in (*FORMS, *process_forms.FORMS)))
def test_functions_of_time_are_no_map(kind: Any) -> None:
    """Functions of time, and methods of data and a time, are not read as a bijection or its inverse."""
    dialect = recognizes(kind())
    assert dialect is not None
    assert dialect.is_process


@pytest.mark.parametrize(("kind", "law", "status"), process_forms.UNRELATED)
def test_what_is_unrelated_is_not_compared(kind: Any, law: str, status: str) -> None:
    """What a law would compare is something else there."""
    assert check(kind(), law).status is Status[status]
