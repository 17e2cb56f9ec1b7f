"""Diffusers: deterministic schedulers. With the exact model of one data point, denoising returns that point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.diffusers import calls, constructions
from flowref.model import REAL, Adapter, Component, Dialect, Facts, Shape, Support

# Denoised data are the data, up to the noise of the last step.
SCHEDULER = Dialect(forward=calls.there_and_back, inverse=calls.without_noise)
INVERSION = Dialect(forward=calls.inversion, inverse=calls.step_back)
# Rounding error of a step relative to the noise: tables of alphas and sigmas are float32.
LOST = 2.0**-22
# Schedulers with deterministic steps.
EXACT = {kind for kind, *_ in constructions.SCHEDULERS.values()}
# Configurations that are not supported: stochastic steps, reversed sigmas, zero signal at the first step.
UNLIKE = ("stochastic_sampling", "invert_sigmas", "rescale_betas_zero_snr")


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a deterministic scheduler, or None."""
    names = lineage(obj)
    if not names & EXACT | names & {"DDIMInverseScheduler"} or _unsupported(obj):
        return None
    return INVERSION if "DDIMInverseScheduler" in names else SCHEDULER


def _unsupported(obj: Any) -> bool:
    config = obj.config
    unseen = config.get("prediction_type") == "v_prediction" and not hasattr(obj, "get_velocity")
    drawn = str(config.get("algorithm_type", "")).startswith("sde")
    return drawn or unseen or any(config.get(name) for name in UNLIKE)


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a scheduler: events in the range that it clips to, noise of the event shape as context."""
    event = event_shape or constructions.IMAGE
    domain = REAL
    if obj.config.get("thresholding"):
        domain = Support.parse((-1.0, 1.0))
    elif obj.config.get("clip_sample"):
        end = float(obj.config.clip_sample_range)
        domain = Support.parse((-end, end))
    signal = float(obj.alphas_cumprod[-1]) if hasattr(obj, "alphas_cumprod") else 1.0
    steps = obj.num_inference_steps or calls.STEPS
    lost = steps * LOST / math.sqrt(signal)
    promises = {"inverse-tolerance": lost, "constant-jacobian": True, "elementwise": True}
    return Facts(event, event, domain, context_shape=event, promises=promises)


def components() -> Mapping[str, Component]:
    """Schedulers, and the inverse scheduler of DDIM."""
    return {
        **components_of(constructions.schedulers(), SCHEDULER, describe),
        **components_of(constructions.inverses(), INVERSION, describe),
    }


ADAPTER = Adapter(
    name="diffusers",
    package="diffusers",
    title="Diffusers",
    components=components,
    recognizes=recognizes,
    describe=describe,
    # "Upcast to avoid precision issues when computing prev_sample", of half precision.
    single_precision=("diffusers.schedulers",),
    extra="apps",
    healthy=lambda: ("DDIM", "DDIM[v_prediction]", "FlowMatchEulerDiscrete"),
)
