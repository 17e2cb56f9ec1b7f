"""Batch norms as users of JAX write them: statistics that a module of nnx holds, that stand beside a
module, and that a layer hands on with itself; with the bugs of each.
"""

from __future__ import annotations

from typing import Any

import equinox
import jax
import jax.numpy as jnp
from flax import nnx

from flowref_zoo.specimens.specimen import Specimen

SIZE, EPS = 3, 1e-5


class Holding(nnx.Module):  # type: ignore[misc]  # flax has no types
    """It changes what it holds when it trains."""

    def __init__(self, defect: str = "") -> None:
        self.gamma = nnx.Param(jnp.linspace(0.5, 1.5, SIZE))
        self.beta = nnx.Param(jnp.linspace(-0.3, 0.3, SIZE))
        self.mean = nnx.BatchStat(jnp.zeros(SIZE))
        self.var = nnx.BatchStat(jnp.ones(SIZE))
        self.defect, self.momentum, self.eps = defect, 0.9, EPS

    def __call__(self, x: Any, train: bool = False) -> Any:
        """A batch of rows, one column for each channel."""
        mean, var = self.mean[...], self.var[...]
        if train or self.defect == "evaluates-by-the-batch":
            mean, var = x.mean(0), x.var(0, ddof=int(self.defect == "unbiased"))
        if train and self.defect != "forgets":
            old = self.momentum
            self.mean[...] = old * self.mean[...] + (1 - old) * mean
            told = mean**2 if self.defect == "square-of-the-mean" else var
            self.var[...] = old * self.var[...] + (1 - old) * told
        power = 1.0 if self.defect == "divides-by-the-variance" else 0.5
        return self.gamma[...] * (x - mean) / (var + self.eps) ** power + self.beta[...]


