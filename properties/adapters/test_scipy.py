"""Distributions of scipy.stats: right ones hold whatever their kind, planted defects are caught, and what each
states becomes its facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from flowref import auditing, checking, loading, registry
from flowref.adapters.scipy.adapter import recognizes
from flowref.adapters.scipy.facts import describe
from flowref.model import Status, Support, TargetError

MATRIX = [[1.0, 0.3], [0.3, 0.5]]


class OwnGamma(stats.rv_continuous):  # type: ignore[misc]  # scipy has no annotations
    """A gamma density as users write one: what it does not define, scipy derives from its density."""

    def __init__(self, **options: Any) -> None:
        super().__init__(a=0.0, name="own_gamma", **options)

    def _logpdf(self, x: Any) -> Any:
        return 1.5 * np.log(x) - x - special.gammaln(2.5)

    def _pdf(self, x: Any) -> Any:
        return np.exp(self._logpdf(x))

    def _cdf(self, x: Any) -> Any:
        return special.gammainc(2.5, x)

    def _sf(self, x: Any) -> Any:
        return special.gammaincc(2.5, x)

    def _ppf(self, q: Any) -> Any:
        return special.gammaincinv(2.5, q)

    def _rvs(self, size: Any = None, random_state: Any = None) -> Any:
        return random_state.gamma(2.5, size=size)

    def _stats(self) -> tuple[float, float, None, None]:
        return 2.5, 2.5, None, None


class WrongConstant(OwnGamma):
    """Its log-density is too large by a hundredth of a nat."""

    def _logpdf(self, x: Any) -> Any:
        return super()._logpdf(x) + 0.01


class WrongSurvival(OwnGamma):
    """Its survival function is of another shape."""

    def _sf(self, x: Any) -> Any:
        return special.gammaincc(2.51, x)


class WrongQuantile(OwnGamma):
    """Its quantiles are of another shape."""

    def _ppf(self, q: Any) -> Any:
        return special.gammaincinv(2.501, q)


class WrongDraws(OwnGamma):
    """Its draws are of another shape."""

    def _rvs(self, size: Any = None, random_state: Any = None) -> Any:
        return random_state.gamma(2.7, size=size)


class WrongVariance(OwnGamma):
    """It states too large a variance."""

    def _stats(self) -> tuple[float, float, None, None]:
        return 2.5, 2.6, None, None


class WrongUpperQuantile(OwnGamma):
    """The quantiles of its upper tail are of another shape."""

    def _isf(self, q: Any) -> Any:
        return special.gammainccinv(2.501, q)


class ShiftedFunction(OwnGamma):
    """Its distribution function rises as it should, from another number than zero."""

    def _cdf(self, x: Any) -> Any:
        return special.gammainc(2.5, x) + 0.01


class OwnGeometric(stats.rv_discrete):  # type: ignore[misc]
    """A geometric distribution of failures, and more zeros."""

    def _pmf(self, k: Any) -> Any:
        return 0.25 * (k == 0) + 0.75 * 0.4 * 0.6**k

    def _cdf(self, k: Any) -> Any:
        return 0.25 + 0.75 * (1 - 0.6 ** (np.floor(k) + 1))

    def _rvs(self, size: Any = None, random_state: Any = None) -> Any:
        drawn = random_state.geometric(0.4, size=size) - 1
        return np.where(random_state.uniform(size=size) < 0.25, 0, drawn)

    def _stats(self) -> tuple[float, float, None, None]:
        return 1.125, 0.75 * 6.0 - 1.125**2, None, None


class WrongMass(OwnGeometric):
    """Its masses do not sum to one."""

    def _pmf(self, k: Any) -> Any:
        return 0.25 * (k == 0) + 0.4 * 0.6**k


class WrongSteps(OwnGeometric):
    """Its distribution function counts one failure fewer."""

    def _cdf(self, k: Any) -> Any:
        return 0.25 + 0.75 * (1 - 0.6 ** np.floor(k))


class WrongCounts(OwnGeometric):
    """It counts trials where its masses count failures."""

    def _rvs(self, size: Any = None, random_state: Any = None) -> Any:
        return super()._rvs(size, random_state) + 1


class WrongSpread(OwnGeometric):
    """Its variance is that of the failures alone."""

    def _stats(self) -> tuple[float, float, None, None]:
        return 1.125, 0.75 * 3.75, None, None


class Jitter(OwnGamma):
    """Its density draws from the generator that it holds."""

    def _logpdf(self, x: Any) -> Any:
        return super()._logpdf(x) + 1e-3 * self.random_state.random(np.shape(x))


HEALTHY: dict[str, Callable[[], Any]] = {
    "frozen": lambda: stats.lognorm(0.9, loc=1.0, scale=2.0),
    "truncated": lambda: stats.truncnorm(-1.0, 2.5),
    "discrete": lambda: stats.hypergeom(30, 12, 6),
    "subclass": OwnGamma,
    "own state": lambda: OwnGamma(seed=np.random.RandomState(3)),
    "own generator": lambda: OwnGamma(seed=np.random.default_rng(3)),
    "vectors": lambda: stats.multivariate_normal([0.0, 1.0], MATRIX),
    "kernels": lambda: stats.gaussian_kde(np.random.default_rng(0).normal(size=(2, 50))),
}
DEFECTS = {
    WrongConstant: "density/mass",
    WrongSurvival: "density/distribution-function",
    WrongQuantile: "sampling/quantiles",
    WrongDraws: "sampling/follows-density[ratios]",
    WrongVariance: "density/stated[moments]",
    WrongUpperQuantile: "density/distribution-function",
    ShiftedFunction: "density/distribution-function",
    WrongMass: "density/mass",
    WrongSteps: "density/distribution-function",
    WrongCounts: "sampling/follows-density[ratios]",
    WrongSpread: "density/stated[moments]",
    Jitter: "same/history[repeat]",
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_right_distributions_hold(kind: str) -> None:
    """No law is violated, and many are decided; draws from a generator of its own are those of a state that
    is set back.
    """
    report = auditing.audit([HEALTHY[kind]()], profile="quick")
    wrong = (Status.VIOLATED, Status.ERROR, Status.ADVICE)
    assert [one.law for one in report.verdicts if one.status in wrong] == []
    assert sum(one.status is Status.HOLDS for one in report.verdicts) > 30


@pytest.mark.parametrize(("made", "law"), DEFECTS.items())
def test_planted_defects_are_caught(made: Any, law: str) -> None:
    """The law that a defect breaks is violated with it, and holds without."""
    settings = checking.Settings("quick")
    found = registry.find_law(law)
    for kind, status in ((made, Status.VIOLATED), (made.__base__, Status.HOLDS)):
        assert (
            checking.pair_verdict(loading.snapshot(kind()), found, settings, written=False).status
            is status
        )


@pytest.mark.parametrize(
    ("made", "shape", "support"),
    [
        (stats.norm(), (), "real"),
        (stats.gamma(2.0, loc=-1.0), (), (-1.0, math.inf)),
        (stats.truncnorm(-1.0, 2.0, loc=1.0, scale=2.0), (), (-1.0, 5.0)),
        (stats.weibull_max(2.0), (), (-math.inf, 0.0)),
        (stats.vonmises(3.0), (), (-math.pi, math.pi)),
        (stats.binom(5, 0.4), (), (0.0, 6.0)),
        (stats.multivariate_t([0.0, 1.0], MATRIX, df=4), (2,), "real"),
    ],
)
def test_facts_are_what_is_stated(made: Any, shape: tuple[int, ...], support: Any) -> None:
    """The shape of an event, and the support as a density has it."""
    facts = describe(made, None)
    assert (facts.event_shape, facts.domain) == (shape, Support.parse(support))


def test_an_angle_has_a_distribution_function_where_draws_lie() -> None:
    """Turned by a location, it is one of another turn."""
    here, turned = recognizes(stats.vonmises(3.0)), recognizes(stats.vonmises(3.0, loc=1.0))
    assert here is not None
    assert turned is not None
    assert (here.cdf is None, turned.cdf is None) == (False, True)


def test_what_is_no_single_distribution_is_refused() -> None:
    """A family whose parameters are not given is none, and arrays of them are several."""
    assert recognizes(stats.gamma) is None
    with pytest.raises(TargetError, match=r"arrays of shape \(2,\)"):
        describe(stats.norm([0.0, 1.0], 1.0), None)
