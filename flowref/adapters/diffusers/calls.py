r"""Calls of Diffusers schedulers: noise is added in one call and removed in steps, with the exact model of the data
$x$ and the noise $\epsilon$, $x_t = \alpha_t x + \sigma_t \epsilon$.
"""

from __future__ import annotations

import copy
import math
from typing import Any

from flowref.adapters.common.object_components import lineage

# Steps of a scheduler without `set_timesteps`.
STEPS = 10


def there_and_back(obj: Any, x: Any, context: Any) -> Any:
    scheduler = copy.deepcopy(obj)  # steps are counted
    scheduler.set_timesteps(scheduler.num_inference_steps or STEPS)
    state = noised(scheduler, x, context, scheduler.timesteps[:1])
    for t in scheduler.timesteps:
        if hasattr(scheduler, "scale_model_input"):
            scheduler.scale_model_input(state, t)
        state = scheduler.step(prediction(scheduler, x, context, t), t, state).prev_sample
    return state, None


def without_noise(obj: Any, y: Any, context: Any) -> Any:
    signal, noise = last_level(obj)
    return (y - noise * context) / signal, None


def last_level(scheduler: Any) -> tuple[float, float]:
    r"""$\alpha$ and $\sigma$ of the result of the last step; 1 and 0 for most schedulers."""
    if hasattr(scheduler, "final_alpha_cumprod"):
        alpha = float(scheduler.final_alpha_cumprod)
        return math.sqrt(alpha), math.sqrt(1 - alpha)
    last = scheduler.sigmas[-1]
    if hasattr(scheduler, "_sigma_to_alpha_sigma_t"):
        signal, noise = scheduler._sigma_to_alpha_sigma_t(last)
        return float(signal), float(noise)
    return 1 - follows_flow(scheduler) * float(last), float(last)


def noised(scheduler: Any, x: Any, noise: Any, t: Any) -> Any:
    r"""$x_t = \alpha_t x + \sigma_t \epsilon$, of the shape of ``x``."""
    times = t.expand(len(x))
    if follows_flow(scheduler):
        return scheduler.scale_noise(x, times, noise)
    return scheduler.add_noise(x, noise, times)


def prediction(scheduler: Any, x: Any, noise: Any, t: Any) -> Any:
    r"""The exact prediction of the model: $\epsilon$, $x$, $\epsilon - x$ or the velocity, by prediction type."""
    if follows_flow(scheduler):
        return noise - x
    kind = scheduler.config.prediction_type
    if kind == "v_prediction":
        return scheduler.get_velocity(x, noise, t.long().expand(len(x)))
    if kind == "flow_prediction":
        return noise - x
    return x if kind == "sample" else noise


def follows_flow(scheduler: Any) -> bool:
    """Whether the scheduler is one of flow matching, whose models predict velocities."""
    return any("FlowMatch" in name for name in lineage(scheduler))


def inversion(obj: Any, x: Any, context: Any) -> Any:
    scheduler, _ = _pair(obj)
    return scheduler.step(context, _middle(scheduler), x).prev_sample, None


def step_back(obj: Any, y: Any, context: Any) -> Any:
    inverse, scheduler = _pair(obj)
    return scheduler.step(context, _middle(inverse), y).prev_sample, None


def _pair(obj: Any) -> tuple[Any, Any]:
    """The inverse scheduler and the DDIM scheduler that it inverts, with the same steps."""
    from diffusers import DDIMScheduler

    inverse = copy.deepcopy(obj)
    pair = inverse, DDIMScheduler.from_config(obj.config)
    for scheduler in pair:
        scheduler.set_timesteps(obj.num_inference_steps or STEPS)
    return pair


def _middle(inverse: Any) -> int:
    return int(inverse.timesteps[len(inverse.timesteps) // 2])
