"""The forms in which flows in JAX come besides objects with ``forward`` and ``inverse``: functions beside
their parameters, modules beside their variables or their state, contexts, images. ``bug`` plants one.
"""

# Nothing is known of JAX where types are checked.
# mypy: disable-error-code="misc,untyped-decorator"

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp


class Weights(NamedTuple):
    """Parameters of `there`."""

    log_scale: jax.Array
    shift: jax.Array


def there(weights: Weights, x: Any) -> Any:
    """An affine map of a batch."""
    ladj = weights.log_scale.sum() * jnp.ones(len(x))
    return x * jnp.exp(weights.log_scale) + weights.shift, ladj


def back(weights: Weights, y: Any, sign: float = -1.0) -> Any:
    """Its way back."""
    ladj = weights.log_scale.sum() * jnp.ones(len(y))
    return (y - weights.shift) * jnp.exp(-weights.log_scale), sign * ladj


WEIGHTS = Weights(jnp.array([0.3, -0.2, 0.1]), jnp.array([1.0, 0.0, -1.0]))


def parameters_first(bug: bool = False) -> Any:
    """(parameters, forward, inverse)."""
    return WEIGHTS, there, partial(back, sign=1.0) if bug else back


def compiled(bug: bool = False) -> Any:
    """(forward, inverse, parameters), compiled by who wrote them."""
    return jax.jit(there), jax.jit(partial(back, sign=1.0 if bug else -1.0)), dict_of(WEIGHTS)


def states(bug: bool = False) -> Any:
    """Value and running log-det in one dictionary, with the parameters before it."""

    def run(function: Any, weights: Weights, state: Any) -> Any:
        value, ladj = function(weights, state["x"])
        return {"x": value, "lj": state["lj"] + ladj}

    return WEIGHTS, partial(run, there), partial(run, partial(back, sign=1.0) if bug else back)


def dict_of(weights: Weights) -> Any:
    """The same parameters."""
    return weights


class Methods(NamedTuple):
    """A named tuple with methods."""

    log_scale: jax.Array
    bug: bool

    def forward(self, x: Any) -> Any:
        """The map of a batch."""
        ladj = self.log_scale.sum() * jnp.ones(len(x))
        return x * jnp.exp(self.log_scale), ladj * (0.5 if self.bug else 1.0)

    def inverse(self, y: Any) -> Any:
        """Its way back."""
        return y * jnp.exp(-self.log_scale), -self.log_scale.sum() * jnp.ones(len(y))


def named_tuple(bug: bool = False) -> Any:
    """The named tuple."""
    return Methods(WEIGHTS.log_scale, bug)


class Normalization(nn.Module):
    """A batch normalization of flax, as a flow evaluates it."""

    bug: bool = False

    @nn.compact
    def __call__(self, x: Any, train: bool) -> Any:
        """The map of a batch, by its statistics in training and by running ones otherwise."""
        mean = self.variable("batch_stats", "mean", jnp.zeros, 3)
        var = self.variable("batch_stats", "var", jnp.ones, 3)
        log_gamma = self.param("log_gamma", nn.initializers.normal(0.3), (3,))
        m, v = (x.mean(0), x.var(0)) if train else (mean.value, var.value)
        ladj = log_gamma.sum() - (1.0 if self.bug else 0.5) * jnp.log(v + 1e-5).sum()
        return (x - m) * jnp.exp(log_gamma) / jnp.sqrt(v + 1e-5), ladj * jnp.ones(len(x))


def bound(bug: bool = False) -> Any:
    """The module, bound to its variables."""
    module, variables = with_variables(bug)
    return module.bind(variables)


def with_variables(bug: bool = False) -> Any:
    """(module, variables)."""
    module = Normalization(bug)
    variables = module.init(jax.random.key(0), jnp.zeros((2, 3)), False)
    return module, {**variables, "batch_stats": {"mean": jnp.ones(3), "var": 2 * jnp.ones(3)}}


