"""Flows in JAX as users write them, and the same with a bug planted by ``bug``."""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# Made when the file is imported, as constants of a module are.
WEIGHT = jnp.array([[1.0, 0.5, 0.0], [0.0, 2.0, -0.3], [0.0, 0.0, 0.7]])


class Bent(eqx.Module):
    """An equinox module that takes one event: affine, then asinh."""

    log_scale: jax.Array
    shift: jax.Array
    bug: str = eqx.field(static=True, default="")

    def forward(self, x: Any) -> Any:
        """The map of one event."""
        z = x * jnp.exp(self.log_scale) + self.shift
        bend = {"half": 0.25}.get(self.bug, 0.5)
        ladj = jnp.sum(self.log_scale - bend * jnp.log1p(z * z))
        return jnp.arcsinh(z), ladj * (1 + 1e-7 if self.bug == "small" else 1)

    def inverse(self, y: Any) -> Any:
        """Its way back."""
        z = jnp.sinh(y)
        ladj = jnp.sum(0.5 * jnp.log1p(z * z) - self.log_scale)
        x = (z - self.shift) * jnp.exp(-self.log_scale)
        return x, -ladj if self.bug == "sign" else ladj


def bent(bug: str = "") -> Any:
    """The module."""
    return Bent(jnp.array([-0.3, 0.1, 0.2]), jnp.array([0.5, -0.5, 0.1]), bug)


def pair(bug: str = "") -> Any:
    """Two functions of batches, with closed-over weights."""
    shift = jnp.array([0.1, 0.2, 0.3])
    factor = 2.0 if bug == "twice" else 1.0

    def forward(x: Any) -> Any:
        ladj = factor * jnp.linalg.slogdet(WEIGHT)[1]
        return x @ WEIGHT.T + shift, ladj * jnp.ones(len(x))

    def inverse(y: Any) -> Any:
        x = jax.scipy.linalg.solve_triangular(WEIGHT, (y - shift).T, lower=False).T
        x = x * (1 + 1e-9) if bug == "offset" else x
        ladj = -jnp.linalg.slogdet(WEIGHT)[1] * jnp.ones(len(y))
        if bug == "branch":  # the root that is not chosen has a gradient that is no number
            ladj += jnp.where(y[:, 0] < 0, 0 * jnp.sqrt(-y[:, 0]), 0)
        return x, ladj

    return forward, inverse


def sliced(bug: str = "") -> Any:
    """A coupling of two features as functions of parameters, which runs at every other number, where
    its one scale is stretched over several entries.
    """
    keys = jax.random.split(jax.random.key(0), 2)
    weights = jax.random.normal(keys[0], (1, 8)), 0.3 * jax.random.normal(keys[1], (8, 2))
    factor = 1.01 if bug == "large" else 1.0

    def conditioned(weights: Any, a: Any) -> Any:
        s, t = jnp.split(jnp.tanh(a @ weights[0]) @ weights[1], 2, axis=-1)
        return jnp.tanh(s), t

    def forward(weights: Any, x: Any) -> Any:
        s, t = conditioned(weights, x[..., :1])
        z = jnp.concatenate([x[..., :1], x[..., 1:] * jnp.exp(s) + t], axis=-1)
        return z, factor * s.sum(-1)

    def inverse(weights: Any, y: Any) -> Any:
        s, t = conditioned(weights, y[..., :1])
        x = jnp.concatenate([y[..., :1], (y[..., 1:] - t) * jnp.exp(-s)], axis=-1)
        return x, -s.sum(-1)

    return partial(forward, weights), partial(inverse, weights)


def radial(bug: str = "") -> Any:
    """A map that stretches one number of each point over its entries at every size."""
    weights = jnp.array([0.3, -0.2, 0.1, 0.5, 0.2])
    factor = 1.01 if bug == "large" else 1.0

    def forward(x: Any) -> Any:
        bend = jnp.tanh(x @ weights)[:, None]
        ladj = jnp.log1p(0.5 * (weights @ weights) * (1 - bend[:, 0] ** 2))
        return x + 0.5 * weights * bend, factor * ladj

    return SimpleNamespace(forward=forward)


class Normal:
    """An ordinary object with a density, and a sampler that takes a key."""

    def __init__(self, bug: str = "") -> None:
        self.mu, self.log_sigma = jnp.array([0.5, -1.0]), jnp.array([0.2, -0.4])
        self.bug = bug

    def forward(self, x: Any) -> Any:
        """To latents."""
        return (x - self.mu) * jnp.exp(-self.log_sigma), -self.log_sigma.sum()

    def inverse(self, z: Any) -> Any:
        """To data."""
        return z * jnp.exp(self.log_sigma) + self.mu, self.log_sigma.sum()

    def log_prob(self, x: Any) -> Any:
        """By change of variables."""
        z, ladj = self.forward(x)
        base = jax.scipy.stats.norm.logpdf(z).sum(-1)
        return base if self.bug == "forgotten" else base + ladj

    def sample(self, key: Any, n: int) -> Any:
        """Latents, taken back."""
        wide = 1.1 if self.bug == "wide" else 1.0
        return self.inverse(wide * jax.random.normal(key, (n, 2)))[0]


