"""Estimators of scikit-learn: what comes fitted stays so, what does not is fitted, right ones hold, planted defects
are caught, and what only looks like a bijection or a density is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

from flowref import loading, registry
from flowref.adapters.sklearn.constructions import rows
from flowref.checking import Settings, pair_verdict
from flowref.model import Status, Support, TargetError

QUICK = Settings("quick")
LAWS = {
    "map": "map/inverse",
    "slope": "map/log-det[differences]",
    "mass": "density/mass",
    "draws": "sampling/follows-density[ratios]",
    "differ": "random/seeded[two-calls]",
}


class ShiftedBack(StandardScaler):  # type: ignore[misc]  # scikit-learn has no annotations
    """It comes back a little beside where it started."""

    def inverse_transform(self, X: Any, copy: Any = None) -> Any:
        """Of latents."""
        return super().inverse_transform(X, copy) + 1e-6


class StatedSlope(StandardScaler):  # type: ignore[misc]
    """It states the logarithm of its slope."""

    def log_abs_det_jacobian(self, X: Any) -> Any:
        """Of rows."""
        return np.full(len(X), -np.log(self.scale_).sum())


class StatedSpread(StatedSlope):
    """It states that of variances."""

    def log_abs_det_jacobian(self, X: Any) -> Any:
        """Of rows."""
        return np.full(len(X), -np.log(self.var_).sum())


class Bounded(PowerTransformer):  # type: ignore[misc]
    """Its values are between -1 and 1, unlike those of its base."""

    def transform(self, X: Any) -> Any:
        """Of rows."""
        return np.tanh(super().transform(X) / 3)

    def inverse_transform(self, X: Any) -> Any:
        """Of latents."""
        return super().inverse_transform(3 * np.arctanh(X))


class TooLikely(GaussianMixture):  # type: ignore[misc]
    """Its log-density is too large by a hundredth of a nat."""

    def score_samples(self, X: Any) -> Any:
        """Of rows."""
        return super().score_samples(X) + 0.01


class WideDraws(KernelDensity):  # type: ignore[misc]
    """Its draws are wider than its density."""

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """So many rows."""
        return 1.2 * super().sample(n_samples, random_state)


class Scores(BaseEstimator):  # type: ignore[misc]
    """A normal density as users write one, in arrays; ``by`` nats too much."""

    def __init__(self, by: float = 0.0) -> None:
        self.by = by

    def fit(self, X: Any, y: Any = None) -> Scores:
        """Mean and deviation."""
        self.mean_, self.scale_ = X.mean(0), X.std(0)
        return self

    def score_samples(self, X: Any) -> Any:
        """Of rows."""
        z = (X - self.mean_) / self.scale_
        return self.by - (z**2 + np.log(2 * np.pi)).sum(1) / 2 - np.log(self.scale_).sum()

    def sample(self, n: int = 1) -> Any:
        """So many rows, with labels."""
        normal = np.random.standard_normal((n, len(self.mean_)))
        return self.mean_ + self.scale_ * normal, np.zeros(n, int)


@pytest.mark.parametrize(
    ("made", "law", "status"),
    [
        (lambda: StandardScaler().fit(1e6 + rows()), "map", Status.HOLDS),
        (lambda: ShiftedBack().fit(rows()), "map", Status.VIOLATED),
        (lambda: StatedSlope().fit(rows()), "slope", Status.HOLDS),
        (lambda: StatedSpread().fit(rows()), "slope", Status.VIOLATED),
        (lambda: Bounded().fit(rows()), "map", Status.HOLDS),
        (lambda: PowerTransformer("box-cox").fit(rows(positive=True)), "map", Status.HOLDS),
        (lambda: QuantileTransformer(n_quantiles=20).fit(rows()), "map", Status.HOLDS),
        (lambda: PCA(whiten=True).fit(rows()), "map", Status.HOLDS),
        (lambda: GaussianMixture(2, random_state=0).fit(rows(2)), "mass", Status.HOLDS),
        (lambda: TooLikely(2, random_state=0).fit(rows(2)), "mass", Status.VIOLATED),
        (lambda: GaussianMixture(2, random_state=0).fit(rows(2)), "draws", Status.HOLDS),
        (lambda: GaussianMixture(2, random_state=0).fit(rows(2)), "differ", Status.HOLDS),
        (lambda: KernelDensity().fit(rows(2)[:20]), "draws", Status.HOLDS),
        (lambda: WideDraws().fit(rows(2)[:20]), "draws", Status.VIOLATED),
        (Scores, "draws", Status.HOLDS),
        (lambda: Scores(0.1), "draws", Status.VIOLATED),
    ],
)
def test_right_estimators_hold_and_planted_defects_are_caught(
    made: Callable[[], Any], law: str, status: Status
) -> None:
    """Of the library, of subclasses and of users' own, whether they come fitted or not."""
    verdict = pair_verdict(
        loading.snapshot(made()), registry.find_law(LAWS[law]), QUICK, written=False
    )
    assert verdict.status is status, verdict.reason