class Running(eqx.Module):
    """A batch normalization with the state of equinox."""

    log_gamma: jax.Array
    index: eqx.nn.StateIndex
    bug: bool = eqx.field(static=True)

    def __init__(self, bug: bool) -> None:
        self.log_gamma, self.bug = jnp.array([0.3, -0.2, 0.1]), bug
        self.index = eqx.nn.StateIndex((jnp.array([0.5, 0.0, 1.0]), jnp.array([2.0, 1.0, 0.5])))

    def __call__(self, x: Any, state: Any, inference: bool = False) -> Any:
        """The map of a batch, and the next state."""
        mean, var = state.get(self.index)
        if not inference:
            mean, var = 0.9 * mean + 0.1 * x.mean(0), 0.9 * var + 0.1 * x.var(0)
            state = state.set(self.index, (mean, var))
        ladj = (self.log_gamma - 0.5 * jnp.log(var)).sum() * jnp.ones(len(x))
        return ((x - mean) * jnp.exp(self.log_gamma) / jnp.sqrt(var), ladj), state

    def inverse(self, y: Any, state: Any) -> Any:
        """The way back by running statistics."""
        mean, var = state.get(self.index)
        ladj = (0.5 * jnp.log(var) - self.log_gamma).sum() * jnp.ones(len(y))
        x = y * jnp.exp(-self.log_gamma) * (var if self.bug else jnp.sqrt(var)) + mean
        return x, ladj


def with_state(bug: bool = False) -> Any:
    """(module, state)."""
    return eqx.nn.make_with_state(Running)(bug)


class Conditional(eqx.Module):
    """A map of one event under a context, whose size an attribute tells."""

    weight: jax.Array
    cond_dim: int = eqx.field(static=True)
    bug: bool = eqx.field(static=True)

    def forward(self, x: Any, cond: Any) -> Any:
        """The map."""
        s, t = jnp.split(jnp.tanh(self.weight @ cond), 2)
        return x * jnp.exp(s) + t, s.mean() if self.bug else s.sum()

    def inverse(self, y: Any, cond: Any) -> Any:
        """Its way back."""
        s, t = jnp.split(jnp.tanh(self.weight @ cond), 2)
        return (y - t) * jnp.exp(-s), -s.sum()


def told_context(bug: bool = False) -> Any:
    """The object."""
    return Conditional(jax.random.normal(jax.random.key(0), (4, 3)), 3, bug)


def channels_last(bug: bool = False) -> Any:
    """A map of images with three channels that stand last, which takes points of any rank."""
    log_scale = jnp.array([0.3, -0.2, 0.1])

    def forward(x: Any) -> Any:
        places = -16 if bug else 16
        return x * jnp.exp(log_scale), jnp.full(len(x), places * log_scale.sum())

    return SimpleNamespace(forward=forward, log_scale=log_scale, height=4)


def any_event(bug: bool = False) -> Any:
    """A map of numbers, in whose code nothing says that they are."""
    return lambda x: (2.0 * x, jnp.log(3.0 if bug else 2.0) * jnp.ones(len(x)))


class Odd(eqx.Module):
    """Methods that are called as the author liked."""

    log_scale: jax.Array

    def encoded(self, x: Any) -> Any:
        """The map of one event."""
        return x * jnp.exp(self.log_scale), self.log_scale.sum()

    def decoded(self, y: Any) -> Any:
        """Its way back."""
        return y * jnp.exp(-self.log_scale), -self.log_scale.sum()


def odd() -> Any:
    """The object."""
    return Odd(jnp.array([0.3, -0.2, 0.1]))


def odd_pair() -> Any:
    """Its methods."""
    made = odd()
    return made.encoded, made.decoded


class Leaky(eqx.Module):
    """A map with a slope that has to be positive, though nothing says so."""

    slope: jax.Array

    def forward(self, x: Any) -> Any:
        """The map of one event."""
        ladj = jnp.where(x > 0, 0.0, jnp.log(self.slope)).sum()
        return jnp.where(x > 0, x, self.slope * x), ladj

    def inverse(self, y: Any) -> Any:
        """Its way back."""
        ladj = jnp.where(y > 0, 0.0, -jnp.log(self.slope)).sum()
        return jnp.where(y > 0, y, y / self.slope), ladj


def leaky() -> Any:
    """The object."""
    return Leaky(jnp.array([0.1, 0.2, 0.3]))


def mixture(bug: bool = False) -> Any:
    """A density of two features with as many components as it would take for single events of three."""
    means, logits = jnp.array([[0.0, 1.0], [2.0, -1.0], [-2.0, 0.0]]), jnp.array([0.1, 0.5, -0.3])

    def log_prob(x: Any) -> Any:
        parts = jax.scipy.stats.norm.logpdf(x[:, None] - means).sum(-1)
        return jax.nn.logsumexp(parts + jax.nn.log_softmax(logits), axis=-1)

    def sample(key: Any, n: int) -> Any:
        which, noise = jax.random.split(key)
        weights = jax.nn.softmax(logits) if bug else logits
        chosen = jax.random.categorical(which, weights, shape=(n,))
        return means[chosen] + jax.random.normal(noise, (n, 2))

    return SimpleNamespace(log_prob=log_prob, sample=sample, means=means, logits=logits)