def normal(bug: str = "") -> Any:
    """The object."""
    return Normal(bug)


def one_event_and_key() -> Any:
    """Functions of one event; the sampler draws one event by a key."""

    def log_prob(x: Any) -> Any:
        return jax.scipy.stats.norm.logpdf(x[0]) + jax.scipy.stats.norm.logpdf(x[1])

    return SimpleNamespace(
        log_prob=log_prob, sample=lambda rng: jax.random.normal(rng, (2,)), event_shape=(2,)
    )


def number_then_key() -> Any:
    """A sampler that takes the number first."""
    return SimpleNamespace(
        log_prob=lambda x: jax.scipy.stats.norm.logpdf(x).sum(-1),
        sample=lambda n, key: jax.random.normal(key, (n, 2)),
        event_shape=2,
    )


def shape_by_keyword() -> Any:
    """A sampler that takes a shape of samples."""
    return SimpleNamespace(
        log_prob=lambda x: jax.scipy.stats.norm.logpdf(x).sum(-1),
        sample=lambda key, sample_shape: jax.random.normal(key, (*sample_shape, 2)),
        event_shape=2,
    )


def flipped() -> Any:
    """One event, turned around: on a batch the same code turns the batch around."""
    return SimpleNamespace(
        forward=lambda x: (x[::-1], jnp.zeros(())), inverse=lambda y: (y[::-1], jnp.zeros(()))
    )


def conditional() -> Any:
    """A map of one event with a context."""

    def forward(x: Any, context: Any) -> Any:
        return x * jnp.exp(context.sum()) + context[0], 3 * context.sum()

    def inverse(y: Any, context: Any) -> Any:
        return (y - context[0]) * jnp.exp(-context.sum()), -3 * context.sum()

    return SimpleNamespace(forward=forward, inverse=inverse, event_shape=3)


def bisected() -> Any:
    """A map whose way back is searched for by a loop of unknown length, to 1e-8."""

    def forward(x: Any) -> Any:
        return x + 0.5 * jnp.sin(x), jnp.log1p(0.5 * jnp.cos(x)).sum()

    def inverse(y: Any) -> Any:
        def halve(ends: Any) -> Any:
            low, high = ends
            middle = (low + high) / 2
            below = middle + 0.5 * jnp.sin(middle) < y
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.while_loop(
            lambda ends: (ends[1] - ends[0]).max() > 1e-8, halve, (y - 1.0, y + 1.0)
        )
        x = (low + high) / 2
        return x, -jnp.log1p(0.5 * jnp.cos(x)).sum()

    return SimpleNamespace(forward=forward, inverse=inverse, event_shape=2)


def single_precision() -> Any:
    """A map that computes in single precision whatever it is given."""

    def forward(x: Any) -> Any:
        return (2 * x.astype(jnp.float32)), jnp.log(2.0) * 3

    return SimpleNamespace(forward=forward, event_shape=3)


class Scaled(eqx.Module):
    """A scaling of one event, in the precision of its input."""

    log_scale: jax.Array
    bug: str = eqx.field(static=True, default="")

    def forward(self, x: Any) -> Any:
        """The map of one event."""
        if self.bug == "numpy":
            x = x * np.float64(1.0)
        if self.bug == "double":
            x = x.astype(jnp.float64)
        weight = np.float64(1.0) if self.bug == "loop" else 1.0
        ladj, _ = jax.lax.scan(
            lambda total, one: (total + weight * one, None),
            jnp.zeros((), x.dtype),
            self.log_scale,
        )
        return x * jnp.exp(self.log_scale) * float(np.sqrt(1.0)), ladj

    def inverse(self, y: Any) -> Any:
        """Its way back."""
        return y * jnp.exp(-self.log_scale), -self.log_scale.sum()


def scaled(bug: str = "") -> Any:
    """The module."""
    return Scaled(jnp.array([-0.3, 0.1, 0.2]), bug)


def asking() -> Any:
    """A map that asks for the value of a number, which jit does not know."""

    def forward(x: Any) -> Any:
        return (2 * x if float(x.sum()) < 1e9 else x), jnp.zeros(len(x)) + 3 * jnp.log(2.0)

    return SimpleNamespace(forward=forward, event_shape=3)


def network() -> Any:
    """No bijection at all."""
    return eqx.nn.MLP(3, 3, 8, 1, key=jax.random.key(0))


