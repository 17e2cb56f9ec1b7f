r"""Calls of flow_matching.

Schedulers give $\alpha_t$ and $\sigma_t$; affine paths are $x_t = \alpha_t x_1 + \sigma_t x_0$ with the velocity
$u_t = \dot\alpha_t x_1 + \dot\sigma_t x_0$ of source $x_0$ and target $x_1$.
"""

from __future__ import annotations

from typing import Any

from flowref.adapters.common import moving_frames

# Tolerance of the adaptive solver.
ACCURACY = 1e-8
SOLVED = {"step_size": None, "method": "dopri5", "atol": ACCURACY, "rtol": ACCURACY}
# Contexts are mapped to times within this distance of 1/2.
HALF = 0.48


def ratio(obj: Any, t: Any, context: Any = None) -> Any:
    r"""The signal-to-noise ratio $\alpha_t / \sigma_t$ of a scheduler at times ``(batch, 1)``, and its log-det."""
    at = obj(t)
    slope = (at.d_alpha_t * at.sigma_t - at.alpha_t * at.d_sigma_t) / at.sigma_t**2
    return at.alpha_t / at.sigma_t, slope.log().sum(-1)


def ratio_inverse(obj: Any, snr: Any, context: Any = None) -> Any:
    t = obj.snr_inverse(snr)
    return t, -ratio(obj, t)[1]


def position(obj: Any, t: Any, context: Any) -> Any:
    """The path between the scalars of a context ``(batch, 2)`` at times ``(batch, 1)``, in a moving frame."""
    # In the shape of images, for which times of single rows are broadcast.
    x0, x1 = (one.reshape(-1, 1, 1, 1) for one in context.unbind(-1))
    there = obj.sample(x_0=x0, x_1=x1, t=t[:, 0])
    return moving_frames.from_moving_frame(t, there.x_t, there.dx_t, context)


def position_of_vector(obj: Any, t: Any, context: Any) -> Any:
    there = obj.sample(x_0=context[:, :1], x_1=context[:, 1:], t=t[:, 0])
    return moving_frames.from_moving_frame(t, there.x_t, there.dx_t, context)


def position_rescheduled(obj: Any, t: Any, context: Any) -> Any:
    from flow_matching.path import AffineProbPath

    x0, x1 = context[:, :1], context[:, 1:]
    x = AffineProbPath(obj.new_scheduler).sample(x_0=x0, x_1=x1, t=t[:, 0]).x_t
    return moving_frames.from_moving_frame(t, x, obj(x=x, t=t, x_1=x1), context)


def state(obj: Any, ends: Any, context: Any) -> Any:
    r"""$(x_0, x_1) \mapsto (x_t, u_t)$ on events ``(batch, 2, d)``, with its log-det."""
    x0, x1 = ends.unbind(1)
    there = obj.sample(x_0=x0, x_1=x1, t=_times(context)[:, 0])
    return _stacked(obj, context, there.x_t, there.dx_t, 1)


def state_of_target(obj: Any, ends: Any, context: Any) -> Any:
    x = _place(obj, ends, context)
    return _stacked(obj, context, x, obj.target_to_velocity(ends[:, 1], x, _times(context)), 1)


def state_of_noise(obj: Any, ends: Any, context: Any) -> Any:
    x = _place(obj, ends, context)
    return _stacked(obj, context, x, obj.epsilon_to_velocity(ends[:, 0], x, _times(context)), 1)


def ends(obj: Any, state: Any, context: Any) -> Any:
    """The inverse of `state`, by the conversions of a velocity to noise and target."""
    (x, velocity), t = state.unbind(1), _times(context)
    noise = obj.velocity_to_epsilon(velocity, x, t)
    return _stacked(obj, context, noise, obj.velocity_to_target(velocity, x, t), -1)


def ends_by_noise(obj: Any, state: Any, context: Any) -> Any:
    (x, velocity), t = state.unbind(1), _times(context)
    noise = obj.velocity_to_epsilon(velocity, x, t)
    return _stacked(obj, context, noise, obj.epsilon_to_target(noise, x, t), -1)


def ends_by_target(obj: Any, state: Any, context: Any) -> Any:
    (x, velocity), t = state.unbind(1), _times(context)
    target = obj.velocity_to_target(velocity, x, t)
    return _stacked(obj, context, obj.target_to_epsilon(target, x, t), target, -1)


def _times(context: Any) -> Any:
    r"""Times $1/2 + 0.48 \tanh c$ of contexts $c$, ``(batch, 1)``."""
    return 0.5 + HALF * context.tanh()


def _place(obj: Any, ends: Any, context: Any) -> Any:
    return obj.sample(x_0=ends[:, 0], x_1=ends[:, 1], t=_times(context)[:, 0]).x_t


def _stacked(obj: Any, context: Any, first: Any, second: Any, sign: int) -> Any:
    r"""Two vectors ``(batch, d)`` as events ``(batch, 2, d)``, with ``sign`` times the log-det of
    $(x_0, x_1) \mapsto (x_t, u_t)$, $d \log(\sigma \dot\alpha - \alpha \dot\sigma)$.
    """
    import torch

    at = obj.scheduler(_times(context)[:, 0])
    slope = at.sigma_t * at.d_alpha_t - at.alpha_t * at.d_sigma_t
    return torch.stack((first, second), 1), sign * first.shape[-1] * slope.log()


def exponential(obj: Any, u: Any, context: Any) -> Any:
    # On a flat torus the exponential map adds angles.
    return obj.expmap(obj.projx(context), u), u.new_zeros(len(u))


def logarithm(obj: Any, y: Any, context: Any) -> Any:
    return obj.logmap(obj.projx(context), y), y.new_zeros(len(y))


def to_source(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.compute_likelihood(x, _no_density, exact_divergence=True, enable_grad=True, **SOLVED)


def to_target(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.sample(z, enable_grad=True, **SOLVED), None


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return obj.compute_likelihood(x, base_log_prob_of, exact_divergence=True, enable_grad=True, **SOLVED)[1]  # fmt: skip


def sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample(base_sample(obj, n), **SOLVED)


def base_sample(obj: Any, n: int, context: Any = None) -> Any:
    import torch

    own = next(obj.parameters())
    return torch.randn(n, obj.velocity_model.features, dtype=own.dtype, device=own.device)


def base_log_prob(obj: Any, z: Any, context: Any = None) -> Any:
    return base_log_prob_of(z)


def base_log_prob_of(z: Any) -> Any:
    import math

    return -0.5 * (z.square() + math.log(2 * math.pi)).flatten(1).sum(-1)


def _no_density(z: Any) -> Any:
    return z.new_zeros(len(z))
