r"""Log-dets that are estimated: of a Jacobian that is too large to be made, from products with it and with
its transpose alone.

$\log|\det J| = \mathrm{tr}\,\tfrac12\log J^T J$, of which random vectors tell the trace, and Gauss
quadrature by Golub, Kahan and Lanczos each quadratic form. What that leaves open is stated: by chance
it is exceeded once in a thousand million estimates.

Sources: Ubaru, Chen and Saad, Fast Estimation of tr(f(A)) via Stochastic Lanczos Quadrature; Golub and
Meurant, Matrices, Moments and Quadrature; Laurent and Massart, Adaptive Estimation of a Quadratic
Functional by Model Selection, lemma 1.
"""

from __future__ import annotations

import numpy as np

from flowref.laws.common.structure import Told
from flowref.model import Array, Stage
from flowref.model.cost import BACKWARD
from flowref.model.means import means

# Random vectors, and steps of each; the bias is told by half as many steps.
PROBES, STEPS = 8, 16
# The exponent of the probability that chance exceeds what is allowed for: exp(-22) < 1e-9 / 3.
CHANCE = 22.0
# How much larger norms and bias may be than they are estimated to be; and by how much the smallest
# singular value may be missed, squared.
NORMS, BIASES, MISSED = 1.5, 4.0, 16.0
# Few steps see no spectrum that is wider than this, as a ratio of singular values, nor single ones
# below it: so many nats for each entry are left open for these.
WIDEST, HIDDEN = 16.0, 0.02
# A step of differences, where nothing else gives products with the Jacobian.
STEP = 2.0**-18
# Of the work that is left, what one estimate may take.
SHARE = 0.25


def affordable(stage: Stage) -> bool:
    """Whether an estimate fits what may be spent."""
    return work_of(stage) <= SHARE * means().left


def work_of(stage: Stage) -> float:
    """The work of an estimate: each step pulls back, and pushes forward through two graphs."""
    return PROBES * STEPS * (2 + BACKWARD) * stage.work()


def estimated(stage: Stage, rng: np.random.Generator) -> Told | None:
    """The log-det of a stage at one point, with what is left open as its error."""
    size = stage.x.shape[1]
    if size != stage.y.shape[1] or stage.between:
        return None
    means().ask("an estimate of a log-det", 16.0 * size * PROBES * STEPS, work_of(stage))
    starts = rng.standard_normal((PROBES, size))
    diagonal, above = bidiagonal(stage, starts)
    if not (np.isfinite(diagonal).all() and (diagonal > 0).all() and np.isfinite(above).all()):
        return None
    squares = (starts**2).sum(1)
    rules = [quadrature(*pair) for pair in zip(diagonal, above, strict=True)]
    every = np.concatenate([logs for logs, _ in rules])
    if np.ptp(every) > np.log(WIDEST):
        return None
    center = float(np.mean([weights @ logs for logs, weights in rules]))
    forms = np.array([q * (w @ (f - center)) for (f, w), q in zip(rules, squares, strict=True)])
    variance = np.mean(
        [q * (w @ (f - center) ** 2) for (f, w), q in zip(rules, squares, strict=True)]
    )
    largest = float(np.abs(every - center).max())
    # Of a quadratic form of normal numbers: 2 |M|_F sqrt(x) + 2 |M| x, for a mean of so many.
    chance = 2 * np.sqrt(CHANCE * variance / PROBES) + 2 * CHANCE * largest / PROBES
    half = STEPS // 2
    coarse = [
        quadrature(*pair) for pair in zip(diagonal[:, :half], above[:, : half - 1], strict=True)
    ]
    smallest = float(np.exp(2 * every.min())) / MISSED
    below = [radau(*pair, smallest) for pair in zip(diagonal, above, strict=True)]
    bias = np.mean(
        [
            q * (abs(w @ f - v @ g) + abs(w @ f - low))
            for (f, w), (g, v), low, q in zip(rules, coarse, below, squares, strict=True)
        ]
    )
    value = size * center + float(forms.mean())
    error = NORMS * float(chance) + BIASES * float(bias) + HIDDEN * size
    how = f"estimated by {PROBES} probes of {STEPS} steps"
    known = np.array([np.isfinite(value + error)])
    return Told(np.array([value]), np.array([error]), known, how, estimated=True)


def bidiagonal(stage: Stage, starts: Array) -> tuple[Array, Array]:
    """The bidiagonal matrices that Golub, Kahan and Lanczos find from several starts: diagonals
    ``(probes, steps)`` and what stands above them ``(probes, steps - 1)``.
    """
    right = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    rights: list[Array] = [right]
    lefts: list[Array] = []
    diagonal, above = [], []
    left = push(stage, right)
    for step in range(STEPS):
        for _ in range(2):  # rounding turns them towards what was found before
            for before in lefts:
                left = left - (left * before).sum(1, keepdims=True) * before
        size = np.linalg.norm(left, axis=1, keepdims=True)
        diagonal.append(size[:, 0])
        left = left / np.maximum(size, 1e-300)
        lefts.append(left)
        if step + 1 == STEPS:
            break
        right = stage.pull(left[None])[0]
        for _ in range(2):
            for before in rights:
                right = right - (right * before).sum(1, keepdims=True) * before
        size = np.linalg.norm(right, axis=1, keepdims=True)
        above.append(size[:, 0])
        right = right / np.maximum(size, 1e-300)
        rights.append(right)
        left = push(stage, right)
    return np.stack(diagonal, 1), np.stack(above, 1)


def push(stage: Stage, vectors: Array) -> Array:
    """Products of the Jacobian at the only point with vectors ``(probes, inputs)``."""
    if stage.push is not None:
        try:
            return stage.push(vectors)
        except (
            Exception
        ):  # what cannot be differentiated twice has differences, if it can be called
            if stage.value is None:
                raise
    assert stage.value is not None
    step = STEP * (1 + float(np.abs(stage.x).max()))
    ends = [stage.value(stage.x + sign * step * vectors) for sign in (1.0, -1.0)]
    return (ends[0] - ends[1]) / (2 * step)


def quadrature(diagonal: Array, above: Array) -> tuple[Array, Array]:
    """The nodes of a rule for the spectrum, as logarithms of singular values, and its weights."""
    matrix = np.diag(diagonal) + np.diag(above, 1)
    _, values, vectors = np.linalg.svd(matrix)
    return np.log(np.maximum(values, 1e-300)), vectors[:, 0] ** 2


def radau(diagonal: Array, above: Array, smallest: float) -> float:
    r"""The rule with a further node below the spectrum of $J^T J$: what it gives for a logarithm is no
    larger than the quadratic form.
    """
    matrix = np.diag(diagonal) + np.diag(above, 1)
    inner = matrix.T @ matrix
    steps = len(diagonal)
    # The next entry of the tridiagonal matrix is chosen so that the node is an eigenvalue.
    last = inner[-1, -2] ** 2 if steps > 1 else 0.0
    side = np.zeros(steps - 1)
    side[-1] = last
    solved = np.linalg.solve(inner[:-1, :-1] - smallest * np.eye(steps - 1), side)
    changed = inner.copy()
    changed[-1, -1] = smallest + solved[-1]
    values, vectors = np.linalg.eigh(changed)
    return float(vectors[0] ** 2 @ np.log(np.maximum(values, 1e-300)) / 2)
