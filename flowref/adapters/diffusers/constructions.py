"""Deterministic schedulers of Diffusers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions
from flowref.model import Shape

IMAGE: Shape = (1, 2, 2)
FREE = {"clip_sample": False}
SCALED = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}
# Name -> class, arguments and the number of steps. Left out: stochastic steps, and schedules with zero signal at the
# first step, from which data cannot be recovered.
SCHEDULERS: dict[str, tuple[str, dict[str, Any], int]] = {
    "DDIM": ("DDIMScheduler", FREE, 10),
    "DDIM[clip]": ("DDIMScheduler", {}, 10),
    "DDIM[sample]": ("DDIMScheduler", {**FREE, "prediction_type": "sample"}, 10),
    "DDIM[v_prediction]": ("DDIMScheduler", {**FREE, "prediction_type": "v_prediction"}, 10),
    "DDIM[cosine]": ("DDIMScheduler", {**FREE, "beta_schedule": "squaredcos_cap_v2"}, 10),
    "DDIM[linspace]": ("DDIMScheduler", {**FREE, "timestep_spacing": "linspace"}, 10),
    "DDIM[trailing]": ("DDIMScheduler", {**FREE, "timestep_spacing": "trailing"}, 10),
    "DDIM[trailing, 7 steps]": ("DDIMScheduler", {**FREE, "timestep_spacing": "trailing"}, 7),
    "EulerDiscrete": ("EulerDiscreteScheduler", SCALED, 10),
    "EulerDiscrete[karras]": ("EulerDiscreteScheduler", {**SCALED, "use_karras_sigmas": True}, 10),
    "HeunDiscrete": ("HeunDiscreteScheduler", SCALED, 6),
    "DPMSolverMultistep": ("DPMSolverMultistepScheduler", SCALED, 10),
    "DPMSolverMultistep[order 3]": ("DPMSolverMultistepScheduler", {**SCALED, "solver_order": 3}, 10),
    "DPMSolverSinglestep": ("DPMSolverSinglestepScheduler", SCALED, 10),
    "UniPCMultistep": ("UniPCMultistepScheduler", SCALED, 10),
    "DEISMultistep": ("DEISMultistepScheduler", SCALED, 10),
    "FlowMatchEulerDiscrete": ("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}, 10),
}  # fmt: skip


def scheduler(kind: str, options: dict[str, Any], steps: int) -> Callable[[], Any]:
    """Return a function that builds a scheduler with ``steps`` inference steps."""

    def make() -> Any:
        import diffusers

        made = getattr(diffusers, kind)(**options)
        made.set_timesteps(steps)
        return made

    return make


def schedulers() -> Constructions:
    """Return name -> (builder, event shape)."""
    return {name: (scheduler(*row), IMAGE) for name, row in SCHEDULERS.items()}


def inverses() -> Constructions:
    """Schedulers that add noise in steps."""
    return {"DDIMInverse": (scheduler("DDIMInverseScheduler", FREE, 10), IMAGE)}
