"""Verified structure of Jacobians: triangular, elementwise, permuted or blockwise Jacobians have a
log-det that a few vector-Jacobian products give exactly.

Each hypothesis predicts the products of the Jacobian with random cotangents from a continuous
distribution. An entry outside the predicted structure changes these with probability one, and the
hypothesis is dropped. The largest deviation from the prediction is the error of the log-det.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flowref.model import Array, Stage
from flowref.model.budget import current_budget

# No dense Jacobian is computed for events with more entries.
LARGE = 128
# Cotangents per hypothesis: two that find it and two that verify it.
PROBES = 4
# The relative error up to which a prediction is met: rounding, amplified by noise.
MET = 1e-6
# Channels of the block of a position, and entries of a Jacobian that is computed densely.
CHANNELS, WHOLE = 64, 1024
# Entries from which on the cost decides whether a dense Jacobian is computed.
ASKED = 128
# Unit roundoff, and the deviation of a matrix times its inverse from the identity, relative to its
# size, up to which the inverse is used.
UNIT, INVERTED = 2.0**-53, 1e-3
# The step at which copied entries are verified, relative to 1 + |x|.
ASIDE = 2.0**-7


@dataclass(frozen=True)
class StructuredLogDet:
    r"""$\log|\det J|$ of a stage per point, its error, and where it is known, all ``(n,)``;
    ``how``: the name of the structure.
    """

    log_det: Array
    error: Array
    known: Array
    how: str

    def first_of(self, batch: int) -> StructuredLogDet:
        """The result of one point as the first of ``batch`` points, the others unknown."""
        rest = np.zeros(batch - 1)
        return StructuredLogDet(
            np.append(self.log_det[:1], rest),
            np.append(self.error[:1], rest),
            np.append(self.known[:1], rest > 0),
            self.how,
        )


@dataclass(frozen=True)
class Monomial:
    """A matrix with one entry per row and column: the column and the entry of each row, ``(d,)``
    each; ``error``: total relative deviation from the predictions.
    """

    columns: Array
    entries: Array
    error: float

    @property
    def log_det(self) -> float:
        r"""$\log|\det|$, the sum over the entries."""
        return float(np.log(np.abs(self.entries)).sum())


def cotangents(rng: np.random.Generator, chosen: Array, batch: int) -> Array:
    """Probes of the chosen outputs, a mask ``(outputs,)``: ones, distinct numbers and random
    numbers, zero elsewhere; ``(batch, PROBES, outputs)``.
    """
    count = int(chosen.sum())
    probes = np.zeros((PROBES, len(chosen)))
    probes[0, chosen] = 1.0
    probes[1, chosen] = 1 + rng.permutation(count) / max(1, count)
    probes[2:, chosen] = rng.standard_normal((PROBES - 2, count))
    return np.broadcast_to(probes, (batch, *probes.shape)).copy()


def monomial(probes: Array, pulled: Array, rows: Array, columns: Array | None) -> Monomial | None:
    """The single entries of ``rows`` if each has one, in distinct columns: the given ``columns``,
    or all nonzero ones. None otherwise. ``probes`` and ``pulled``: ``(PROBES, entries)``.
    """
    if not np.isfinite(pulled).all():
        return None
    inside = pulled[0] != 0 if columns is None else columns
    if inside.sum() != rows.sum() or (pulled[0, inside] == 0).any():
        return None
    if columns is None and pulled[:, ~inside].any():
        return None
    places, entries = np.flatnonzero(rows), pulled[0, inside]
    order = np.argsort(probes[1, places])
    known = probes[1, places][order]
    ratio = pulled[1, inside] / entries
    nearest = np.clip(np.searchsorted(known, ratio - 0.5 / max(1, len(known))), 0, len(known) - 1)
    column_of = np.full(len(places), -1)
    column_of[order[nearest]] = np.flatnonzero(inside)
    if (column_of < 0).any():
        return None
    entries = pulled[0, column_of]
    with np.errstate(all="ignore"):
        missed = np.abs(pulled[1:, column_of] / entries - probes[1:, places])
        missed /= np.maximum(np.abs(probes[1:, places]), 2.0**-4)
    worst = missed.max(0)
    if not (worst <= MET).all():
        return None
    return Monomial(column_of, entries, float(worst.sum()))


def _ratios_met(probes: Array, pulled: Array) -> bool:
    """Whether two pulled-back cotangents, one of ones, have ratios that occur in the other
    cotangent, at some point.
    """
    with np.errstate(all="ignore"):
        ratios, known = pulled[:, 1] / pulled[:, 0], np.sort(probes[:, 1])
    for row, values in zip(ratios, known, strict=True):
        place = np.clip(np.searchsorted(values, row), 1, max(1, len(values) - 1))
        near = np.minimum(*(np.abs(values[(place - back) % len(values)] - row) for back in (0, 1)))
        if bool((near <= MET * np.abs(row)).all()):
            return True
    return False


def one_entry_each(stage: Stage, rng: np.random.Generator) -> StructuredLogDet | None:
    """The log-det of an elementwise map followed by a permutation; None for other maps."""
    everything = np.ones(stage.y.shape[1], dtype=bool)
    if stage.x.shape[1] != len(everything):
        return None
    probes = cotangents(rng, everything, len(stage.x))
    if stage.value is not None and not _ratios_met(probes[:, :2], stage.pull(probes[:, :2])):
        return None  # two probes rule out most maps
    pulled = stage.pull(probes)
    found = [monomial(*pair, everything, None) for pair in zip(probes, pulled, strict=True)]
    return _structured_log_det(
        [None if one is None else (one.log_det, one.error) for one in found], "elementwise"
    )


def _structured_log_det(
    found: list[tuple[float, float] | None], how: str
) -> StructuredLogDet | None:
    """The results per point, None where there is none."""
    known = np.array([one is not None for one in found])
    if not known.any():
        return None
    pairs = np.array([one or (0.0, 0.0) for one in found])
    # The error of an entry is at least the deviation of its predictions, and that of the product
    # their sum.
    return StructuredLogDet(pairs[:, 0], 4 * pairs[:, 1], known, how)


def copies(stage: Stage, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Outputs that may be copies of inputs, and the copied inputs, as pairs of masks
    ``(outputs,)``, ``(inputs,)``: bitwise equal at the point and next to it if the map accepts
    that; else equal in the same positions, also up to noise.
    """
    if stage.value is None:
        if stage.x.shape != stage.y.shape:
            return []
        with np.errstate(all="ignore"):
            off = (np.abs(stage.x - stage.y) / (1 + np.abs(stage.x))).max(0)
        masks = [off <= most for most in (0.0, MET)]
        return [(same, same) for same in masks if same.any() and not same.all()]
    x = stage.x[:1]
    beside = x + ASIDE * (1 + np.abs(x)) * rng.uniform(-1, 1, x.shape)
    try:
        there = stage.value(beside)
    except Exception:  # a step off the point is rejected
        return []
    pairs_in = np.stack([x[0], beside[0]], 1)
    pairs_out = np.stack([stage.y[0], there[0]], 1)
    given = {tuple(pair): index for index, pair in enumerate(pairs_in.tolist())}
    source = np.array([given.get(tuple(pair), -1) for pair in pairs_out.tolist()])
    kept = source >= 0
    if not kept.any() or len(set(source[kept].tolist())) != kept.sum():
        return []
    columns = np.zeros(x.shape[1], dtype=bool)
    columns[source[kept]] = True
    return [(kept, columns)]


