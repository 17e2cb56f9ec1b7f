"""Flows in JAX that solve, search or draw: a field integrated by a scan, an inverse found by bisection,
calls that want a key.
"""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="misc"

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Integrated(eqx.Module):
    """A continuous flow by the method of Runge and Kutta, with the trace of its field; of one event."""

    w: jax.Array
    v: jax.Array
    steps: int = eqx.field(static=True, default=6)
    factor: float = eqx.field(static=True, default=1.0)

    def rate(self, state: Any) -> Any:
        """The field and its trace."""

        def field(x: Any) -> Any:
            return jnp.tanh(self.w @ x) @ self.v

        return field(state[0]), self.factor * jnp.trace(jax.jacfwd(field)(state[0]))

    def solved(self, x: Any, h: float) -> Any:
        """All steps, each so long."""

        def step(state: Any, _: Any) -> Any:
            def ahead(k: Any, c: float) -> Any:
                return state[0] + c * k[0], state[1] + c * k[1]

            k1 = self.rate(state)
            k2 = self.rate(ahead(k1, h / 2))
            k3 = self.rate(ahead(k2, h / 2))
            k4 = self.rate(ahead(k3, h))
            sums = [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
            return ahead(sums, h / 6), None

        end, _ = jax.lax.scan(step, (x, jnp.zeros((), x.dtype)), None, length=self.steps)
        return end

    def forward(self, x: Any) -> Any:
        """There."""
        return self.solved(x, 1 / self.steps)

    def inverse(self, y: Any) -> Any:
        """And back."""
        return self.solved(y, -1 / self.steps)


def integrated(bug: bool = False, steps: int = 6) -> Any:
    """With a bug, a trace that is off by a thousandth."""
    w = jnp.sin(jnp.arange(12.0).reshape(6, 2))
    return Integrated(
        w, 0.6 * jnp.cos(jnp.arange(12.0).reshape(6, 2)), steps, 1.001 if bug else 1.0
    )


class OneWay:
    """What a likelihood needs of such a flow: the way to the base alone, of one event."""

    def __init__(self, bug: bool = False) -> None:
        self.flow = integrated(bug, 16)

    def forward(self, x: Any) -> Any:
        """There."""
        return self.flow.forward(x)


class Written(eqx.Module):
    """The same in two steps, of which nothing but its code tells; of one event."""

    w: jax.Array
    v: jax.Array
    bug: bool = eqx.field(static=True, default=False)

    def forward(self, x: Any) -> Any:
        """There."""
        return Integrated(self.w, self.v, 2).forward(x)

    def inverse(self, y: Any) -> Any:
        """And back; with a bug, on."""
        return self.forward(y) if self.bug else Integrated(self.w, self.v, 2).inverse(y)


def written(bug: bool = False) -> Any:
    """A solver whose steps no attribute tells."""
    w = jnp.sin(jnp.arange(12.0).reshape(6, 2))
    return Written(w, 0.6 * jnp.cos(jnp.arange(12.0).reshape(6, 2)), bug)


class Misnamed(Written):
    """What is called steps is none of the two that it takes."""

    training_steps = 100


def misnamed() -> Any:
    """A solver whose steps no attribute tells, beside a number that is called so."""
    plain = written()
    return Misnamed(plain.w, plain.v)


class OfClass(eqx.Module):
    """The same in steps that are a number of its class."""

    w: jax.Array
    v: jax.Array
    factor: float = eqx.field(static=True)
    steps = 6

    def forward(self, x: Any) -> Any:
        """There."""
        return Integrated(self.w, self.v, self.steps, self.factor).forward(x)

    def inverse(self, y: Any) -> Any:
        """And back."""
        return Integrated(self.w, self.v, self.steps, self.factor).inverse(y)


class Ordinary:
    """The same in an object that is no pytree."""

    steps = 6

    def __init__(self, w: Any, v: Any, factor: float) -> None:
        self.w, self.v, self.factor = w, v, factor

    forward, inverse = OfClass.forward, OfClass.inverse


@jax.tree_util.register_pytree_node_class
class Registered(Ordinary):
    """The same in a pytree, which keeps nothing but its leaves."""

    def tree_flatten(self) -> Any:
        """Its leaves."""
        return (self.w, self.v), self.factor

    @classmethod
    def tree_unflatten(cls, factor: Any, leaves: Any) -> Any:
        """The object of its leaves."""
        made: Any = object.__new__(cls)
        made.w, made.v, made.factor = *leaves, factor
        return made


def of_class(bug: bool = False, style: str = "module") -> Any:
    """With a bug, a trace that is off by a hundredth."""
    plain = integrated()
    kind = {"module": OfClass, "ordinary": Ordinary, "registered": Registered}[style]
    return kind(plain.w, plain.v, 1.01 if bug else 1.0)


class Halved(eqx.Module):
    """A monotone map whose inverse is found by halving brackets, as often as it takes; of one event."""

    b: jax.Array

    def forward(self, x: Any) -> Any:
        """x + tanh(x + b)."""
        slope = 1 + 1 / jnp.cosh(x + self.b) ** 2
        return x + jnp.tanh(x + self.b), jnp.log(slope).sum()

    def inverse(self, y: Any) -> Any:
        """Its way back."""

        def wide(ends: Any) -> Any:
            return jnp.any(ends[1] - ends[0] > 4e-16 * (1 + jnp.abs(ends[0]))) & (ends[2] < 99)

        def halve(ends: Any) -> Any:
            low, high, number = ends
            middle = (low + high) / 2
            below = self.forward(middle)[0] < y
            return jnp.where(below, middle, low), jnp.where(below, high, middle), number + 1

        low, high, _ = jax.lax.while_loop(wide, halve, (y - 1, y + 1, 0))
        x = (low + high) / 2
        return x, -self.forward(x)[1]


def halved() -> Any:
    """A search of unknown length."""
    return Halved(jnp.array([0.5, -1.0]))


class Sliced:
    """A layer that forgets an entry, and draws it on the way back."""

    def forward(self, x: Any, key: Any) -> Any:
        """Without its last entry."""
        return x[..., :2], jax.scipy.stats.norm.logpdf(x[..., 2:]).sum(-1)

    def inverse(self, z: Any, key: Any) -> Any:
        """With one that is drawn."""
        drawn = jax.random.normal(key, (*z.shape[:-1], 1))
        ladj = -jax.scipy.stats.norm.logpdf(drawn).sum(-1)
        return jnp.concatenate([z, drawn], -1), ladj


def drawing() -> Any:
    """No bijection."""
    return Sliced()


class Estimated:
    """A log-density that is off by what a key draws."""

    def log_prob(self, x: Any, key: Any) -> Any:
        """With a random sign."""
        exact = jax.scipy.stats.norm.logpdf(x).sum(-1)
        return exact + 0.3 * jax.random.rademacher(key, exact.shape, dtype=x.dtype)

    def sample(self, key: Any, shape: Any) -> Any:
        """A normal distribution."""
        return jax.random.normal(key, (*shape, 2))


def estimated() -> Any:
    """No log-density that laws can be held to."""
    return Estimated()


def dropping() -> Any:
    """Functions that want a key and do not use it, bound to their parameters by `partial`."""

    def log_prob(weights: Any, x: Any, rng: Any) -> Any:
        scaled = (x - weights["m"]) * jnp.exp(-weights["s"])
        return (jax.scipy.stats.norm.logpdf(scaled) - weights["s"]).sum(-1)

    def sample(weights: Any, key: Any, shape: Any) -> Any:
        return weights["m"] + jnp.exp(weights["s"]) * jax.random.normal(key, (*shape, 2))

    weights = {"m": jnp.array([0.5, -1.0]), "s": jnp.array([0.3, -0.2])}
    return SimpleNamespace(log_prob=partial(log_prob, weights), sample=partial(sample, weights))


class Layered(eqx.Module):
    """Forty affine layers, one after the other by a scan over their arrays."""

    s: jax.Array
    b: jax.Array

    def forward(self, x: Any) -> Any:
        """There."""

        def layer(carry: Any, one: Any) -> Any:
            x, ladj = carry
            return (x * jnp.exp(one[0]) + one[1], ladj + one[0].sum()), None

        return jax.lax.scan(layer, (x, jnp.zeros((), x.dtype)), (self.s, self.b))[0]

    def inverse(self, y: Any) -> Any:
        """And back."""

        def layer(carry: Any, one: Any) -> Any:
            y, ladj = carry
            return ((y - one[1]) * jnp.exp(-one[0]), ladj - one[0].sum()), None

        start = (y, jnp.zeros((), y.dtype))
        return jax.lax.scan(layer, start, (self.s, self.b), reverse=True)[0]


def layered() -> Any:
    """No iteration, however long."""
    angles = jnp.arange(80.0).reshape(40, 2)
    return Layered(0.1 * jnp.sin(angles), 0.1 * jnp.cos(angles))


class Named:
    """A normal distribution whose sampler takes nothing by its place."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def log_prob(self, x: Any) -> Any:
        """Of the unit scale."""
        return jax.scipy.stats.norm.logpdf(x).sum(-1)

    def sample(self, *, seed: Any, sample_shape: Any = ()) -> Any:
        """Points of this scale."""
        return self.scale * jax.random.normal(seed, (*sample_shape, 2))


def by_name(scale: float = 1.0) -> Any:
    """As distrax writes it."""
    return Named(scale)


class Apart:
    """A bijector with a log-det of its own for each direction."""

    def __init__(self, sign: float) -> None:
        self.s, self.sign = jnp.array([0.4, -0.7]), sign

    def forward(self, x: Any) -> Any:
        """A scale."""
        return x * jnp.exp(self.s)

    def inverse(self, y: Any) -> Any:
        """Its way back."""
        return y * jnp.exp(-self.s)

    def forward_log_det_jacobian(self, x: Any) -> Any:
        """There."""
        return jnp.broadcast_to(self.s.sum(), x.shape[:-1])

    def inverse_log_det_jacobian(self, y: Any) -> Any:
        """And back."""
        return jnp.broadcast_to(self.sign * self.s.sum(), y.shape[:-1])


def apart(sign: float = -1.0) -> Any:
    """As TensorFlow Probability writes it."""
    return Apart(sign)


class Unmapped:
    """Takes one event, and leaves JAX."""

    def __init__(self) -> None:
        self.s = jnp.array([0.1, 0.2, 0.3])

    def forward(self, x: Any) -> Any:
        """Through numpy."""
        if x.ndim != 1:
            raise ValueError("one event")
        return jnp.asarray(np.exp(np.asarray(self.s)) * np.asarray(x)), self.s.sum()


def unmapped() -> Any:
    """What vmap cannot map."""
    return Unmapped()


def contraction(weight: Any) -> Any:
    """A matrix over its largest singular value, as a power iteration that no gradient runs through finds it."""
    held = jax.lax.stop_gradient(weight)

    def step(_: int, u: Any) -> Any:
        u = held @ (held.T @ u)
        return u / jnp.linalg.norm(u)

    u = jax.lax.fori_loop(0, 60, step, jnp.ones(len(weight)))
    return 0.8 * weight / jnp.linalg.norm(weight.T @ u)


def normed(bug: str = "") -> Any:
    """A residual map whose weights are kept small so, and whose way back repeats: its log-det is exact."""
    weight = jnp.array([[0.9, -0.4], [0.3, 0.7]])

    def there(params: Any, x: Any) -> Any:
        w = contraction(params)
        slope = 1 - jnp.tanh(x @ w.T) ** 2
        jacobian = jnp.eye(2) + slope[..., None] * w
        exact = jnp.linalg.slogdet(jacobian)[1]
        first = jnp.trace(jacobian, axis1=-2, axis2=-1) - 2  # of the series of the logarithm
        return x + jnp.tanh(x @ w.T), first if bug == "first" else exact

    def back(params: Any, y: Any) -> Any:
        w = contraction(params)
        x = jax.lax.fori_loop(0, 200, lambda _, x: y - jnp.tanh(x @ w.T), y)
        return x, -there(params, x)[1]

    return weight, there, back