class Chained(eqx.Module):
    """A layer of a chain, which adds to what came before it."""

    scales: jax.Array
    sign: float = eqx.field(static=True, default=1.0)
    kept: float = eqx.field(static=True, default=1.0)

    def forward(self, x: Any, log_det: Any) -> Any:
        """The map of one event."""
        return x * jnp.exp(self.scales), self.kept * log_det + self.scales.sum()

    def inverse(self, z: Any, log_det: Any) -> Any:
        """Its way back."""
        return z * jnp.exp(-self.scales), self.kept * log_det - self.scales.sum()


def chained(bug: bool = False) -> Any:
    """The object; with a bug it forgets what came before it."""
    return Chained(jnp.array([0.3, -0.2, 0.5]), kept=0.0 if bug else 1.0)


class Counting(Chained):
    """The same of a log-density, which starts at zero."""

    def forward(self, x: Any, logp: Any = 0.0) -> Any:
        """The map of one event."""
        return x * jnp.exp(self.scales), logp + self.sign * self.scales.sum()

    def inverse(self, z: Any, logp: Any = 0.0) -> Any:
        """Its way back."""
        return z * jnp.exp(-self.scales), logp - self.sign * self.scales.sum()


def counting(sign: float = 1.0) -> Any:
    """The object."""
    return Counting(jnp.array([0.3, -0.2, 0.5]), sign)


def turning(weights: Any, x: Any, reverse: bool = False) -> Any:
    """A map and its way back in one function of a flag, parameters first."""
    scale = jnp.exp(weights["log_scale"])
    if reverse:
        y = jnp.sinh(x)
        return y / scale, (jnp.log(jnp.cosh(x)) - weights["log_scale"]).sum(-1)
    ladj = weights["log_scale"] - 0.5 * jnp.log1p((scale * x) ** 2)
    return jnp.arcsinh(scale * x), ladj.sum(-1)


def flagged(bug: bool = False) -> Any:
    """(parameters, function) with a flag."""

    def buggy(weights: Any, x: Any, reverse: bool = False) -> Any:
        y, ladj = turning(weights, x, reverse)
        return y, -ladj if reverse else ladj

    return {"log_scale": jnp.array([0.3, -0.2, 0.5])}, buggy if bug else turning


def flagged_static(bug: bool = False) -> Any:
    """The same compiled, with a static flag that has to be given, and parameters bound."""
    weights, run = flagged(bug)

    def required(weights: Any, x: Any, inverse: bool) -> Any:
        return run(weights, x, inverse)

    return partial(jax.jit(required, static_argnums=2), weights)


def drawing_only() -> Any:
    """An affine map in functions, whose way back records nothing for parameters."""
    weights = {"log_scale": jnp.array([0.3, -0.2, 0.5])}

    def forward(weights: Any, x: Any) -> Any:
        return x * jnp.exp(weights["log_scale"]), weights["log_scale"].sum() * jnp.ones(len(x))

    def inverse(weights: Any, y: Any) -> Any:
        log_scale = jax.lax.stop_gradient(weights["log_scale"])
        return y * jnp.exp(-log_scale), -log_scale.sum() * jnp.ones(len(y))

    return weights, forward, inverse


class Leveled(eqx.Module):
    """A map of which parts leave early: its latents are a list. ``given``: how they come."""

    log_scale: jax.Array
    bug: bool = eqx.field(static=True)
    given: str = eqx.field(static=True)

    def forward(self, x: Any) -> Any:
        """The map of a batch."""
        z = x * jnp.exp(self.log_scale)
        leaves, stays = z[:, :4].reshape(-1, 2, 2), z[:, 4:]
        ladj = (self.log_scale[4:] if self.bug else self.log_scale).sum() * jnp.ones(len(x))
        latents = {
            "list": [leaves, stays],
            "tuple": (leaves, stays),
            "states": [x, x + z, z],
            "lost": [leaves, stays[:, 1:]],
            "mapping": {"leaves": leaves, "stays": stays},
        }
        return latents[self.given], ladj

    def inverse(self, z: Any) -> Any:
        """Its way back."""
        if self.given != "states":
            leaves, stays = z
            z = jnp.concatenate([leaves.reshape(-1, 4), stays], 1)
        return z * jnp.exp(-self.log_scale), -self.log_scale.sum() * jnp.ones(len(z))


def leveled(bug: bool = False, given: str = "list") -> Any:
    """The object."""
    return Leveled(jnp.linspace(-0.3, 0.5, 6), bug, given)


