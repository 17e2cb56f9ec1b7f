"""What is known of a composition follows from what is known of its maps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowref.adapters.common.traits import Traits, compose
from flowref.model import REAL, Support

SUPPORTS = st.sampled_from(
    [REAL, *(Support.parse(text) for text in ("unit", "positive", "(-1,1)", "simplex", "ordered"))]
)
PROMISES = st.frozensets(
    st.sampled_from(
        [
            "volume-preserving",
            "elementwise",
            "monotone",
            "autoregressive",
            "estimator",
            "batch-dims",
        ]
    )
)
MAPS = st.builds(
    Traits,
    domain=SUPPORTS,
    codomain=st.none() | SUPPORTS,
    knots=st.sampled_from([(), (0.0,), (-1.0, 1.0)]),
    promises=PROMISES,
    tolerance=st.sampled_from([0.0, 1e-6, 1e-2]),
    declared=st.booleans(),
)
SHIFT = Traits(codomain=REAL, promises=frozenset({"volume-preserving", "elementwise", "monotone"}))
EXP = Traits(codomain=Support.parse("positive"), promises=frozenset({"elementwise", "monotone"}))
LOGIT = Traits(Support.parse("unit"), REAL, promises=frozenset({"elementwise", "monotone"}))
TRIANGULAR = Traits(codomain=REAL, promises=frozenset({"autoregressive"}))
BISECTED = Traits(codomain=REAL, promises=frozenset({"estimator"}), tolerance=1e-3)


@given(MAPS)
def test_a_map_alone_is_its_composition(one: Traits) -> None:
    """A chain of one map has its supports, knots, tolerance and declaration, and promises nothing
    that the map does not.
    """
    whole = compose([one])
    assert (whole.domain, whole.codomain, whole.knots) == (one.domain, one.codomain, one.knots)
    assert (whole.tolerance, whole.declared) == (one.tolerance, one.declared)
    assert whole.promises <= one.promises


@given(st.lists(MAPS, min_size=1), st.lists(MAPS, min_size=1))
def test_a_nested_chain_is_known_no_better_than_a_flat_one(
    first: list[Traits], last: list[Traits]
) -> None:
    """Grouping maps loses knowledge and never invents it."""
    nested, flat = compose([compose(first), compose(last)]), compose([*first, *last])
    assert (nested.domain, nested.codomain, nested.knots) == (
        flat.domain,
        flat.codomain,
        flat.knots,
    )
    assert nested.declared <= flat.declared
    assert nested.promises <= flat.promises
    assert nested.tolerance == flat.tolerance


@given(MAPS)
def test_inverting_twice_gives_the_domain_back(one: Traits) -> None:
    """The inverse of the inverse lives where the map does, and is declared: a domain is known."""
    twice = one.inverted().inverted()
    assert (twice.domain, twice.declared) == (one.domain, True)
    assert twice.codomain == (one.codomain or REAL)
    assert one.inverted().declared == (one.codomain is not None)


@pytest.mark.parametrize(
    ("maps", "domain", "codomain", "declared"),
    [
        ([], "real", "real", True),
        ([EXP, SHIFT], "real", None, True),
        ([SHIFT, LOGIT], "real", None, False),
        ([LOGIT, SHIFT], "unit", "real", True),
        ([LOGIT, SHIFT, LOGIT.inverted()], "unit", "unit", True),
    ],
)
def test_supports_of_a_composition(
    maps: list[Traits], domain: str, codomain: str | None, declared: bool
) -> None:
    """A composition is onto where each map is defined on all that the one before it gives, and
    declared where it is defined on no less.
    """
    whole = compose(maps)
    assert (str(whole.domain), whole.declared) == (domain, declared)
    assert whole.codomain == (None if codomain is None else Support.parse(codomain))


@pytest.mark.parametrize(
    ("maps", "promises"),
    [
        ([SHIFT, EXP], {"elementwise", "monotone"}),
        ([SHIFT, TRIANGULAR], {"autoregressive"}),
        ([TRIANGULAR, BISECTED], {"estimator"}),
        ([SHIFT, BISECTED, SHIFT], {"estimator"}),
    ],
)
def test_promises_of_a_composition(maps: list[Traits], promises: set[str]) -> None:
    """Most promises need all maps, an estimator spoils them all, and triangular maps stay triangular
    among elementwise ones.
    """
    assert compose(maps).promises == promises


@given(MAPS, MAPS)
def test_a_composition_has_the_first_knots_and_the_largest_tolerance(
    first: Traits, second: Traits
) -> None:
    """Inputs meet the formula of the first map; an inverse is no better than its worst step."""
    whole = compose([first, second])
    assert whole.knots == first.knots
    assert whole.tolerance == max(first.tolerance, second.tolerance)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (lambda td: [td.SigmoidTransform(), td.AffineTransform(0.0, 3.0)], "(0,3)"),
        (lambda td: [td.SigmoidTransform(), td.AffineTransform(1.0, -2.0)], "(-1,1)"),
        (lambda td: [td.ExpTransform(), td.AffineTransform(1.0, 2.0)], "(1,inf)"),
    ],
)
def test_the_domain_of_an_inverse_goes_back_through_affine_maps(stages: Any, expected: str) -> None:
    """What the inverse of a composition takes is what its bounded stage takes, brought back."""
    import torch.distributions as td

    from flowref.adapters.torch_distributions.facts import traits

    known = traits(td.ComposeTransform(stages(td)).inv)
    assert str(known.domain) == expected
    assert known.declared


@pytest.mark.parametrize(
    ("around", "steps"),
    [
        (lambda ref, flow: ref.Flow(ref.StandardNormal((2,)), flow), 1),
        (lambda ref, flow: ref.Inverse(flow), 1),
        (lambda ref, flow: ref.Chain(flow, ref.Reverse(2), flow), 2),
        (lambda ref, flow: ref.Chain(ref.Reverse(2)), 0),
    ],
    ids=["density", "inverse", "chain", "none"],
)
def test_what_solvers_are_off_by_adds_up(around: Any, steps: int) -> None:
    """The log-det of what holds continuous flows is known to what theirs are together."""
    from flowref import reference
    from flowref.adapters.reference.facts import describe

    flow = reference.CNF(reference.TimedMLP(2, (4,)), tolerance=1e-6)
    facts = describe(around(reference, flow), (2,))
    assert facts.promises.get("log-det-tolerance", 0.0) == pytest.approx(steps * 1e-4)
