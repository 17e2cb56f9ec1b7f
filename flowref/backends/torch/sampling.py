"""The abilities of densities beyond their value: quantiles, base noise, estimates, rescaling,
losses and dequantization.

Each call is made on a fresh copy under fixed random states, as all abilities are (see `live`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from flowref.backends.torch.live import DTYPES, Live, array
from flowref.model import Array


def draw_base(live: Live, n: int, seed: int, context: Array | None = None) -> Array:
    """The base noise of n samples, with the global random state seeded as for samples."""
    speak = live.speech("base_sample")
    with live.lend() as obj, live.calling("base_sample"):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        with torch.no_grad():
            return np.asarray(array(speak(obj, n, live.tensor(context))))


def evaluate_cdf(live: Live, x: Array) -> Array:
    """The distribution function."""
    speak = live.speech("cdf")
    with live.lend() as obj, live.calling("cdf"):
        return np.asarray(array(speak(obj, live.tensor(x, support=live.facts.domain))))


def evaluate_icdf(live: Live, u: Array) -> Array:
    """The quantile function."""
    speak = live.speech("icdf")
    with live.lend() as obj, live.calling("icdf"):
        return np.asarray(array(speak(obj, live.tensor(u))))


def evaluate_estimate(
    live: Live, x: Array, draws: int, seed: int, context: Array | None = None
) -> Array:
    """The log-likelihood of each point as estimated from so many draws of the latents."""
    speak = live.speech("estimate")
    with live.lend() as obj, live.calling("estimate"):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        with torch.no_grad():
            return np.asarray(array(speak(obj, live.tensor(x), draws, live.tensor(context))))


def evaluate_rescaled(live: Live, x: Array, factor: float, context: Array | None = None) -> Array:
    """The log-density of the data multiplied by a factor."""
    rescale = live.speech("rescale")
    with live.calling("rescale"):
        return np.asarray(
            array(
                live.speech("log_prob")(
                    rescale(live.take(), factor), live.tensor(x), live.tensor(context)
                )
            )
        )


def evaluate_bits_per_dim(live: Live, x: Array, context: Array | None = None) -> Array:
    """The bits per dimension, as returned."""
    speak = live.speech("bits_per_dim")
    with live.lend() as obj, live.calling("bits_per_dim"):
        return np.asarray(array(speak(obj, live.tensor(x), live.tensor(context))))


def evaluate_loss(
    live: Live, x: Array, context: Array | None = None, weight: float = 1.0
) -> tuple[float, float | None]:
    """The negative log-likelihood and the penalty of a batch."""
    speak = live.speech("loss")
    with live.lend() as obj, live.calling("loss"):
        nll, penalty = speak(obj, live.tensor(x), live.tensor(context), weight)
        return float(nll), None if penalty is None else float(penalty)


def dequantize(live: Live, levels: Array, noise: Array, dtype: str | None = None) -> Array:
    """Levels to reals, in a dtype."""
    speak = live.speech("dequantize")
    wanted = DTYPES[dtype] if dtype else live.dtype
    with live.lend() as obj, live.calling("dequantize", wanted):
        given: Any = torch.from_numpy(np.array(noise)).to(wanted)
        return np.asarray(array(speak(obj, torch.from_numpy(np.array(levels)).to(wanted), given)))
