"""Styles in which JAX is written besides those of `forms`: densities as functions, samplers that take their
parameters anywhere, masks in single precision, classes of users that derive from a library's. ``bug`` plants one.
"""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import flowjax.bijections as fb
import jax
import jax.numpy as jnp

NORMAL = {"loc": jnp.array([0.5, -1.0]), "log_scale": jnp.array([0.2, -0.4])}


def log_prob(params: Any, x: Any) -> Any:
    """The log-density of a normal distribution of two numbers."""
    z = (x - params["loc"]) * jnp.exp(-params["log_scale"])
    return jax.scipy.stats.norm.logpdf(z).sum(-1) - params["log_scale"].sum()


def functions_of_density(bug: bool = False) -> Any:
    """(parameters, log_prob, sample), with the shape of samples."""

    def sample(params: Any, key: Any, shape: Any) -> Any:
        scale = jnp.exp(params["log_scale"] * (0.0 if bug else 1.0))
        return params["loc"] + scale * jax.random.normal(key, (*shape, 2))

    return NORMAL, log_prob, sample


def key_first(bug: bool = False) -> Any:
    """(parameters, log_prob, sample), where the parameters stand behind the key."""

    def sample(rng: Any, params: Any, num_samples: int = 1) -> Any:
        scale = jnp.exp(params["log_scale"] * (0.0 if bug else 1.0))
        return params["loc"] + scale * jax.random.normal(rng, (num_samples, 2))

    return NORMAL, log_prob, sample


def nameless(bug: bool = False) -> Any:
    """Two functions without names, of which one takes a key and a number."""
    draw = functions_of_density(bug)[2]
    return (lambda x: log_prob(NORMAL, x)), (lambda key, n: draw(NORMAL, key, (n,)))


def likelihood(bug: bool = False) -> Any:
    """(parameters, log_likelihood, generate), by names that stand in no other style."""

    def log_likelihood(params: Any, x: Any) -> Any:
        return log_prob(params, x)

    def generate(params: Any, key: Any, n: Any) -> Any:
        return functions_of_density(bug)[2](params, key, (n,))

    return NORMAL, log_likelihood, generate


def scored() -> Any:
    """Beside a sampler a function of which the name tells nothing."""

    def score(params: Any, x: Any) -> Any:
        return log_prob(params, x)

    return NORMAL, score, likelihood()[2]


class Axes:
    """A map whose log-det asks how many axes an event has, as those of TFP do."""

    def __init__(self, bug: bool) -> None:
        self.slope, self.bug = jnp.array([0.7, 0.5]), bug

    def forward(self, x: Any) -> Any:
        """The map."""
        return jnp.sinh(self.slope * x)

    def inverse(self, y: Any) -> Any:
        """Its way back."""
        return jnp.arcsinh(y) / self.slope

    def forward_log_det_jacobian(self, x: Any, event_ndims: int) -> Any:
        """Summed over the last axes."""
        ladj = jnp.log(self.slope) + jnp.log(jnp.cosh(self.slope * x))
        return (ladj / 2 if self.bug else ladj).sum(tuple(range(-event_ndims, 0)))


def axes(bug: bool = False) -> Any:
    """That map."""
    return Axes(bug)


class Masked(eqx.Module):
    """A coupling by a mask that is made in single precision."""

    weight: jax.Array
    bug: bool = eqx.field(static=True)

    def forward(self, x: Any) -> Any:
        """The map of a batch."""
        mask = (jnp.arange(4) % 2).astype(jnp.float32)
        s = jnp.tanh(x * mask @ self.weight) * (1 - mask)
        half = jnp.exp(s.astype(jnp.float32)) if self.bug else jnp.exp(s)
        return mask * x + (1 - mask) * x * half, s.sum(-1)


def masked(bug: bool = False) -> Any:
    """That coupling."""
    return Masked(jax.random.normal(jax.random.key(0), (4, 4)) / 2, bug)