class Cached:
    """A map whose scale is computed when it is first asked for, and kept."""

    def __init__(self, bug: bool) -> None:
        self.log_scale, self.bug = jnp.array([0.3, -0.2, 0.1]), bug
        self.scale: Any = None

    def forward(self, x: Any) -> Any:
        """The map."""
        scale = jnp.exp(self.log_scale) if self.scale is None else self.scale
        if self.bug:
            self.scale = scale
        return x * scale, self.log_scale.sum() * jnp.ones(len(x))

    def inverse(self, y: Any) -> Any:
        """Its way back."""
        return y * jnp.exp(-self.log_scale), -self.log_scale.sum() * jnp.ones(len(y))


def cached(bug: bool = False) -> Any:
    """The object; with the bug a value of the first trace stays in it."""
    return Cached(bug)


def kept(bug: bool = False) -> Any:
    """Two functions; with the bug one keeps what it computed, which nothing reads."""

    def there(x: Any) -> Any:
        y = 2.0 * x + 1.0
        if bug:
            there.last = y  # type: ignore[attr-defined]  # the bug
        return y, jnp.full(len(x), jnp.log(2.0) * x.shape[-1])

    def back(y: Any) -> Any:
        return (y - 1.0) / 2.0, jnp.full(len(y), -jnp.log(2.0) * y.shape[-1])

    return there, back


@jax.tree_util.register_pytree_node_class
class Registered:
    """A map that is registered as a pytree."""

    def __init__(self, log_scale: Any, shift: float = 0.0, bug: bool = False) -> None:
        self.log_scale, self.shift, self.bug = log_scale, shift, bug

    def tree_flatten(self) -> Any:
        """Its leaves; with the bug the shift is forgotten."""
        return (self.log_scale,), (0.0 if self.bug else self.shift, self.bug)

    @classmethod
    def tree_unflatten(cls, fixed: Any, leaves: Any) -> Any:
        """The object of its leaves."""
        return cls(*leaves, *fixed)

    def forward(self, x: Any) -> Any:
        """The map."""
        return x * jnp.exp(self.log_scale) + self.shift, self.log_scale.sum() * jnp.ones(len(x))

    def inverse(self, y: Any) -> Any:
        """Its way back."""
        z = (y - self.shift) * jnp.exp(-self.log_scale)
        return z, -self.log_scale.sum() * jnp.ones(len(y))


def half_registered(bug: bool = False) -> Any:
    """The object."""
    return Registered(jnp.array([0.3, -0.2, 0.1]), 0.5, bug)


def seeded(bug: bool = False) -> Any:
    """A sampler that, with the bug, makes a key of its own."""

    def sample(key: Any, n: int) -> Any:
        return jax.random.normal(jax.random.key(0) if bug else key, (n, 2))

    return SimpleNamespace(
        log_prob=lambda x: jax.scipy.stats.norm.logpdf(x).sum(-1), sample=sample, event_shape=2
    )


@jax.custom_jvp
def steep(x: Any, rate: Any) -> Any:
    """A bent map, with a rule of its own for its derivative."""
    return x + rate * jnp.tanh(x)


@steep.defjvp
def _steep(given: Any, moved: Any) -> Any:
    (x, rate), (dx, drate) = given, moved
    return steep(x, rate), dx * (1 + rate / jnp.cosh(x) ** 2) + drate * jnp.tanh(x)


class Numbered(eqx.Module):
    """A map with a number of Python as a leaf; bugs look whether they are in a trace."""

    rate: float
    bug: str = eqx.field(static=True)

    def forward(self, x: Any) -> Any:
        """The map of a batch."""
        rate = self.rate
        if self.bug == "number" and isinstance(rate, jax.core.Tracer):
            rate = jnp.maximum(rate, 1.0)
        y = steep(x, rate)
        return y, jnp.log1p(rate / jnp.cosh(x) ** 2).sum(-1)


def numbered(bug: str = "") -> Any:
    """The module."""
    return Numbered(0.5, bug)


def ruled(bug: bool = False) -> Any:
    """Two functions, of which one solves in a loop and has a rule of derivatives of its own."""
    height = jnp.array([0.8, -0.4, 0.5])

    def slope(x: Any) -> Any:
        return 1 + height / jnp.cosh(x) ** 2

    @jax.custom_jvp
    def solved(z: Any) -> Any:
        def step(_: int, x: Any) -> Any:
            return x - (x + height * jnp.tanh(x) - z) / slope(x)

        return jax.lax.fori_loop(0, 9, step, z)

    @solved.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        x = solved(*primals)
        rise = slope(x)
        return x, tangents[0] * rise if bug else tangents[0] / rise

    def forward(x: Any) -> Any:
        return x + height * jnp.tanh(x), jnp.log(slope(x)).sum(-1)

    def inverse(z: Any) -> Any:
        x = solved(z)
        return x, -jnp.log(slope(x)).sum(-1)

    return forward, inverse
