"""The prior of a process: the noise that data are made of."""

from __future__ import annotations

from functools import partial

import numpy as np

from flowref.laws.process.process_law import ENTRIES, process_law
from flowref.model import Array, Batch, Residual, Undecidable
from flowref.model.abilities import HasPrior

# Draws of a prior, standard errors that their moments may be off by, and nats that a constant may.
DRAWN, ERRORS, NATS = 4096, 6.0, 1e-3
# How far a log-density may be from that of a normal distribution, relatively, and still be one.
NORMAL = 1e-4
# A prior may be wider than the noise at the end, since data have a spread; it is never this much narrower.
NARROW = 0.5


@process_law(
    "process/prior",
    source="Song et al. 2021, Score-based generative modeling (arXiv:2011.13456), appendix C: the prior of a process that "
    "adds noise of deviation sigma_max is N(0, sigma_max^2)",
)
def prior_is_normal(flow: HasPrior, batch: Batch) -> Residual:
    r"""The log-density of a normal prior has the constant that its variance v asks for, $-\frac{d}{2} \log
    2 \pi v$; draws of the prior have its mean and variance, and it is not narrower than the noise at the
    end.
    """
    x = np.random.default_rng(batch.seed).standard_normal((DRAWN, ENTRIES))

    def ask(points: Array) -> Array:
        return np.asarray(flow.prior(points, batch.seed), np.float64).swapaxes(0, 1)

    _, draws, end = ask(x)
    scale = next((s for s in (draws.std(), end.max()) if np.isfinite(s) and s > 0), 1.0)
    for _ in range(2):  # again where the density lies, for its digits
        mean, variance, constant, off = normal_fit(scale * x, ask(scale * x)[0][:, 0])
        scale = float(np.sqrt(variance.mean()))
    if off > NORMAL:
        raise Undecidable("its log-density is not that of independent normal entries")
    expected = -0.5 * float(np.log(2 * np.pi * variance).sum())
    claims = [
        (
            abs(constant - expected) / (NATS * (1 + abs(expected))),
            f"its log-density is {constant:.6g} at its mean, that of its variance is {expected:.6g}",
        )
    ]
    deviation = np.sqrt(variance)
    if np.isfinite(draws).all():
        centered = (draws - mean) / deviation
        for power, what in ((1, "mean"), (2, "variance")):
            values = centered**power - (power == 2)
            room = ERRORS * values.std() / np.sqrt(values.size) + NORMAL
            claims.append(
                (
                    abs(values.mean()) / room,
                    f"its draws have another {what} than its log-density: deviations {draws.std():.4g} "
                    f"and {deviation.mean():.4g}",
                )
            )
    narrow = end.max() * NARROW / deviation.min()
    if np.isfinite(narrow):
        claims.append(
            (
                narrow,
                f"its deviation is {deviation.min():.4g}, that of the noise at the end {end.max():.4g}",
            )
        )
    worst, note = max(claims, key=lambda claim: claim[0])
    return Residual(np.full(len(batch.x), worst), allowed=1.0, note=note if worst > 1 else "")


def normal_fit(x: Array, log_density: Array) -> tuple[Array, Array, float, float]:
    r"""Mean and variance ``(entries,)`` and the value at the mean of a log-density ``(n,)`` that is quadratic in
    each entry of points ``(n, entries)``, and how far it is from that, relatively. Raises `Undecidable` if it
    has no maximum.
    """
    columns = np.concatenate([np.ones((len(x), 1)), x, x**2], 1)
    size = np.abs(columns).max(0)
    solve = partial(np.linalg.lstsq, rcond=None)
    found = solve(columns / size, log_density)[0] / size
    apart = np.abs(columns @ found - log_density).max()
    slope, bend = found[1 : 1 + x.shape[1]], found[1 + x.shape[1] :]
    if not (bend < 0).all():
        raise Undecidable("its log-density is not that of independent normal entries")
    variance = -0.5 / bend
    mean = slope * variance
    constant = float(found[0] + (0.5 * mean**2 / variance).sum())
    return mean, variance, constant, float(apart / (1 + np.ptp(log_density)))
