"""Constructions of scipy.stats distributions: at least one for each kind of formula, support and tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

# Name -> parameters. Suffixes in brackets distinguish members of a family.
CONTINUOUS: dict[str, dict[str, float]] = {
    "alpha": {"a": 3.57},
    "arcsine": {},
    "argus": {"chi": 1.0},
    "beta": {"a": 2.3, "b": 0.63},
    "betaprime": {"a": 5.0, "b": 6.0},
    "burr12": {"c": 2.5, "d": 4.0},
    "cauchy": {"loc": 0.3, "scale": 1.2},
    "chi2": {"df": 5.0},
    "crystalball": {"beta": 2.0, "m": 3.0},
    "dweibull": {"c": 2.07},
    "expon": {"scale": 0.7},
    "exponnorm": {"K": 1.5},
    "exponweib": {"a": 2.9, "c": 1.95},
    "f": {"dfn": 29.0, "dfd": 18.0},
    "fatiguelife": {"c": 1.5},
    "fisk": {"c": 3.1},
    "gamma": {"a": 2.0},
    "gamma[a<1]": {"a": 0.4, "scale": 2.0},
    "genextreme": {"c": -0.1},
    "genextreme[c>0]": {"c": 0.2},
    "gengamma": {"a": 4.4, "c": -3.1},
    "gennorm": {"beta": 1.3},
    "genpareto": {"c": 0.1},
    "genpareto[c<0]": {"c": -0.3},
    "gumbel_r": {},
    "halfnorm": {"scale": 1.2},
    "invgamma": {"a": 4.1},
    "invgauss": {"mu": 0.6},
    "johnsonsb": {"a": 4.3, "b": 3.2},
    "johnsonsu": {"a": 2.6, "b": 2.2},
    "kappa4": {"h": 0.1, "k": 0.0},
    "laplace": {"loc": 0.3, "scale": 1.2},
    "laplace_asymmetric": {"kappa": 2.0},
    "levy": {},
    "loggamma": {"c": 0.41},
    "logistic": {"loc": 0.3, "scale": 1.2},
    "lognorm": {"s": 0.95},
    "loguniform": {"a": 0.01, "b": 1.25},
    "maxwell": {},
    "moyal": {},
    "nakagami": {"nu": 0.7},
    "ncx2": {"df": 5.0, "nc": 1.06},
    "nct": {"df": 14.0, "nc": 0.24},
    "norm": {"loc": 0.3, "scale": 1.2},
    "pareto": {"b": 2.6},
    "pearson3": {"skew": 0.5},
    "pearson3[skew<0]": {"skew": -2.0},
    "powerlaw": {"a": 0.66},
    "powernorm": {"c": 4.4},
    "rdist": {"c": 1.6},
    "rice": {"b": 0.77},
    "semicircular": {},
    "skewcauchy": {"a": 0.5},
    "skewnorm": {"a": 4.0},
    "t": {"df": 2.7},
    "trapezoid": {"c": 0.2, "d": 0.8},
    "triang": {"c": 0.16},
    "truncexpon": {"b": 4.7},
    "truncnorm": {"a": -1.1, "b": 2.7},
    "truncnorm[tail]": {"a": 5.0, "b": 7.0},
    "truncpareto": {"b": 1.8, "c": 5.3},
    "truncweibull_min": {"c": 2.5, "a": 0.25, "b": 1.75},
    "tukeylambda": {"lam": 0.14},
    "uniform": {"loc": -1.0, "scale": 3.0},
    "weibull_max": {"c": 2.87},
    "weibull_min": {"c": 1.8},
    "wrapcauchy": {"c": 0.3},
}
ANGLES: dict[str, dict[str, float]] = {"vonmises": {"kappa": 4.0}}
DISCRETE: dict[str, dict[str, float]] = {
    "bernoulli": {"p": 0.3},
    "betabinom": {"n": 5, "a": 2.3, "b": 0.63},
    "binom": {"n": 5, "p": 0.4},
    "boltzmann": {"lambda_": 1.4, "N": 19},
    "dlaplace": {"a": 0.8},
    "geom": {"p": 0.5},
    "hypergeom": {"M": 30, "n": 12, "N": 6},
    "logser": {"p": 0.6},
    "nbinom": {"n": 5, "p": 0.5},
    "poisson": {"mu": 3.6},
    "randint": {"low": 7, "high": 31},
    "skellam": {"mu1": 15.0, "mu2": 8.0},
    "zipf": {"a": 6.6},
}
# Classes of the 1.15 infrastructure, and families converted to it.
NEW: dict[str, dict[str, float]] = {
    "Normal": {"mu": 0.3, "sigma": 1.2},
    "Uniform": {"a": -1.0, "b": 2.0},
    "Logistic": {},
}
NEW_DISCRETE: dict[str, dict[str, float]] = {"Binomial": {"n": 5, "p": 0.4}}
MADE: dict[str, dict[str, float]] = {"gamma": {"a": 2.0}, "beta": {"a": 2.3, "b": 1.6}}


def frozen(name: str, parameters: dict[str, float]) -> Callable[..., Any]:
    """A builder of a frozen distribution."""
    from scipy import stats

    return lambda: getattr(stats, name.partition("[")[0])(**parameters)


def built(table: dict[str, dict[str, float]]) -> Constructions:
    """Univariate distributions by name, as far as installed."""
    from scipy import stats

    there = [name for name in table if hasattr(stats, name.partition("[")[0])]
    return {name: (frozen(name, table[name]), ()) for name in there}


def univariate() -> Constructions:
    """Frozen univariate distributions with densities."""
    return {**built(CONTINUOUS), "rv_histogram": (histogram, ())}


def angles() -> Constructions:
    """Frozen distributions of angles."""
    return built(ANGLES)


def histogram() -> Any:
    """A piecewise constant density."""
    from scipy import stats

    return stats.rv_histogram(([1.0, 4.0, 2.0], [-1.0, 0.0, 0.5, 2.0]), density=False)


def discrete() -> Constructions:
    """Frozen distributions of integers, without densities."""
    return built(DISCRETE)


def new_discrete() -> Constructions:
    """Distributions of integers in the 1.15 infrastructure."""
    return built(NEW_DISCRETE)


def new() -> Constructions:
    """Distributions with densities in that infrastructure."""
    from scipy import stats

    def made(name: str, parameters: dict[str, float]) -> Callable[..., Any]:
        return lambda: stats.make_distribution(getattr(stats, name))(**parameters)

    there = built(NEW)
    if hasattr(stats, "make_distribution"):
        for name, parameters in MADE.items():
            there[f"make_distribution[{name}]"] = made(name, parameters), ()
    if hasattr(stats, "truncate"):
        there["truncate[Normal]"] = lambda: stats.truncate(stats.Normal(), lb=-0.5, ub=1.5), ()
        there["exp[Normal]"] = lambda: stats.exp(stats.Normal(mu=0.3, sigma=0.7)), ()
    return there


def mixtures() -> Constructions:
    """Mixtures of that infrastructure."""
    from scipy import stats

    if not hasattr(stats, "Mixture"):
        return {}
    return {"Mixture": (mixture, ())}


def mixture() -> Any:
    """Two normal distributions."""
    from scipy import stats

    parts = [stats.Normal(mu=-1.0, sigma=0.5), stats.Normal(mu=1.5, sigma=1.0)]
    return stats.Mixture(parts, weights=[0.3, 0.7])


def vectors() -> Constructions:
    """Distributions of vectors."""
    from scipy import stats

    matrix = [[1.0, 0.3], [0.3, 0.5]]
    return {
        "multivariate_normal": (lambda: stats.multivariate_normal([0.0, 1.0], matrix), (2,)),
        "multivariate_t": (lambda: stats.multivariate_t([0.0, 1.0], matrix, df=4), (2,)),
    }


def kernels() -> Constructions:
    """Kernel densities of points."""
    import numpy as np
    from scipy import stats

    points = np.random.default_rng(0).normal(size=(2, 50))
    return {"gaussian_kde": (lambda: stats.gaussian_kde(points), (2,))}