def in_two_steps(
    stage: Stage, rows: Array, columns: Array | None, rng: np.random.Generator
) -> StructuredLogDet | None:
    r"""The log-det of a coupling, or of two: the chosen outputs depend elementwise on the chosen
    inputs, and the others elementwise on the rest with the chosen ones fixed. None for other maps.

    With blocks $A, B; C, D$ of the Jacobian: $\log|\det A| + \log|\det(D - C A^{-1} B)|$, both
    factors monomial.
    """
    outputs, inputs = stage.y.shape[1], stage.x.shape[1]
    if outputs != inputs or rows.all() or not rows.any():
        return None
    columns = rows if columns is None else columns
    batch = len(stage.x)
    first = cotangents(rng, rows, batch)
    of_first = stage.pull(first)
    heads = [
        monomial(one, pulled, rows, columns) for one, pulled in zip(first, of_first, strict=True)
    ]
    if not any(heads):
        return None
    second = cotangents(rng, ~rows, batch)
    of_second = stage.pull(second)
    if of_first[..., ~columns].any():  # the chosen outputs depend on the others
        weights = np.zeros_like(second)
        for row, head in enumerate(heads):
            if head is not None:
                weights[row][:, np.flatnonzero(rows)] = (
                    of_second[row][:, head.columns] / head.entries
                )
        of_second = of_second - stage.pull(weights)
    found: list[tuple[float, float] | None] = []
    for row, head in enumerate(heads):
        tail = None if head is None else monomial(second[row], of_second[row], ~rows, ~columns)
        found.append(
            None
            if head is None or tail is None
            else (head.log_det + tail.log_det, head.error + tail.error)
        )
    return _structured_log_det(found, "coupling")


def position_by_position(stage: Stage, rng: np.random.Generator) -> StructuredLogDet | None:
    """The log-det of a map that mixes only the channels of each position, channels first or last;
    None for other maps.
    """
    if len(stage.shape) < 2 or stage.x.shape != stage.y.shape:
        return None
    return _mixed(stage, rng, False) or _mixed(stage, rng, True)


