"""Densities as users of JAX write them: a flow whose samples come back from a normal base, an affine one,
one of levels between two bounds, which begins with a logit, the logit by itself, and a density on a
simplex; with the bugs of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jax.scipy.stats import norm

from flowref_zoo.jax_specimens.flows import Halves, mixing, network
from flowref_zoo.specimens.specimen import Specimen

ALPHA, LEVELS = 0.05, 256


class Logit(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    r"""$h = \log\frac{p}{1 - p}$ with $p = \alpha + (1 - 2 \alpha) x$, of data in [0, 1]."""

    alpha: float = equinox.field(static=True, default=ALPHA)
    defect: str = equinox.field(static=True, default="")
    event_shape = (3,)
    domain = "unit"

    @property
    def preprocessing(self) -> Mapping[str, float]:
        """It is a logit and nothing else."""
        return {"alpha": self.alpha}

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to reals."""
        p = self.alpha + (1 - 2 * self.alpha) * x
        slope = 0.0 if self.defect == "slope-missing" else jnp.log(1 - 2 * self.alpha)
        h = jnp.log(p) - jnp.log1p(-p)
        return h, (slope - jnp.log(p) - jnp.log1p(-p)).sum(-1)

    def inverse(self, h: Any) -> tuple[Any, Any]:
        """Reals to data."""
        p = jax.nn.sigmoid(h)
        ladj = jax.nn.log_sigmoid(h) + jax.nn.log_sigmoid(-h) - jnp.log(1 - 2 * self.alpha)
        return (p - self.alpha) / (1 - 2 * self.alpha), ladj.sum(-1)


class StandardNormal(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """The base."""

    size: int = equinox.field(static=True)

    def log_prob(self, z: Any) -> Any:
        """Of each row."""
        return norm.logpdf(z).sum(-1)

    def sample(self, key: Any, n: int) -> Any:
        """So many rows."""
        return jax.random.normal(key, (n, self.size))


class Flow(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """Two couplings, the other way round after the first, over a standard normal base."""

    first: Any
    second: Any
    base: Any
    defect: str = equinox.field(static=True, default="")
    event_shape = (4,)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        z, one = self.first.forward(x)
        z, other = self.second.forward(z[:, ::-1])
        return z, one + other

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x, one = self.second.inverse(z)
        x, other = self.first.inverse(x[:, ::-1])
        return x, one + other

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        z, ladj = self.forward(x)
        return self.base.log_prob(z) + (-ladj if self.defect == "log-det-sign" else ladj)

    def sample(self, key: Any, n: int) -> Any:
        """So many rows."""
        z = self.base.sample(key, n)
        return (self.forward if self.defect == "sampled-forward" else self.inverse)(z)[0]


class Levelled(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """Data between 0 and 256: a logit, scales and shifts, and a standard normal base."""

    scale: Any
    shift: Any
    base: Any
    defect: str = equinox.field(static=True, default="")
    event_shape = (3,)
    domain = (0.0, 256.0)

    @property
    def preprocessing(self) -> Mapping[str, Any]:
        """It begins with a logit."""
        return {"alpha": ALPHA, "bound": 256.0, "bins": LEVELS, "alone": False}

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        h, ladj = Logit().forward(x / 256)
        ladj = ladj - 3 * math.log(256)
        return h * jnp.exp(self.scale) + self.shift, ladj + self.scale.sum()

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x, ladj = Logit().inverse((z - self.shift) * jnp.exp(-self.scale))
        return 256 * x, ladj - self.scale.sum() + 3 * math.log(256)

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        z, ladj = self.forward(x)
        return self.base.log_prob(z) + ladj

    def sample(self, key: Any, n: int) -> Any:
        """So many rows."""
        return self.inverse(self.base.sample(key, n))[0]

    def bits_per_dim(self, x: Any) -> Any:
        """Of each row, in bits an entry; levels are one apart."""
        return -self.log_prob(x) / 3 / (1.0 if self.defect == "nats" else math.log(2))


class Affine(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """A normal distribution, as the flow that makes it standard normal."""

    matrix: Any
    shift: Any
    base: Any
    defect: str = equinox.field(static=True, default="")
    event_shape = (3,)
    promises = ("constant-jacobian",)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        ladj = jnp.linalg.slogdet(self.matrix)[1]
        return (x - self.shift) @ self.matrix.T, jnp.full(len(x), ladj)

    def inverse(self, z: Any) -> tuple[Any, Any]:
        """Latents to data."""
        ladj = -jnp.linalg.slogdet(self.matrix)[1]
        return jnp.linalg.solve(self.matrix, z.T).T + self.shift, jnp.full(len(z), ladj)

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        z, ladj = self.forward(x)
        return self.base.log_prob(z) + (2 * ladj if self.defect == "covariance" else ladj)

    def sample(self, key: Any, n: int) -> Any:
        """So many rows."""
        z = self.base.sample(key, n)
        return (1.2 if self.defect == "wide" else 1.0) * self.inverse(z)[0]


class Dirichlet(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    r"""$\log p(x) = \log\Gamma(\sum_i a_i) - \sum_i \log\Gamma(a_i) + \sum_i (a_i - 1) \log x_i$."""

    raw: Any
    defect: str = equinox.field(static=True, default="")
    event_shape = (3,)
    domain = "simplex"

    def log_prob(self, x: Any) -> Any:
        """Of each row."""
        a = jnp.exp(self.raw) + 1
        normalizer = gammaln(a.sum()) - gammaln(a).sum()
        power = a if self.defect == "power" else a - 1
        return normalizer + (power * jnp.log(x)).sum(-1)

    def sample(self, key: Any, n: int) -> Any:
        """So many rows."""
        return jax.random.dirichlet(key, jnp.exp(self.raw) + 1, (n,))


def flow(defect: str = "") -> Any:
    """A density of vectors."""
    return Flow(Halves(network(2, 4, 1)), Halves(network(2, 4, 2)), StandardNormal(4), defect)


def levelled(defect: str = "") -> Any:
    """A density of bounded data."""
    scale, shift = jnp.linspace(-0.3, 0.5, 3), jnp.linspace(-0.5, 0.5, 3)
    return Levelled(scale, shift, StandardNormal(3), defect)


def logit(defect: str = "") -> Any:
    """The preprocessing alone."""
    return Logit(defect=defect)


def affine(defect: str = "") -> Any:
    """An affine flow."""
    return Affine(mixing(3), jnp.linspace(-0.5, 0.5, 3), StandardNormal(3), defect)


def dirichlet(defect: str = "") -> Any:
    """A density of three numbers that sum to one."""
    return Dirichlet(jnp.array([0.5, 1.0, 0.2]), defect)


SPECIMENS = (
    Specimen(
        "flow",
        {
            "log-det-sign": ("density/change-of-variables",),
            "sampled-forward": ("sampling/follows-density",),
        },
    ),
    Specimen(
        "affine",
        {
            "covariance": ("density/base-constant[quadratic-form]",),
            "wide": ("sampling/follows-density[pit]",),
        },
    ),
    Specimen("dirichlet", {"power": ("sampling/follows-density[simplex]",)}),
    Specimen("levelled", {"nats": ("density/units[bits-per-dim]",)}),
    Specimen("logit", {"slope-missing": ("map/log-det",)}),
)
