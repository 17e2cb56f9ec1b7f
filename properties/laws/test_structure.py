"""Structure is verified: what is told of a Jacobian is its log-det, and one entry that does not belong
there is seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from flowref.laws.bijection.at_size import composed
from flowref.laws.common import structure
from flowref.laws.common.structure import StructuredLogDet
from flowref.model import Array, Shape, Stage
from rows import first_of

Hypothesis = Callable[[Stage, np.random.Generator], StructuredLogDet | None]
SIZE, SHAPE = 24, (4, 2, 3)
HALF = np.arange(SIZE) < SIZE // 2


def linear(matrix: Array, shape: Shape = (SIZE,)) -> Stage:
    """The map of a matrix at two points."""
    x = np.random.default_rng(0).standard_normal((2, matrix.shape[1]))
    return Stage(
        shape, x, x @ matrix.T, lambda pulled: pulled @ matrix, lambda points: points @ matrix.T
    )


def scaled_permutation(rng: np.random.Generator) -> Array:
    """One entry in each row and column, none near zero."""
    entries = rng.uniform(0.5, 2, SIZE) * rng.choice((-1.0, 1.0), SIZE)
    return np.diag(entries)[rng.permutation(SIZE)]


def coupling(rng: np.random.Generator) -> Array:
    """The second half, moved by the first, entry by entry."""
    matrix = np.diag(np.where(HALF, 1.0, rng.uniform(0.5, 2, SIZE)))
    matrix[np.ix_(~HALF, HALF)] = rng.standard_normal((SIZE // 2, SIZE // 2))
    return matrix


def shuffled_coupling(rng: np.random.Generator) -> Array:
    """A coupling whose outputs leave in another order."""
    return coupling(rng)[rng.permutation(SIZE)]


def two_couplings(rng: np.random.Generator) -> Array:
    """A coupling, and one of the other half."""
    other = np.roll(coupling(rng), (SIZE // 2, SIZE // 2), (0, 1))
    return other @ coupling(rng)


def blocks(rng: np.random.Generator) -> Array:
    """Channels mixed at each position, by matrices of its own."""
    matrix = np.zeros((4, 6, 4, 6))
    for position in range(6):
        matrix[:, position, :, position] = rng.standard_normal((4, 4)) + 3 * np.eye(4)
    return matrix.reshape(SIZE, SIZE)


def blocks_of_last(rng: np.random.Generator) -> Array:
    """The same, where the channels come last."""
    matrix = np.zeros((8, 3, 8, 3))
    for position in range(8):
        matrix[position, :, position] = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    return matrix.reshape(SIZE, SIZE)


def triangular(rng: np.random.Generator) -> Array:
    """Lower triangular in an order of its rows, and another of its columns."""
    matrix = np.tril(rng.standard_normal((SIZE, SIZE)), -1) + np.diag(rng.uniform(0.5, 2, SIZE))
    return matrix[rng.permutation(SIZE)][:, rng.permutation(SIZE)]


def masked(stage: Stage, rng: np.random.Generator) -> StructuredLogDet | None:
    """A coupling of the mask that it declares."""
    return structure.in_two_steps(stage, HALF, None, rng)


def copied(stage: Stage, rng: np.random.Generator) -> StructuredLogDet | None:
    """A coupling of the entries that it is seen to copy."""
    found = structure.copies(stage, rng)
    return structure.in_two_steps(stage, *found[0], rng) if found else None


def entry_by_entry(stage: Stage, rng: np.random.Generator) -> StructuredLogDet | None:
    """The whole Jacobian."""
    return structure.dense_log_det(stage)


CASES: list[tuple[Callable[[np.random.Generator], Array], Hypothesis]] = [
    (scaled_permutation, structure.one_entry_each),
    (coupling, masked),
    (coupling, copied),
    (shuffled_coupling, copied),
    (blocks, structure.position_by_position),
    (blocks_of_last, structure.position_by_position),
    (triangular, entry_by_entry),
]
NAMES = [f"{made.__name__}-{told.__name__}" for made, told in CASES]


@pytest.mark.parametrize("seed", first_of(range(5)))
@pytest.mark.parametrize(("made", "hypothesis"), CASES, ids=NAMES)
def test_a_structure_that_is_there_tells_the_log_det(
    made: Callable[[np.random.Generator], Array], hypothesis: Hypothesis, seed: int
) -> None:
    """What a hypothesis tells of a matrix that meets it is log|det|, within the error that it tells."""
    rng = np.random.default_rng(seed)
    matrix = made(rng)
    told = hypothesis(linear(matrix, SHAPE), rng)
    assert told is not None
    assert told.known.all()
    assert (np.abs(told.log_det - np.linalg.slogdet(matrix)[1]) <= told.error + 1e-11).all()
    assert (told.error < 1e-9).all()


@pytest.mark.parametrize("size", [1e-5, 1.0])
@pytest.mark.parametrize("seed", first_of(range(5)))
@pytest.mark.parametrize(("made", "hypothesis"), CASES[:-1], ids=NAMES[:-1])
def test_one_entry_too_many_is_seen(
    made: Callable[[np.random.Generator], Array], hypothesis: Hypothesis, seed: int, size: float
) -> None:
    """Where one entry of the matrix is not where the hypothesis has one, and the log-det is another,
    nothing is told; else it is still the log-det.
    """
    rng = np.random.default_rng(seed)
    matrix = made(rng)
    row, column = rng.choice(np.argwhere(matrix == 0))
    matrix[row, column] = size
    told = hypothesis(linear(matrix, SHAPE), rng)
    truth = np.linalg.slogdet(matrix)[1]
    assert told is None or (np.abs(told.log_det - truth) <= told.error + 1e-11).all()


@pytest.mark.parametrize("seed", first_of(range(5)))
@pytest.mark.parametrize("made", [coupling, blocks, triangular, two_couplings])
def test_what_mixes_entries_is_not_elementwise(
    made: Callable[[np.random.Generator], Array], seed: int
) -> None:
    """A structure is not told of a matrix that has another one."""
    rng = np.random.default_rng(seed)
    assert structure.one_entry_each(linear(made(rng), SHAPE), rng) is None


@pytest.mark.parametrize("made", [coupling, triangular, two_couplings])
def test_what_mixes_positions_is_told_by_one_cotangent(
    made: Callable[[np.random.Generator], Array],
) -> None:
    """A map that mixes positions is asked once for each place of its channels, and not once for each
    channel.
    """
    rng = np.random.default_rng(2)
    matrix, asked = made(rng), []
    stage = linear(matrix, SHAPE)

    def pull(cotangents: Array) -> Array:
        asked.append(cotangents.shape[1])
        return stage.pull(cotangents)

    assert structure.position_by_position(replace(stage, pull=pull), rng) is None
    assert sum(asked) <= 2


def test_a_matrix_of_no_order_has_no_pivots() -> None:
    """Elimination by single entries ends where every row has two."""
    assert structure.pivots(np.array([[1.0, 1.0], [1.0, 2.0]])) is None
    assert structure.pivots(np.array([[0.0, 3.0], [2.0, 5.0]])) is not None


def test_what_is_nearly_singular_tells_nothing() -> None:
    """A determinant that elimination cannot resolve is not told."""
    matrix = np.vander(np.linspace(0, 1, SIZE)) + 1e-30
    assert structure.determinant(matrix[None], np.zeros(1)) is None


def test_parts_are_the_whole_only_where_they_compose_to_it() -> None:
    """Parts whose product is another map are no road to the log-det of the whole."""
    rng = np.random.default_rng(1)
    first, second = triangular(rng), coupling(rng)
    x = linear(first).x
    chained = Stage((SIZE,), x, x @ first.T @ second.T, lambda pulled: pulled @ second @ first)
    assert composed(linear(second @ first), chained)
    assert not composed(linear(first @ second), chained)
