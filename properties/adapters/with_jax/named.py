"""Objects in JAX whose points are dictionaries of arrays, and some whose points are other pytrees."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm


class LocationScale:
    """A location and a scale, as models have their parameters; ``bug``: a factor of the log-det."""

    def __init__(self, bug: float = 1.0) -> None:
        self.bug = bug

    def forward(self, params: Any) -> Any:
        """Data to latents."""
        mu, sigma = params["mu"], params["sigma"]
        return {"mu": mu, "z": jnp.arcsinh(sigma) + mu}, -0.5 * self.bug * jnp.log1p(sigma**2)

    def inverse(self, latents: Any) -> Any:
        """Latents to data."""
        z = latents["z"] - latents["mu"]
        return {"sigma": jnp.sinh(z), "mu": latents["mu"]}, jnp.log(jnp.cosh(z))


class Centered:
    """Parameters of one event, one of them a vector, with names that an attribute states."""

    event_shapes = {"mu": (), "tau": (), "theta": (3,)}  # noqa: RUF012  # as users write it

    def __init__(self, bug: float = 1.0) -> None:
        self.bug = bug

    def forward(self, point: Any) -> Any:
        """Data to latents."""
        eta = (point["theta"] - point["mu"]) * jnp.exp(-point["tau"])
        return {"mu": point["mu"], "tau": point["tau"], "eta": eta}, -3 * self.bug * point["tau"]

    def inverse(self, latents: Any) -> Any:
        """Latents to data."""
        theta = latents["mu"] + jnp.exp(latents["tau"]) * latents["eta"]
        point = {"mu": latents["mu"], "tau": latents["tau"], "theta": theta}
        return point, 3 * latents["tau"]


class Blocks(eqx.Module):  # type: ignore[misc]  # equinox is not looked into
    """Blocks of a batch with a log-det each."""

    factors: Any
    bug: float = eqx.field(static=True, default=1.0)
    event_shapes = {"theta": (2,), "data": (3,)}  # noqa: RUF012  # as users write it

    def __init__(self, bug: float = 1.0) -> None:
        self.factors, self.bug = {"theta": jnp.array(2.0), "data": jnp.array(0.5)}, bug

    def _numbers(self, point: Any, sign: float) -> Any:
        size = {name: part.shape[-1] for name, part in point.items()}
        return {
            name: sign * size[name] * jnp.log(self.factors[name]) + 0 * part.sum(-1)
            for name, part in point.items()
        }

    def forward(self, point: Any) -> Any:
        """Data to latents."""
        out = {name: part * self.factors[name] for name, part in point.items()}
        return out, self._numbers(point, self.bug)

    def inverse(self, point: Any) -> Any:
        """Latents to data."""
        out = {name: part / self.factors[name] for name, part in point.items()}
        return out, self._numbers(point, -1)


class Separate:
    """The value alone, and a method that takes both ends for its log-det."""

    def __init__(self, bug: float = 1.0) -> None:
        self.bug = bug

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return {"a": jnp.exp(x["a"]), "b": 3 * x["b"] + x["a"]}

    def inverse(self, y: Any) -> Any:
        """Latents to data."""
        a = jnp.log(y["a"])
        return {"a": a, "b": (y["b"] - a) / 3}

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The log-det."""
        return x["a"] + self.bug * jnp.log(3.0)


class Hierarchy(eqx.Module):  # type: ignore[misc]  # equinox is not looked into
    """A density of named arrays, which draws many at once."""

    tau: Any
    bug: float = eqx.field(static=True, default=1.0)

    def __init__(self, bug: float = 1.0) -> None:
        self.tau, self.bug = jnp.array(2.0), bug

    def log_prob(self, params: Any) -> Any:
        """The log-density of a location and of what lies around it."""
        location, value = params["location"], params["value"]
        return norm.logpdf(location, 0, self.tau) + norm.logpdf(value, location, self.bug)

    def sample(self, key: Any, n: int) -> Any:
        """Draw both."""
        first, second = jax.random.split(key)
        location = self.tau * jax.random.normal(first, (n,))
        return {"location": location, "value": location + jax.random.normal(second, (n,))}


class OneDraw(eqx.Module):  # type: ignore[misc]  # equinox is not looked into
    """A density of one event, which draws one."""

    scale: Any
    bug: float = eqx.field(static=True, default=1.0)
    event_shapes = {"loc": (), "w": (3,)}  # noqa: RUF012  # as users write it

    def __init__(self, bug: float = 1.0) -> None:
        self.scale, self.bug = jnp.array([0.5, 2.0, 1.5]), bug

    def log_prob(self, params: Any) -> Any:
        """The log-density."""
        around = norm.logpdf(params["w"], params["loc"], self.bug * self.scale)
        return norm.logpdf(params["loc"]) + around.sum()

    def sample(self, key: Any) -> Any:
        """Draw one event."""
        first, second = jax.random.split(key)
        loc = jax.random.normal(first)
        return {"w": loc + self.scale * jax.random.normal(second, (3,)), "loc": loc}


class Images:
    """An image beside its label, whose sizes nothing shows."""

    def forward(self, batch: Any) -> Any:
        """Data to latents."""
        numbers = jnp.full((len(batch["image"]),), 16 * jnp.log(2.0))
        return {"image": 2 * batch["image"], "label": batch["label"]}, numbers


class Pair(NamedTuple):
    """A point with named entries."""

    mu: Any
    sigma: Any


class Tuples:
    """A map of named tuples."""

    def forward(self, point: Any) -> Any:
        """Data to latents."""
        return Pair(point.mu, 2 * point.sigma), jnp.log(2.0) + 0 * point.mu


class Items:
    """A map of dictionaries with any names."""

    def forward(self, point: Any) -> Any:
        """Data to latents."""
        numbers = sum(jnp.log(2.0) + 0 * part for part in point.values())
        return {name: 2 * part for name, part in point.items()}, numbers


class Leaves:
    """A map of one event, an array or any other pytree, whose log-det counts its entries."""

    def __init__(self, bug: float = 1.0) -> None:
        self.bug = bug

    def forward(self, point: Any) -> Any:
        """Data to latents."""
        size = sum(leaf.size for leaf in jax.tree.leaves(point))
        return jax.tree.map(lambda leaf: 2 * leaf, point), self.bug * size * jnp.log(2.0)


class Traced:
    """A map of one event, an array, whose log-det is by the trace of a logarithm that a batch takes as well."""

    def __init__(self, bug: float = 1.0) -> None:
        self.matrix, self.bug = jnp.array([[0.3, 0.2], [0.0, -0.1]]), bug

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        slope = jax.jacfwd(lambda y: y @ self.matrix)(x)
        return x @ jax.scipy.linalg.expm(self.matrix), self.bug * jnp.trace(slope)
