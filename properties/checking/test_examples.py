"""What is drawn: as many examples as the effort says, the same in every run, and points of the set
that the law speaks of.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checking.standins import Standin
from flowref.checking.examples import BATCHES, REACHES, SCHEDULE, Example, explore
from flowref.checking.points import ENTRIES, FEW, LEAST_ROWS, VAST, edges, example_batch
from flowref.model import Subject, Support

SCALES = (0.0, 0.1, 0.3, 1.0, 3.0)
KINDS = ("real", "unit", "positive", "(-3,-1)", "ordered", "simplex")
examples = st.builds(
    Example,
    st.sampled_from(SCALES),
    st.sampled_from(BATCHES),
    st.sampled_from(REACHES),
    st.integers(0, 999),
)


def subject(kind: str = "real", features: int = 4) -> Subject:
    """A subject that lives on a set."""
    return Standin(
        lambda batch: batch.x[:, 0], features=features, support=Support.parse(kind)
    ).subject


def visited(scales: tuple[float, ...], largest: int, effort: int, seed: int) -> list[Example]:
    """The examples of a search."""
    seen: list[Example] = []
    explore(scales, largest, effort, seed, seen.append)
    return seen


@pytest.mark.parametrize("effort", [1, 2, 10, 14, 30])
@pytest.mark.parametrize("scales", [SCALES, (0.0,)])
def test_as_many_examples_are_visited_as_the_effort_says(
    effort: int, scales: tuple[float, ...]
) -> None:
    """No more, and no fewer; none moves the parameters further than the law asks, nor draws more
    points.
    """
    seen = visited(scales, 7, effort, 1)
    assert len(seen) == effort
    assert all(example.scale in scales and example.batch <= 7 for example in seen)


def test_the_schedule_comes_first() -> None:
    """Every law sees the same examples first; what comes then depends on the seed, and on nothing
    else.
    """
    first, again, other = (visited(SCALES, 48, 16, seed) for seed in (1, 1, 2))
    assert first[: len(SCHEDULE)] == list(SCHEDULE) == other[: len(SCHEDULE)]
    assert first == again
    assert first != other


def test_what_a_visit_raises_ends_the_search() -> None:
    """Both in the schedule and in what Hypothesis draws."""
    for last in (3, 13):  # within the schedule, and beyond it
        seen: list[Example] = []

        def visit(example: Example, last: int = last, seen: list[Example] = seen) -> None:
            seen.append(example)
            if len(seen) >= last:
                raise KeyError(last)

        with pytest.raises(KeyError):
            explore(SCALES, 48, 30, 1, visit)
        assert len(set(seen)) == last


@given(examples, st.sampled_from(KINDS))
def test_points_lie_in_the_set(example: Example, kind: str) -> None:
    """Whatever the reach, every point lies strictly inside the set that the law speaks of."""
    batch = example_batch(subject(kind), example)
    assert batch.x.shape == (example.batch, 4)
    assert Support.parse(kind).holds(batch.x).all()


@given(examples, st.sampled_from(["unit", "positive", "(-3,-1)"]))
def test_points_beyond_lie_outside(example: Example, kind: str) -> None:
    """Points that a law wants refused have a coordinate outside the set."""
    batch = example_batch(subject(kind), example, "beyond")
    assert not Support.parse(kind).holds(batch.x).any()


@given(examples)
def test_points_are_a_function_of_their_example(example: Example) -> None:
    """Drawn again, they are the same to the last bit; another seed gives others."""
    first, again = example_batch(subject(), example).x, example_batch(subject(), example).x
    assert first.tobytes() == again.tobytes()
    assert (
        example_batch(subject(), replace(example, seed=example.seed + 1)).x.tobytes()
        != first.tobytes()
    )


@given(examples, st.sampled_from(["real", "unit"]))
def test_edge_points_are_in_every_batch_that_has_room(example: Example, kind: str) -> None:
    """Half of the rows hold knots, their neighbors, ones and zeros, as far as they lie inside."""
    knotted = subject(kind).with_facts(knots=(0.25,))
    values = edges(knotted, knotted.domain)
    x = example_batch(knotted, example).x
    assert all(knotted.domain.low < value < knotted.domain.high for value in values)
    for row, value in zip(x[::-1], values[: len(x) // 2], strict=False):
        assert value in row


@pytest.mark.parametrize(
    ("features", "operations", "rows"), [(4, 0, 48), (ENTRIES, 0, 1), (4, 10**9, LEAST_ROWS)]
)
def test_costly_batches_are_small(features: int, operations: int, rows: int) -> None:
    """Large events and slow subjects get fewer points."""
    costly = replace(subject(features=features), operations=operations)
    assert len(example_batch(costly, Example(0.0, 48, "wide", 1)).x) == rows


def test_contexts_are_drawn_where_they_are_taken() -> None:
    """One context a point, of the subject's shape; none where it takes none."""
    conditional = subject().with_facts(context_shape=(2,))
    example = Example(0.0, 7, "near", 1)
    context = example_batch(conditional, example).context
    assert context is not None
    assert context.shape == (7, 2)
    assert example_batch(subject(), example).context is None
    np.testing.assert_array_equal(
        example_batch(conditional, example).x, example_batch(subject(), example).x
    )


def test_few_points_are_ordinary_ones_at_the_weights_as_given() -> None:
    """And lie where they did at other weights, which come first if that is asked for."""
    seen: list[Example] = []
    explore((0.0, 0.3), 1, 4, 1, seen.append, first=0.3, near=True)
    assert [example.scale for example in seen] == sorted((e.scale for e in seen), reverse=True)
    assert {example.reach for example in seen if not example.scale} == {"near"}
    assert "wide" in {example.reach for example in seen if example.scale}


@pytest.mark.parametrize("rows", [1, FEW])
def test_entries_of_few_large_events_differ_in_magnitude(rows: int) -> None:
    """Where an event has hundreds of entries and no rows are there for all magnitudes, each entry has one
    of its own: in a single row some are small and some several times as large as usual.
    """
    example = Example(0.0, 48, "near", 1)
    x = np.abs(example_batch(subject(features=VAST), example, most=rows).x)
    assert len(x) == rows
    assert (x.max(1) > 4).all() and ((x < 1e-2).sum(1) > VAST / 16).all()


@pytest.mark.parametrize(
    ("scales", "first", "expected"), [((0.0, 0.3, 1.0), 0.03, 0.03), ((0.0,), 0.03, 0.0)]
)
def test_weights_that_bear_little_have_an_example_of_their_own(
    scales: tuple[float, ...], first: float, expected: float
) -> None:
    """Where a law moves weights at all, and no example of the schedule moves them so little."""
    seen: list[Example] = []
    explore(scales, 48, 4, 1, seen.append, first=first)
    assert seen[0].scale == expected
    assert len(seen) == 4
