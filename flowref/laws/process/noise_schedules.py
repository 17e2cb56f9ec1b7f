"""Schedules of noise: arrays of steps, and functions of time, are those of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from flowref.laws.process.process_law import SINGLE, process_law, shares, slope_compared
from flowref.model import Array, Batch, Residual
from flowref.model.abilities import FunctionsOfTime, Scheduled
from flowref.model.call import SCHEDULE, TIME_FUNCTIONS

# Variances that are no smaller may have been clipped.
CLIPPED = 0.99
# Derivatives of functions of time -> of which; what they are, in words.
DERIVATIVES = {
    name: "log alpha" if name == "(log alpha)'" else name.removesuffix("'")
    for name in TIME_FUNCTIONS
    if name.endswith("'")
}
WORDS = {
    name: "the velocity" if name in ("first'", "second'") else "a derivative"
    for name in DERIVATIVES
}


@process_law(
    "process/schedule",
    version=2,
    source="Ho et al. 2020, Denoising diffusion probabilistic models (arXiv:2006.11239), section 2",
)
def schedule_is_one(flow: Scheduled, batch: Batch) -> Residual:
    r"""The arrays of a schedule agree: the cumulative products are $A_t = A_{t-1} (1 - \beta_t)$, and the
    stored roots, complements and previous values, and the coefficients of $q(x_{t-1} | x_t, x_0)$, are those
    of $A_t$ and $\beta_t$.
    """
    kept = dict(zip(SCHEDULE, np.asarray(flow.schedule(), np.float64), strict=True))
    worst, note = 0.0, ""
    for name, (found, expected, size) in array_pairs(kept).items():
        off = np.abs(found - expected) / np.maximum(size, 1e-300)
        off = np.where(np.isfinite(off), off, 0.0)
        if off.max() > max(worst, SINGLE):
            at = int(off.argmax())
            note = f"the {name} is {found[at]:.6g} at step {at}, by the others it is {expected[at]:.6g}"
        worst = max(worst, float(off.max()))
    return Residual(np.full(len(batch.x), worst), allowed=SINGLE, note=note)


def array_pairs(kept: dict[str, Array]) -> dict[str, tuple[Array, Array, Array]]:
    """Arrays ``(steps,)`` of a schedule, what they are by the others, and the size to which that is meant."""
    bar, alpha = kept["alpha_bar"], kept["alpha"]
    last = np.concatenate([[1.0], bar[:-1]])
    beta = np.where(np.isnan(kept["beta"]), 1 - alpha, kept["beta"])
    one = np.ones_like(bar)
    with np.errstate(all="ignore"):
        step = np.where(np.isnan(beta), 1 - bar / last, beta)
        # How much of a single number's accuracy differences from one keep.
        digits = 1 + 2.0**-5 * (1 / (1 - bar) + 1 / step)
        earlier = digits + 2.0**-5 / (1 - last)
        later = np.where(np.arange(len(bar)) > 0, 1.0, np.nan)  # before the first step all is known
        variance = step * (1 - last) / (1 - bar)
        larger = np.abs(kept["posterior variance"] - step) <= SINGLE * step * digits
        of_data, of_mixture = (
            step * np.sqrt(last) / (1 - bar),
            (1 - last) * np.sqrt(1 - step) / (1 - bar),
        )
        logs = np.log(kept["posterior variance"])
        return {
            "share of all steps so far": (
                np.where(beta < CLIPPED, bar, np.nan),
                last * (1 - beta),
                last,
            ),
            "share of one step": (alpha, 1 - beta, one),
            "share whose root is kept": (kept["root"] ** 2, bar, bar),
            "share whose deviation is kept": (kept["deviation"] ** 2, 1 - bar, one),
            "share of the steps before": (kept["before"], last, last),
            "inverse root of the share": (kept["1/root"], bar**-0.5, bar**-0.5),
            "deviation in units of the data": (
                kept["deviation/root"] ** 2,
                1 / bar - 1,
                1 / bar,
            ),
            "logarithm of the variance": (
                np.exp(kept["log complement"]),
                1 - bar,
                one,
            ),
            "inverse root of the share of one step": (kept["1/root of alpha"] ** -2, 1 - step, one),
            # Some take the variance of the step itself.
            "variance of one step back": (
                np.where(larger.all(), np.nan, kept["posterior variance"]) * later,
                variance,
                variance * earlier,
            ),
            "logarithm of the variance of one step back": (
                kept["log posterior variance"] * later,
                logs,
                1 + np.abs(logs),
            ),
            "coefficient of the data one step back": (
                kept["posterior of data"] * later,
                of_data,
                of_data * earlier,
            ),
            "coefficient of the mixture one step back": (
                kept["posterior of mixture"] * later,
                of_mixture,
                of_mixture * earlier,
            ),
        }


@process_law(
    "process/schedule[functions]",
    source="Kingma et al. 2021, Variational diffusion models (arXiv:2107.00630), section 3: the signal-to-noise ratio "
    "is alpha^2 / sigma^2; Lipman et al. 2023, Flow matching (arXiv:2210.02747), section 4: the velocity of a path "
    "is its derivative in time",
)
def time_functions_are_one(flow: FunctionsOfTime, batch: Batch) -> Residual:
    r"""Functions of time agree: derivatives are derivatives of the shares of data and noise, signal-to-noise
    ratios are $\alpha^2 / \sigma^2$ or $\alpha / \sigma$, mixtures have these shares, the velocity of a path is
    its derivative, and ways back find the time.
    """
    times = shares(batch)

    def at(some: Array) -> dict[str, Array]:
        found = dict(
            zip(TIME_FUNCTIONS, np.asarray(flow.time_functions(some), np.float64).T, strict=True)
        )
        with np.errstate(all="ignore"):
            return found | {
                "log alpha": np.log(found["alpha"]),
                "log sigma": np.log(found["sigma"]),
            }

    found = at(times)
    worst, note = 0.0, ""
    for name, one, expected, off in (*slopes_in_time(at, times, found), *equal_functions(found)):
        if off.max() > max(worst, 1.0):
            where = int(off.argmax())
            note = (
                f"{name} is {one[where]:.6g} at time {found['time'][where]:.4g}, by the others it is "
                f"{expected[where]:.6g}"
            )
        worst = max(worst, float(off.max()))
    return Residual(np.full(len(batch.x), worst), allowed=1.0, note=note)


Claim = tuple[str, Array, Array, Array]


def slopes_in_time(
    at: Callable[[Array], dict[str, Array]], times: Array, found: dict[str, Array]
) -> Iterator[Claim]:
    """Derivatives in time and what they are by differences, with their distance as a multiple of what it may be."""
    first, second, *slopes = (found[name] for name in ("first", "second", "first'", "second'"))
    turned = any(np.allclose(slopes, (-sign * second, sign * first)) for sign in (1, -1))
    for name, of in DERIVATIVES.items():
        if turned and name in ("first'", "second'"):
            continue  # the velocity of Salimans and Ho, in the angle
        measure = partial(_quantity, at, of)
        compared = slope_compared(measure, times, found["time"] / times, found[name])
        yield WORDS[name], found[name], compared.slope, compared.off


def equal_functions(found: dict[str, Array]) -> Iterator[Claim]:
    """Functions that are one another, by the usage of those that some conventions define in several ways."""
    with np.errstate(all="ignore"):
        log_snr = np.log(found["snr"])
    ratio, noise = found["log alpha"] - found["log sigma"], -found["log sigma"]
    usages: dict[str, tuple[Array, tuple[Array, ...]]] = {
        "log snr of snr": (log_snr, (2 * ratio, ratio, 2 * noise, noise)),
        "log snr": (found["log snr"], (2 * ratio, ratio, 2 * noise, noise)),
        "log snr beside snr": (log_snr, (found["log snr"], 2 * found["log snr"])),
        "the share of data": (found["data"], (found["alpha"],)),
        "the share of noise": (found["noise"], (found["sigma"],)),
        "time of log snr": (found["time of log snr"], (found["time"],)),
        "time of sigma": (found["time of sigma"], (found["time"],)),
    }
    squared = found["time of squared snr"]
    by_snr = min((found["time of snr"], squared), key=partial(_distance, found["time"]))
    usages["time of snr"] = (by_snr, (found["time"],))
    for name, (one, expected) in usages.items():
        best = min(expected, key=partial(_distance, one))
        off = _apart(one, best)
        yield name, one, best, np.where(np.isfinite(off), off, 0.0)


def _apart(one: Array, other: Array) -> Array:
    return np.asarray(np.abs(one - other) / (SINGLE * (1 + np.abs(other))))


def _distance(one: Array, other: Array) -> float:
    """The largest of finite distances; infinite if there are none."""
    off = _apart(other, one)
    finite = off[np.isfinite(off)]
    return float(finite.max()) if len(finite) else np.inf


def _quantity(at: Callable[[Array], dict[str, Array]], name: str, some: Array) -> Array:
    return at(some)[name]