@pytest.mark.parametrize(
    ("made", "shape", "domain", "codomain"),
    [
        (lambda: MinMaxScaler().fit(rows()), (3,), "real", "real"),
        (lambda: MinMaxScaler(clip=True).fit([[0.0, 2.0], [4.0, 3.0]]), (2,), "(0,4),(2,3)", "unit"),
        (lambda: QuantileTransformer(n_quantiles=2).fit([[1.0], [3.0]]), (1,), "(1,3)", "unit"),
        (lambda: PowerTransformer("box-cox").fit(rows(2, positive=True)), (2,), "positive", None),
        (lambda: FunctionTransformer(np.log, np.exp), (3,), "positive", None),
        (lambda: make_pipeline(StandardScaler(), PCA()).fit(rows(2)), (2,), "real", "real"),
        (lambda: GridSearchCV(KernelDensity(), {"bandwidth": [1.0]}).fit(rows(2)), (2,), "real", None),
    ],
)  # fmt: skip
def test_facts_are_what_was_fitted(
    made: Callable[[], Any], shape: tuple[int, ...], domain: str, codomain: str | None
) -> None:
    """How many features there are, where the map is one, and what it is onto."""
    facts = loading.recipe_of(loading.snapshot(made())).facts
    onto = None if codomain is None else Support.parse(codomain)
    assert (facts.event_shape, facts.domain, facts.codomain) == (shape, Support.parse(domain), onto)


@pytest.fixture(name="data")
def file_of_data(tmp_path: Path) -> Iterator[str]:
    """Rows in a file, to which estimators are fitted as long as a test runs."""
    path = tmp_path / "rows.npy"
    np.save(path, rows(2))
    with loading.fitting_to(str(path)):
        yield str(path)


def test_what_is_fitted_stays_fitted(data: str) -> None:
    """To what its user took, though there are data and its transform refuses points of the line."""
    made = PowerTransformer("box-cox").fit(rows(positive=True))
    recipe = loading.recipe_of(loading.snapshot(made))
    assert (recipe.build().lambdas_ == made.lambdas_).all()
    assert not any("fitted" in line for line in recipe.recognized.conventions)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("mixture:GaussianMixture?n_components=2", "fitted to 256 drawn points"),
        ("preprocessing:PowerTransformer?method=box-cox", "fitted to 256 drawn positive points"),
        (
            "preprocessing:PowerTransformer?method=box-cox&domain=positive",
            "fitted to 256 drawn points of its domain",
        ),
    ],
)
def test_what_is_not_fitted_is_fitted_to_its_domain(spec: str, words: str) -> None:
    """To the points that its fit takes, or to the domain that is stated; the line says so."""
    recipe = loading.recipe_of(registry.parse_target(f"sklearn.{spec}"))
    assert words in recipe.recognized.conventions


def test_what_is_not_fitted_is_fitted_to_the_data(data: str) -> None:
    """Where there are some."""
    recipe = loading.recipe_of(registry.parse_target("sklearn.preprocessing:StandardScaler"))
    assert np.allclose(recipe.build().mean_, rows(2).mean(0))
    assert f"fitted to 200 rows of {data}" in recipe.recognized.conventions


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (TruncatedSVD, "keeps 2 of 3 features"),
        (lambda: NMF(2, tol=0).fit(rows(positive=True)), "NMF of scikit-learn is no bijection"),
        (PLSRegression, "its fit asks for y; fit it first"),
        (lambda: GaussianMixture(300), "is not fitted, and its fit refuses 256 drawn points"),
        (lambda: make_pipeline(StandardScaler(), GaussianMixture()), "audit its GaussianMixture by itself"),
        (lambda: make_pipeline(StandardScaler(), KMeans(2)), "no bijection"),
    ],
)  # fmt: skip
def test_what_is_no_bijection_or_cannot_be_fitted_is_refused(
    made: Callable[[], Any], words: str
) -> None:
    """In a sentence that says why."""
    with pytest.raises(TargetError, match=words):
        loading.recipe_of(loading.snapshot(made()))


@pytest.mark.parametrize(("skewed", "said"), [(True, True), (False, False)])
def test_a_line_says_where_an_inverse_ends(skewed: bool, said: bool) -> None:
    """Of skewed data, whose power transform is bounded."""
    data = rows(positive=True) if skewed else rows(1)
    made = PowerTransformer().fit(data)
    lines = loading.recipe_of(loading.snapshot(made)).recognized.conventions
    words = "its inverse is not finite at z = 5; say ?codomain=real if it should be"
    assert (words in lines) is said


def test_a_construction_is_recognized_as_what_it_is() -> None:
    """Whether named in a spec or handed over as an object, it is called in the same way."""
    adapter = registry.adapters()["sklearn"]
    table = registry.components("sklearn").items()
    assert [name for name, one in table if adapter.recognizes(one.build()) != one.dialect] == []
