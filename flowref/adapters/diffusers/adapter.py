"""diffusers: schedulers, which with a perfect model lead noise back to the data that it was added to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.diffusers import calls, constructions
from flowref.model import REAL, Adapter, Component, Dialect, Facts, Shape, Support

# What comes back of data is the data, whatever the noise.
SCHEDULER = Dialect(forward=calls.there_and_back, inverse=calls.unchanged)
INVERSION = Dialect(forward=calls.inversion, inverse=calls.step_back)
# Tables of alphas and sigmas are of single precision: what a step loses of it, relative to the noise.
LOST = 2.0**-22
# Schedulers that draw no noise in their steps.
EXACT = {f"{row[0]}" for row in constructions.SCHEDULERS.values()}


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a scheduler without noise in its steps, or None."""
    names = lineage(obj)
    if "DDIMInverseScheduler" in names:
        return INVERSION
    return SCHEDULER if names & EXACT else None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a scheduler: data in the range that it clips to, and noise as a context."""
    event = event_shape or constructions.IMAGE
    domain = REAL
    if getattr(obj.config, "clip_sample", False):
        end = float(obj.config.clip_sample_range)
        domain = Support.parse((-end, end))
    signal = float(obj.alphas_cumprod[-1]) if hasattr(obj, "alphas_cumprod") else 1.0
    steps = obj.num_inference_steps or calls.STEPS
    lost = steps * LOST / math.sqrt(signal)
    promises = {"inverse-tolerance": lost, "volume-preserving": True, "elementwise": True}
    if "DDIMInverseScheduler" in lineage(obj):
        promises = {"inverse-tolerance": lost, "elementwise": True}
    return Facts(event, event, domain, context_shape=event, promises=promises)


def components() -> Mapping[str, Component]:
    """Schedulers, and the inverse of one."""
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
    extra="apps",
    healthy=lambda: ("DDIM", "DDIM[v_prediction]", "FlowMatchEulerDiscrete"),
)