def maker(rng: Any, features: int) -> Any:
    """What makes parameters and functions of a key."""
    return functions_of_density()


def unmade() -> Any:
    """The function itself."""
    return maker


def onto_sphere() -> Any:
    """A map onto a surface of more entries."""

    def forward(x: Any) -> Any:
        more = jnp.concatenate([x, jnp.ones_like(x[..., :1])], -1)
        return more / jnp.linalg.norm(more, axis=-1, keepdims=True), x.sum(-1)

    return forward


class Losing:
    """A pytree that leaves one of its attributes out."""

    def __init__(self, slope: Any) -> None:
        self.slope, self.power = slope, 1.0

    def forward(self, x: Any) -> Any:
        """The map of a batch."""
        return x * self.slope, self.power * jnp.log(self.slope).sum() * jnp.ones(len(x))


jax.tree_util.register_pytree_node(
    Losing, lambda one: ((one.slope,), None), lambda _, leaves: unmade_losing(*leaves)
)


def unmade_losing(slope: Any) -> Losing:
    """The object without what `__init__` adds."""
    made = object.__new__(Losing)
    made.slope = slope
    return made


def losing() -> Any:
    """That pytree."""
    return Losing(jnp.array([1.5, 0.5]))


class Estimated(eqx.Module):
    """A residual block whose log-det is estimated by a key; it is a contraction as it is built."""

    weight: jax.Array
    event_shape = (4,)
    estimator = True

    def forward(self, x: Any, key: Any) -> Any:
        """The map of a batch."""
        y, push = jax.linearize(lambda x: jnp.tanh(x @ self.weight), x)
        probe = jax.random.rademacher(key, x.shape).astype(x.dtype)
        ladj, u = 0.0, probe
        for k in range(1, 9):
            u = push(u)
            ladj = ladj - (-1) ** k / k * (u * probe).sum(-1)
        return x + y, ladj


def estimated() -> Any:
    """That block."""
    weight = jax.random.normal(jax.random.key(2), (4, 4))
    return Estimated(weight / jnp.linalg.norm(weight) * 0.4)


class Searching(fb.AbstractBijection):
    """A user's bijection of FlowJAX that goes back by a loop of unknown length, to 1e-7."""

    shape: tuple[int, ...] = (3,)
    cond_shape: ClassVar[None] = None
    bug: bool = eqx.field(static=True, default=False)

    def transform_and_log_det(self, x: Any, condition: Any = None) -> Any:
        """The map of one event."""
        return x + jnp.tanh(x) / 2, jnp.log1p((1 - jnp.tanh(x) ** 2) / 2).sum()

    def inverse_and_log_det(self, y: Any, condition: Any = None) -> Any:
        """Its way back, by fixed-point iteration."""
        least = 1e-2 if self.bug else 1e-7
        x = jax.lax.while_loop(
            lambda two: jnp.abs(two[0] - two[1]).max() > least,
            lambda two: (y - jnp.tanh(two[0]) / 2, two[0]),
            (y, y + 1),
        )[0]
        return x, -jnp.log1p((1 - jnp.tanh(x) ** 2) / 2).sum()


def searching(bug: bool = False) -> Any:
    """That bijection."""
    return Searching(bug=bug)


def transformed(bug: bool = False) -> Any:
    """Functions as haiku transforms them: the key stands before the points."""
    params = {"scale": jnp.array([0.3, -0.2, 0.1]), "shift": jnp.array([0.1, 0.2, 0.3])}

    def apply(params: Any, rng: Any, x: Any) -> Any:
        ladj = params["scale"].sum() * (1.1 if bug else 1.0)
        return x * jnp.exp(params["scale"]) + params["shift"], jnp.full(len(x), ladj)

    def back(params: Any, rng: Any, y: Any) -> Any:
        x = (y - params["shift"]) * jnp.exp(-params["scale"])
        return x, jnp.full(len(y), -params["scale"].sum())

    return params, apply, back
