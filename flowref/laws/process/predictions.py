"""Predictions of data, noise, score and velocity are found from each other."""

from __future__ import annotations

import numpy as np

from flowref.laws.process.process_law import ENTRIES, TIMES, process_law
from flowref.model import Batch, Residual
from flowref.model.abilities import Converting
from flowref.model.call import CONVERSIONS

# What is found again of data and noise may be off where they are mixed.
FOUND = 1e-3
# What is predicted, in words.
PREDICTED = {
    "x0": "data", "noise": "noise", "v": "velocity", "score": "score", "moments": "mean and the variance",
}  # fmt: skip


@process_law(
    "process/conversions",
    version=3,
    source="Salimans and Ho 2022, Progressive distillation (arXiv:2202.00512), section 4: predictions of data, noise and "
    "velocity are one another",
)
def predictions_are_one_another(flow: Converting, batch: Batch) -> Residual:
    r"""Given $x_t = \alpha x_0 + \sigma \epsilon$, the conversions recover the data from the noise and from
    the velocity, the noise from the data, and score and noise from each other, $s = -\epsilon / \sigma$. The
    velocity that a score makes is that of the mixture, $v = f x - \frac{1}{2} g^2 s$.
    """
    rng, at = np.random.default_rng(batch.seed), np.random.default_rng(batch.seed + 1)
    # Many clip data that they find to [-1, 1].
    x, noise = rng.uniform(-0.9, 0.9, (TIMES, ENTRIES)), rng.standard_normal((TIMES, ENTRIES))
    found = np.asarray(flow.conversions(x, noise, at.uniform(0.1, 0.5, TIMES)), np.float64)
    worst, note = 0.0, ""
    for (given, wanted), one in zip(CONVERSIONS, found.swapaxes(0, 1), strict=True):
        expected = x if wanted == "x0" else noise
        off = np.where(np.isfinite(one), np.abs(one - expected), 0.0)
        if off.max() > max(worst, FOUND):
            where = np.unravel_index(off.argmax(), off.shape)
            name = f"{PREDICTED[wanted]} from the {PREDICTED[given]}"
            what = "the noise that it stands for" if wanted in ("score", "v") else "what is found"
            note = f"{name}: {what} is {one[where]:.6g}, where {expected[where]:.6g} was mixed in"
        worst = max(worst, float(off.max()))
    return Residual(np.full(len(batch.x), worst), allowed=FOUND, note=note)