class Early(Leveled):
    """The same with a log-det beside it."""

    def forward(self, x: Any) -> Any:
        """The latents alone."""
        return super().forward(x)[0]

    def inverse(self, z: Any) -> Any:
        """Data alone."""
        return super().inverse(z)[0]

    def log_det(self, x: Any) -> Any:
        """At a point."""
        return super().forward(x)[1]


def leveled_alone(bug: bool = False) -> Any:
    """The object."""
    return Early(jnp.linspace(-0.3, 0.5, 6), bug, "list")


class Summed(eqx.Module):
    """A coupling of which a call gives one log-det, whatever it is given; ``style`` says of which points."""

    weight: jax.Array
    bias: jax.Array
    style: str = eqx.field(static=True)

    def scale(self, a: Any) -> Any:
        """The log-scale."""
        return self.bias + jnp.tanh(a @ self.weight) * (0 if self.style.endswith("alike") else 1)

    def halves(self, x: Any, batches: bool) -> Any:
        """Both halves of a point, or of points in a batch alone."""
        return (x[:, :2], x[:, 2:]) if batches else (x[..., :2], x[..., 2:])

    def forward(self, x: Any) -> Any:
        """The map."""
        a, b = self.halves(x, self.style.startswith("batches"))
        s = self.scale(a)
        ladj = self.bias.sum() if self.style.endswith("constant") else s.sum()
        return jnp.concatenate([a, b * jnp.exp(s)], -1), ladj

    def inverse(self, y: Any) -> Any:
        """Its way back, with a log-det for each point."""
        a, b = self.halves(y, not self.style.startswith("any"))
        s = self.scale(a)
        return jnp.concatenate([a, b * jnp.exp(-s)], -1), -s.sum(-1)


def summed(style: str) -> Any:
    """The object."""
    return Summed(0.3 * jnp.sin(jnp.arange(1.0, 5.0)).reshape(2, 2), jnp.array([0.3, -0.1]), style)


def one_for_all() -> Any:
    """A scaling of batches with one log-det for all points."""
    log_scale = jnp.array([0.3, -0.2, 0.1])

    def there(x: Any) -> Any:
        return x * jnp.exp(log_scale)[None, :], log_scale.sum()

    def back(y: Any) -> Any:
        return y[:, :3] * jnp.exp(-log_scale), -log_scale.sum()

    return there, back


class Meeting(eqx.Module):
    """A map in which the rows of a batch meet; ``style`` says how."""

    log_scale: jax.Array
    style: str = eqx.field(static=True)

    def forward(self, x: Any) -> Any:
        """The map of a batch."""
        y, ladj = x * jnp.exp(self.log_scale), self.log_scale.sum()
        if self.style == "statistics":
            mean, var = y.mean(0), y.var(0)
            y, ladj = (y - mean) / jnp.sqrt(var + 1e-5), ladj - 0.5 * jnp.log(var + 1e-5).sum()
        elif self.style == "mean":
            y = y + x.mean(0)
        else:
            weights = jax.nn.softmax(x[:, :1] * x[None, :, 0])
            y = jnp.concatenate([y[:, :1], y[:, 1:] + weights @ jnp.tanh(y[:, :1])], 1)
        return y if self.style == "silent" else (y, ladj * jnp.ones(len(x)))


def meeting(style: str) -> Any:
    """The object."""
    return Meeting(jnp.array([0.3, -0.2, 0.1]), style)


def turned_around() -> Any:
    """A map of one event, with a log-det for each entry; a batch would be turned around by it."""
    log_scale = jnp.log(2.0)
    return SimpleNamespace(
        forward=lambda x: (x[::-1] * jnp.exp(log_scale), log_scale * jnp.ones(len(x)))
    )


class Jump(eqx.Module):
    """A layer that says that it draws, there and back, and seldom moves what it is given."""

    size: jax.Array
    deaf: bool = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    stochastic_forward = stochastic_inverse = True
    event_shape, codomain = (2,), "real"

    def forward(self, x: Any, key: Any) -> Any:
        """By a normal step, once in a million times."""
        once, step = jax.random.split(jax.random.key(0) if self.deaf else key)
        jumps = jax.random.uniform(once, () if self.single else (len(x), 1)) < 1e-6
        return x + jnp.where(jumps, self.size * jax.random.normal(step, x.shape), 0.0), x[
            ..., 0
        ] * 0

    def inverse(self, z: Any, key: Any) -> Any:
        """The same."""
        return self.forward(z, key)


def jumping(bug: bool = False, single: bool = False) -> Any:
    """The object; with a bug it makes a key of its own."""
    return Jump(jnp.array(0.5), bug, single)
