"""What a test may list as targets, what each is called, and when it is made."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import flowref
from flowref import reference
from flowref.auditing.single import Judged
from flowref.checking import Settings
from flowref.model import Status, TargetError, Verdict
from flowref.model.factories import is_factory, wants
from flowref.pytest.conformance import Conformance, Listed, conformance, object_name
from flowref.pytest.pair import Pair
from flowref.pytest.session import Session

LAW = "map/log-det"
made: list[str] = []


class Wants:
    """A class that cannot be made without being told something."""

    def __init__(self, features: int) -> None:
        self.features = features


def make() -> Any:
    """A factory."""
    made.append("made")
    return reference.Affine(0.5, -2.0)


def breaks() -> Any:
    """A factory that raises."""
    raise ValueError("no weights here")


def a_test(pair: Any) -> None:
    """As it is written."""


def reversible(x: Any, reverse: bool = False) -> Any:
    """A map itself."""
    return x


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A session in an empty folder."""
    return Session(tmp_path, "quick")


def listed(session: Session, *targets: Any, home: str = "test_a.py::test") -> list[Any]:
    """The pairs of a test that lists these, with one law."""
    named = tuple(Listed.of(target, laws=LAW, event_shape=4) for target in targets)
    return session.tests(Conformance(named), home)[1::2]


@pytest.mark.parametrize(
    ("value", "factory", "wanted"),
    [
        (make, True, []),
        (Wants, True, ["features"]),
        (functools.partial(Wants, 3), True, []),
        (reversible, False, []),
        (functools.partial, True, []),
        (3, False, []),
    ],
    # No addresses: every worker has to collect the same names.
    ids=["function", "class", "partial", "component", "class of partials", "number"],
)
def test_a_factory_is_what_can_be_called(value: Any, factory: bool, wanted: list[str]) -> None:
    """Classes and functions without arguments make what is meant; a function of one argument is a
    map itself.
    """
    assert is_factory(value) is factory
    assert wants(value) == wanted
    assert object_name(value)


def test_names_are_told_apart_and_sorted(session: Session) -> None:
    """Things of one name are counted, specs are listed once, and two tests share no name."""
    first = listed(
        session,
        "reference:Exp",
        make,
        pytest.param(make, id="b"),
        make,
        "reference:Exp",
        pytest.param(make, id="A"),
    )
    assert [pair.target for pair in first] == ["A", "b", "make", "make-2", "reference:Exp"]
    other = listed(session, make, home="test_b.py::test")
    titles = [pair.candidate.title for pair in (*first, *other)]
    assert len(set(titles)) == len(titles)
    assert other[0].target == "make"


def test_nothing_is_made_before_it_is_loaded(session: Session) -> None:
    """A factory is called once, and not to name its tests."""
    made.clear()
    (pair,) = listed(session, make)
    assert made == []
    assert pair.verdict.status is Status.HOLDS
    assert pair.verdict.target == "object:make?event=4"
    assert made == ["made"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (Wants, "Wants is a factory that wants features; give one"),
        (breaks, "breaks cannot be made: it raises ValueError: no weights here"),
        (Wants(3), "which is no bijection"),
    ],
    ids=["wants", "breaks", "other"],
)
def test_what_cannot_be_made_is_said(session: Session, target: Any, said: str) -> None:
    """A target that cannot be made fails the test that loads it with a sentence, and the others are
    not run.
    """
    listed = Listed.of((target, {"laws": "map/log-det*", "event_shape": 4}))
    load, *pairs = tests = session.tests(Conformance((listed,)), "t")
    assert session.applying(tests) == tests
    with pytest.raises(TargetError, match=said):
        load.check()
    for pair in pairs[:2]:
        with pytest.raises(pytest.skip.Exception, match="not run: cannot be loaded"):
            pair.check()
        assert pair.quiet


def test_a_target_may_have_marks(session: Session) -> None:
    """Marks of a target are those of its tests, and of no other's."""
    marked, plain = listed(session, pytest.param(make, id="a", marks=pytest.mark.skip), make)
    assert [mark.name for mark in marked.candidate.marks] == ["skip"]
    assert plain.candidate.marks == ()


def test_what_applies_is_collected(session: Session) -> None:
    """Of the laws on a target those are left that apply; verdicts on the others are those of an audit."""
    wanted = Conformance((Listed.of("reference:Exp", laws=["density/*", "sampling/*", LAW]),))
    left = session.applying(session.tests(wanted, "t"))
    assert [test.name for test in left] == ["load", LAW]
    silent = {verdict.law: verdict for verdict in left[0].candidate.silent}
    for law in ("density/mass", "sampling/follows-density[ratios]"):
        checked = flowref.check("reference:Exp", law, Settings("quick"))
        assert silent[law].without_time() == checked.without_time()


def test_a_target_may_have_options_of_its_own(session: Session) -> None:
    """What stands behind a target is said of it alone, in place of what is said of all."""
    own = {"laws": "map/finite", "profile": "nightly", "event_shape": (2, 2)}
    found = conformance([(make, own), breaks], laws=LAW, event_shape=4)(a_test)
    tests = session.tests(vars(found)["__flowref__"], "t")
    assert [test.id for test in tests if isinstance(test, Pair)] == [
        "breaks-map/log-det",
        "make-map/finite",
    ]
    options = {test.target: (test.candidate.event, test.candidate.profile) for test in tests}
    assert options == {"breaks": ("4", ""), "make": ("2,2", "thorough")}


@pytest.mark.parametrize("strict", [False, True])
def test_a_minor_violation_fails_where_that_is_wanted(session: Session, strict: bool) -> None:
    """A violation below single precision passes, and fails under --flowref-strict."""
    session.strict = strict
    (pair,) = listed(session, make)
    verdict = Verdict("t", LAW, Status.VIOLATED, minor=True)
    pair._judged = Judged(verdict)
    with pytest.raises(flowref.FlowrefViolation) if strict else nullcontext():
        pair.check()
