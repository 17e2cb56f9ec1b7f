"""The mean factor of each term of a series is seen across points, however little the term adds."""

from __future__ import annotations

import numpy as np
import pytest

from flowref.laws.residual.series import LONGEST, Terms, partial_sums
from flowref.model import Batch

# Terms that are always summed, the chance to go on, and how often it is tried.
ALWAYS, ON, CALLS = 3, 0.6, 600


def drawn(terms: np.ndarray, each: float, rng: np.random.Generator) -> np.ndarray:
    """Sums of so many terms as the chance to go on leaves, each further one times another factor."""
    n = ALWAYS - 1 + rng.geometric(1 - ON, CALLS)
    k = np.arange(1, terms.shape[1] + 1)
    factors = (k <= n[:, None]) * each ** np.maximum(0, k - ALWAYS)
    return np.asarray(factors @ terms.T)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("each", "accused"),
    [(1 / ON, False), (1.0, True), (1 / (1 - ON), True)],
    ids=["chance-to-go-on", "no-factor", "chance-to-stop"],
)
def test_terms_are_divided_by_the_chance_that_they_are_reached(
    each: float, accused: bool, seed: int
) -> None:
    """What is left out, or another chance, moves the log-det by less than a hundredth."""
    rng = np.random.default_rng(seed)
    rest = 0.12 * rng.standard_normal((48, 2, 2))
    truth = np.linalg.slogdet(np.eye(2) + rest)[1]
    sums = partial_sums(rest)
    batch = Batch(rng.standard_normal((48, 2)), None, seed)
    terms = Terms.of(batch, rest, sums[-1], truth)
    assert terms is not None
    found = min(terms.excesses(drawn(terms.terms, each, rng), LONGEST))
    assert (found > 1) is accused
