"""The nouns: specs print as they parse, supports say what they hold, and small values behave."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flowref import registry
from flowref.model import (
    REAL,
    USER,
    Batch,
    Call,
    Dialect,
    Facts,
    Residual,
    SpecError,
    Subject,
    Support,
    Target,
    Unsupported,
    draw_points,
    nearest,
    pair_id,
    per_point,
)
from flowref.model.call import CALLS, arguments

ADAPTERS = {"zuko", "nflows", "FrEIA"}
names = (
    st.text("abcXYZ_019[],.= -()*", min_size=1, max_size=12)
    .map(str.strip)
    .filter(lambda text: text[:1].isalpha())
)
keys = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
values = st.text("abcXYZ0189.,-()[]@#/:", min_size=1, max_size=12)
options = st.dictionaries(keys, values, max_size=4).map(
    lambda chosen: tuple(sorted(chosen.items()))
)
places = st.from_regex(
    r"([a-z]{1,5}\.){0,2}[a-z]{1,5}|(\./|/)?([a-z]{1,5}/){0,2}[a-z]{1,5}\.py", fullmatch=True
)
targets = st.builds(Target, st.sampled_from(sorted(ADAPTERS)), names, options) | st.builds(
    Target,
    st.just(USER),
    st.builds("{}:{}".format, places, st.from_regex(r"[A-Za-z_]{1,8}", fullmatch=True)),
    options,
)
ends = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:g}"))
KINDS = ["real", "unit", "positive", "ordered", "simplex", "(-1,1)", "(-inf,0)", "(0.5,inf)"]


@given(targets)
def test_a_target_prints_as_it_parses(target: Target) -> None:
    """Parsing what a target prints gives the target back, for library constructions and user code."""
    assume(
        target.adapter != USER
        or target.component.partition(":")[0].casefold() not in map(str.casefold, ADAPTERS)
    )
    assert Target.parse(str(target), ADAPTERS) == target


@given(targets)
def test_a_target_travels(target: Target) -> None:
    """A pickled target is equal, hashes alike and prints alike."""
    traveled = pickle.loads(pickle.dumps(target))
    assert (traveled, hash(traveled), str(traveled)) == (target, hash(target), str(target))


@given(targets, keys, values, values)
def test_the_last_option_counts(target: Target, key: str, first: str, last: str) -> None:
    """Options are sorted by name, each has one value, and giving one again replaces it."""
    given_twice = target.with_options(**{key: first}).with_options(**{key: last})
    assert given_twice.option(key) == last
    assert list(given_twice.options) == sorted(dict(given_twice.options).items())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("zuko:NSF", Target("zuko", "NSF")),
        ("ZUKO:NSF", Target("zuko", "NSF")),
        (" freia:RNVPCouplingBlock ", Target("FrEIA", "RNVPCouplingBlock")),
        ("zuko:NSF?features=3&bins=8", Target("zuko", "NSF", (("bins", "8"), ("features", "3")))),
        ("zuko:NSF?trace", Target("zuko", "NSF", (("trace", "true"),))),
        ("mypkg.flows:make", Target(USER, "mypkg.flows:make")),
        ("path/to/file.py:Flow.build", Target(USER, "path/to/file.py:Flow.build")),
        ("/abs/zuko.py:make?event=2,4", Target(USER, "/abs/zuko.py:make", (("event", "2,4"),))),
        ("./zuko:make", Target(USER, "./zuko:make")),
        (
            "torch:AffineTransform[vec,event_dim=1]",
            Target(USER, "torch:AffineTransform[vec,event_dim=1]"),
        ),
    ],
)
def test_specs_as_typed(spec: str, expected: Target) -> None:
    """Adapter names match without regard to case, a bare option is true, and paths are never
    mistaken for adapters.
    """
    assert Target.parse(spec, ADAPTERS) == expected


@pytest.mark.parametrize("spec", ["", "zuko", "zuko:", ":make", "a.py:", "zuko:NSF?=3", "file.py"])
def test_what_is_no_spec_is_refused(spec: str) -> None:
    """A spec without component, factory or option name is a SpecError that quotes what was typed."""
    with pytest.raises(SpecError, match=r"target|option"):
        Target.parse(spec, ADAPTERS)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("[1,2]", [1, 2]),
        ("relu", "relu"),
        ("2,4", (2, 4)),
    ],
)
def test_option_values_are_literals_where_they_can_be(text: str, value: Any) -> None:
    """Numbers, lists and truth values arrive at the builder as such, and everything else as text."""
    assert registry.literal(text) == value
    assert type(registry.literal(text)) is type(value)


@given(ends, ends)
def test_an_interval_prints_as_it_parses(low: float, high: float) -> None:
    """Parsing what an interval prints gives it back, and an empty one is refused."""
    if low < high:
        support = Support.parse((low, high))
        assert Support.parse(str(support)) == support
    else:
        with pytest.raises(SpecError, match="empty"):
            Support.parse((low, high))


@pytest.mark.parametrize(
    ("text", "kind"), [("S2", "sphere"), ("SO(3)", "so3"), ("S1", "circle"), ("T^2", "torus")]
)
def test_a_set_has_other_names(text: str, kind: str) -> None:
    """As in formulas."""
    assert Support.parse(text) == Support.parse(kind)


@pytest.mark.parametrize("text", KINDS)
def test_a_support_prints_as_it_parses(text: str) -> None:
    """Named supports and half-lines print as they are typed."""
    assert str(Support.parse(text)) == text
    assert Support.parse(Support.parse(text)) == Support.parse(text)


@pytest.mark.parametrize(
    "bad",
    ["", "complex", "(1,)", "(1,2,3)", "1", "(a,b)", None, 3, ("x", "y"), "(nan,1)", "__import__"],
)
def test_what_is_no_support_is_refused(bad: object) -> None:
    """Anything else is a SpecError in one sentence, and nothing typed is ever run."""
    with pytest.raises(SpecError):
        Support.parse(bad)


@pytest.mark.parametrize(
    ("text", "shape"),
    # On one coordinate the simplex is the point 1, which is not inside (0, 1).
    [
        (text, shape)
        for text in KINDS
        for shape in [(50, 1), (50, 3), (20, 2, 3)]
        if (text, shape[-1]) != ("simplex", 1)
    ],
)
def test_drawn_points_lie_in_their_support(text: str, shape: tuple[int, ...]) -> None:
    """Every drawn point lies strictly inside the set, for every shape; draws follow their
    generator.
    """
    support = Support.parse(text)
    x = draw_points(support, shape, np.random.default_rng(0))
    assert x.shape == shape
    assert support.holds(x).all()
    assert np.array_equal(x, draw_points(support, shape, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("text", "point"),
    [
        ("real", [math.inf]), ("real", [math.nan]), ("unit", [0.0]), ("unit", [1.0]), ("unit", [0.5, 1.5]),
        ("positive", [-1e-9]), ("positive", [0.0, 1.0]), ("ordered", [1.0, 0.0]), ("ordered", [1.0, 1.0]),
        ("simplex", [0.5, 0.6]), ("(-1,1)", [1.0]), ("(-1,1)", [-1.0]), ("(0.5,inf)", [0.5]),
    ],
)  # fmt: skip
def test_points_outside_are_told(text: str, point: list[float]) -> None:
    """Ends, infinities, nan, wrong orders and wrong sums are not inside."""
    assert not Support.parse(text).holds(np.array([point])).any()


@pytest.mark.parametrize(
    "ladj", [2.0, np.array(2.0), np.array([2.0]), np.full((4,), 2.0), np.full((4, 2), 1.0)]
)
def test_a_log_det_becomes_one_number_per_point(ladj: Any) -> None:
    """Constants are repeated, per-coordinate log-derivatives are summed: always one number per
    point.
    """
    np.testing.assert_array_equal(per_point(ladj, 4), np.full(4, 2.0))


@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 3))
def test_a_residual_is_the_largest_entry_of_its_point(batch: int, width: int, seed: int) -> None:
    """A point's residual is its largest absolute entry, nan if any is nan, and zero if there are
    none.
    """
    value = np.random.default_rng(seed).standard_normal((batch, width))
    found = Residual(value).per_row()
    assert found.shape == (batch,)
    np.testing.assert_array_equal(found, np.abs(value).max(1) if width else np.zeros(batch))
    if width:
        value[0, -1] = np.nan
        assert np.isnan(Residual(value).per_row()[0])


def test_rows_of_a_batch_keep_their_contexts() -> None:
    """A batch restricted to some rows has the contexts of those rows, and the same seed."""
    batch = Batch(np.arange(6.0).reshape(3, 2), np.arange(3.0)[:, None], 7)
    some = batch.rows(np.array([2, 0]))
    assert some.x.tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert some.context is not None
    assert (some.context.tolist(), some.seed) == ([[2.0], [0.0]], 7)


def test_a_subject_says_what_it_lacks() -> None:
    """Abilities that are None are lacking, by name and sorted; empty parts count as lacking."""
    never: Any = object()  # an ability that is not called
    call = Call("forward", never, never, never)
    subject = Subject(name="s", facts=Facts((2,)), calls={"forward": call})
    assert subject.lacks(frozenset({"parts", "forward", "inverse"})) == ["inverse", "parts"]


@pytest.mark.parametrize(
    ("normalizing", "region", "expected"),
    [
        ("forward", "domain", ("unit", (2,))), ("forward", "latents", ("positive", (1, 2))),
        ("forward", "data", ("unit", (2,))), ("inverse", "data", ("positive", (1, 2))),
        ("inverse", "domain", ("unit", (2,))),
    ],
)  # fmt: skip
def test_points_are_drawn_from_the_right_side(normalizing: str, region: str, expected: Any) -> None:
    """Points come from the domain, latents from the codomain, and data from the side that the
    density lives on.
    """
    never: Any = object()  # a call that is not made
    subject = Subject(
        name="s",
        facts=Facts((2,), (1, 2), Support.parse("unit"), Support.parse("positive")),
        normalizing=normalizing,
        calls={"forward": Call("forward", never, never, never)},
    )
    support, shape = subject.drawn(region)
    assert (str(support), shape) == expected


def test_latents_without_a_codomain_come_from_the_domain() -> None:
    """Where no codomain is declared, latents are made from points of the domain."""
    subject = Subject(name="s", facts=Facts((2,)))
    assert subject.drawn("latents") == (REAL, (2,))


@given(st.text(), st.text())
def test_a_short_name_is_four_letters_and_stable(target: str, law: str) -> None:
    """The short name of a pair has four letters that cannot be mistaken for one another."""
    name = pair_id(target, law)
    assert len(name) == 4
    assert not set(name) & set("01IOl")
    assert name == pair_id(target, law)


@pytest.mark.parametrize(
    ("given_name", "known", "hint"),
    [
        ("zukko", ["zuko", "nflows"], "zuko"),
        ("freia", ["FrEIA"], "FrEIA"),
        ("bijection/logdet", ["map/log-det"], "log-det"),
    ],
)
def test_the_nearest_name_is_suggested(given_name: str, known: list[str], hint: str) -> None:
    """A misspelt name is met with the closest known one, whatever its case."""
    assert hint in nearest(given_name, known)
    assert nearest("entirely different", known) == ""


@pytest.mark.parametrize(
    ("name", "inputs", "named", "expected", "seed"),
    [
        ("forward", ("x",), {}, ["x", None], None),
        ("forward", ("x", "c"), {}, ["x", "c"], None),
        ("sample", (5, 7), {}, [5, None], 7),
        ("push", ("x", 7, "c"), {}, ["x", "c"], 7),
        ("estimate", ("x", 4, 7), {}, ["x", 4, None], 7),
        ("loss", ("x",), {"weight": 2.0}, ["x", None, 2.0], None),
        ("cdf", ("x",), {}, ["x"], None),
        ("stated", (), {}, [], None),
    ],
)
def test_inputs_of_a_call_are_those_of_a_dialect_and_a_seed(
    name: str, inputs: tuple[Any, ...], named: dict[str, Any], expected: list[Any], seed: int | None
) -> None:
    """In the order that its function takes them, with what is left out as it is by default."""
    assert arguments(name, inputs, named) == (expected, seed)


def test_a_dialect_offers_the_calls_that_it_has_functions_of() -> None:
    """Each call in the table is one of its fields; what it rescales has a density as well."""

    def function(*_: Any) -> None: ...

    every: dict[str, Any] = dict.fromkeys(CALLS, function)
    assert Dialect(**every).offered == tuple(CALLS)
    assert Dialect(log_prob=function, rescale=function).offered == ("log_prob", "rescaled")
    with pytest.raises(Unsupported, match="it offers no inverse"):
        Dialect(forward=function).function("inverse")
    with pytest.raises(Unsupported, match="a stochastic layer"):
        Dialect(push=function).function("forward")