class Beside(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """It is given its statistics and hands the new ones back."""

    gamma: Any
    beta: Any
    eps: float = EPS
    momentum: float = 0.1
    defect: str = ""

    def __call__(self, x: Any, state: Any, training: bool = False) -> Any:
        """A batch of rows with the statistics, and whether it trains."""
        mean, var = state
        after, new = state, self.momentum
        if training:
            old_mean, old_var = state
            mean = x.mean(0)
            var = ((x - mean) ** 2).mean(0)
            entering = x.std(0) if self.defect == "deviation-for-variance" else var
            away = 0.5 * new if self.defect == "two-momenta" else new
            after = ((1 - new) * old_mean + new * mean, (1 - away) * old_var + away * entering)
        if self.defect == "hands-back-the-old":
            after = state
        y = self.gamma * (x - mean) * jax.lax.rsqrt(var + self.eps) + self.beta
        return y, after


class Handing(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """A layer of a flow: in training it returns itself as it is afterwards."""

    log_gamma: Any
    beta: Any
    mean: Any
    var: Any
    defect: str = ""

    def log_det(self, var: Any, rows: int) -> Any:
        """The same for each row."""
        half = 1.0 if self.defect == "log-det-of-the-variance" else 0.5
        return jnp.full(rows, (self.log_gamma - half * jnp.log(var + EPS)).sum())

    def forward(self, x: Any, train: bool = False) -> Any:
        """Value and log-det, and in training the layer."""
        mean, var = (x.mean(0), x.var(0)) if train else (self.mean, self.var)
        y = (x - mean) / jnp.sqrt(var + EPS) * jnp.exp(self.log_gamma) + self.beta
        if not train:
            return y, self.log_det(var, len(x))
        held = (0.9 * self.mean + 0.1 * mean, 0.9 * self.var + 0.1 * var)
        if self.defect == "mean-stays":
            held = (self.mean, held[1])
        after = equinox.tree_at(lambda layer: (layer.mean, layer.var), self, held)
        return y, self.log_det(var, len(x)), after

    def inverse(self, y: Any) -> Any:
        """The way back of evaluation."""
        x = (y - self.beta) * jnp.exp(-self.log_gamma) * jnp.sqrt(self.var + EPS) + self.mean
        return x, -self.log_det(self.var, len(y))


class Averaging(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    """Real NVP's appendix: in training it normalizes by averages that the batch has entered."""

    mean: Any
    var: Any
    rho: float = equinox.field(static=True, default=0.3)
    defect: str = equinox.field(static=True, default="")

    def forward(self, x: Any, train: bool = False) -> Any:
        """Value and log-det, and in training the layer."""
        mean, var = self.mean, self.var
        if train:
            mean = (1 - self.rho) * mean + self.rho * x.mean(0)
            var = (1 - self.rho) * var + self.rho * x.var(0)
        half = 1.0 if self.defect == "half-missing" else 0.5
        ladj = jnp.full(len(x), -half * jnp.log(var + EPS).sum())
        y = (x - mean) / jnp.sqrt(var + EPS)
        if not train:
            return y, ladj
        held = jax.lax.stop_gradient((mean, var))
        return y, ladj, equinox.tree_at(lambda layer: (layer.mean, layer.var), self, held)

    def inverse(self, y: Any) -> Any:
        """The way back of evaluation."""
        x = y * jnp.sqrt(self.var + EPS) + self.mean
        return x, jnp.full(len(y), 0.5 * jnp.log(self.var + EPS).sum())


class Corrected(Holding):
    """Its running variance averages unbiased variances, and its momentum is the weight of the new, as
    in torch.
    """

    def __init__(self, defect: str = "") -> None:
        super().__init__(defect)
        self.momentum = 0.1

    def __call__(self, x: Any, train: bool = False) -> Any:
        """A batch of rows, one column for each channel."""
        mean, var = self.mean[...], self.var[...]
        if train:
            mean, var = x.mean(0), x.var(0)
            new = self.momentum
            self.mean[...] = (1 - new) * self.mean[...] + new * mean
            unbiased = var * len(x) / max(len(x) - 1, 1)
            self.var[...] = (1 - new) * self.var[...] + new * unbiased
        return self.gamma[...] * (x - mean) / jnp.sqrt(var + self.eps) + self.beta[...]


def averaging(defect: str = "") -> Any:
    """Normalization by running averages."""
    return Averaging(jnp.zeros(SIZE), jnp.ones(SIZE), defect=defect)


def corrected(defect: str = "") -> Any:
    """Unbiased running variances."""
    return Corrected(defect)


def holding(defect: str = "") -> Any:
    """Statistics in a module of nnx."""
    return Holding(defect)


def beside(defect: str = "") -> Any:
    """A module and its statistics."""
    layer = Beside(jnp.linspace(0.5, 1.5, SIZE), jnp.linspace(-0.3, 0.3, SIZE), defect=defect)
    return layer, (jnp.zeros(SIZE), jnp.ones(SIZE))


def handing(defect: str = "") -> Any:
    """A layer that returns itself."""
    middle = jnp.linspace(-0.3, 0.3, SIZE)
    return Handing(middle, middle, jnp.zeros(SIZE), jnp.ones(SIZE), defect)


def applied(defect: str = "") -> Any:
    """A function, its parameters and its state."""

    def apply(params: Any, state: Any, x: Any, train: bool) -> Any:
        mean, var, kept = state["mean"], state["var"], state
        if train:
            mean, var = x.mean(0), x.var(0)
        if train or defect == "evaluation-counts":
            kept = {
                "mean": 0.9 * state["mean"] + 0.1 * x.mean(0),
                "var": 0.9 * state["var"] + 0.1 * x.var(0),
            }
            if defect == "mean-stays":
                kept["mean"] = state["mean"]
        halves = 0.5 * jnp.log(var + EPS)
        ladj = params["log_gamma"] + (halves if defect == "log-det-grows" else -halves)
        z = (x - mean) / jnp.sqrt(var + EPS) * jnp.exp(params["log_gamma"]) + params["beta"]
        return (z, jnp.broadcast_to(ladj.sum(), x.shape[:1])), kept

    params = {"log_gamma": jnp.linspace(-0.3, 0.3, SIZE), "beta": jnp.linspace(0.5, -0.5, SIZE)}
    return apply, params, {"mean": jnp.zeros(SIZE), "var": jnp.ones(SIZE)}


FOLLOW, MOMENTS = "batch-norm/statistics", "batch-norm/train-map[reference]"
SPECIMENS = (
    Specimen(
        "holding",
        {
            "unbiased": (MOMENTS,),
            "forgets": (FOLLOW,),
            "square-of-the-mean": (FOLLOW,),
            "divides-by-the-variance": ("batch-norm/train-map[deviation]",),
            "evaluates-by-the-batch": ("batch-norm/eval-map", FOLLOW),
        },
    ),
    Specimen(
        "beside",
        {
            "deviation-for-variance": (FOLLOW, "batch-norm/statistics[buffers]"),
            "two-momenta": (FOLLOW,),
            "hands-back-the-old": (FOLLOW,),
        },
    ),
    Specimen(
        "handing",
        {
            "log-det-of-the-variance": ("map/log-det[slopes]", "map/log-det"),
            "mean-stays": (FOLLOW,),
        },
    ),
    Specimen(
        "averaging",
        {"half-missing": ("map/log-det[slopes]", "map/log-det")},
    ),
    Specimen(
        "applied",
        {
            "mean-stays": (FOLLOW,),
            "log-det-grows": ("map/log-det[slopes]", "map/log-det"),
            "evaluation-counts": ("effects/state[eval]",),
        },
    ),
    Specimen("corrected", {}),
)