def _mixed(stage: Stage, rng: np.random.Generator, last: bool) -> StructuredLogDet | None:
    channels = stage.shape[-1 if last else 0]
    batch, size = stage.x.shape
    positions = size // channels
    if positions * channels != size or positions < 2 or not 2 <= channels <= CHANNELS:
        return None
    if not _is_positionwise(stage, channels, positions, last):
        return None
    weights = rng.uniform(1, 2, positions) * rng.choice((-1.0, 1.0), positions)
    probes = np.zeros((batch, channels + 2, channels, positions))
    for channel in range(channels):
        probes[:, channel, channel] = weights
    probes[:, channels:] = rng.standard_normal((2, channels, positions))
    flat = probes.swapaxes(2, 3) if last else probes
    pulled = stage.pull(flat.reshape(batch, channels + 2, -1)).reshape(flat.shape)
    pulled = pulled.swapaxes(2, 3) if last else pulled
    blocks = (pulled[:, :channels] / weights).transpose(0, 3, 1, 2)  # row, position, out, in
    expected = np.einsum("bmop,bpoi->bmip", probes[:, channels:], blocks)
    missed = np.abs(expected - pulled[:, channels:]).max((1, 2))
    found: list[tuple[float, float] | None] = []
    for row in range(batch):
        if not np.isfinite(blocks[row]).all():
            found.append(None)
            continue
        size = np.abs(blocks[row]).max((1, 2))
        if (missed[row] > MET * size).any() or not size.all():
            found.append(None)
            continue
        found.append(determinant(blocks[row], missed[row]))
    return _structured_log_det(found, "position by position")


def _is_positionwise(stage: Stage, channels: int, positions: int, last: bool) -> bool:
    """Whether a cotangent of one position comes back at this position only, at some point; rules
    out most maps.
    """
    batch, place = len(stage.x), positions // 2
    probe = np.zeros((batch, 1, channels, positions))
    probe[..., place] = 1 + np.arange(channels) / channels
    probe = probe.swapaxes(2, 3) if last else probe
    pulled = stage.pull(probe.reshape(batch, 1, -1)).reshape(probe.shape)
    pulled = np.abs(pulled.swapaxes(2, 3) if last else pulled)
    inside = pulled[..., place].max((1, 2))
    outside = np.delete(pulled, place, -1).max((1, 2, 3))
    return bool((outside <= MET * inside).any())


def determinant(blocks: Array, missed: Array) -> tuple[float, float] | None:
    r"""The sum of $\log|\det|$ of matrices ``(blocks, size, size)``, and its error for entries
    with errors ``missed``, ``(blocks,)``, and rounding of the elimination; None if a matrix is
    nearly singular.
    """
    logs = np.linalg.slogdet(blocks)[1]
    if not np.isfinite(logs).all():
        return None
    size = blocks.shape[-1]
    inverse = np.linalg.inv(blocks)
    if not (np.abs(blocks @ inverse - np.eye(size)) < INVERTED / size).all():
        return None
    rounded = size * UNIT * np.einsum("bij,bji->b", np.abs(inverse), np.abs(blocks))
    off = missed * np.abs(inverse).sum((1, 2))
    return float(logs.sum()), float((rounded + off).sum())


def pivots(matrix: Array) -> Array | None:
    """The diagonal, ``(d,)``, of a matrix that is triangular after some permutation of rows and
    columns; None for other matrices.
    """
    there = matrix != 0
    left = there.sum(1)
    entries = np.empty(len(matrix))
    for step in range(len(matrix)):
        row = int(np.argmin(left))
        if left[row] != 1:
            return None
        column = int(there[row].argmax())
        entries[step] = matrix[row, column]
        left -= there[:, column]
        left[row] = len(matrix) + 1
        there[:, column] = False
    return entries


def dense_log_det(stage: Stage) -> StructuredLogDet | None:
    """The log-det of the dense Jacobian; None if it is not computed or nearly singular."""
    size = stage.x.shape[1]
    if size != stage.y.shape[1] or size > WHOLE:
        return None
    batch = len(stage.x)
    if size > ASKED:
        current_budget().ask(
            "a Jacobian entry by entry", 24.0 * batch * size**2, batch * size * stage.work()
        )
    matrices = stage.pull(np.broadcast_to(np.eye(size), (batch, size, size)).copy())
    found: list[tuple[float, float] | None] = []
    hows = set()
    for matrix in matrices:
        if not np.isfinite(matrix).all():
            found.append(None)
            continue
        diagonal = pivots(matrix)
        hows.add("entry by entry" if diagonal is None else "triangular")
        if diagonal is None:
            found.append(determinant(matrix[None], np.zeros(1)))
        else:
            logs = np.log(np.abs(diagonal))
            found.append((float(logs.sum()), 4 * UNIT * float((1 + np.abs(logs)).sum())))
    return _structured_log_det(found, " or ".join(sorted(hows)))
