r"""Paths in time as maps of time: $t \mapsto x_t$, of which a velocity is the derivative.

A path may turn around, and a log-det has no sign. Seen from a frame that moves against it at a constant speed $c$,
faster than the path, the position $x_t + c t$ rises, and its log-det is $\log(u_t + c)$ of the velocity $u_t$.
"""

from __future__ import annotations

from typing import Any

# Times at which velocities of all schedules are finite, and by how much a frame is faster than what paths go between.
TIMES, FASTER = (0.02, 0.98), 8.0


def from_moving_frame(t: Any, x: Any, velocity: Any, ends: Any) -> tuple[Any, Any]:
    """The position and its log-det for times ``(batch, 1)``, from a frame that is faster than a path between ``ends``,
    ``(batch, n)``, with noise as one of them.
    """
    speed = FASTER * (1 + ends.abs().sum(-1))
    return x.reshape(t.shape) + speed[:, None] * t, (velocity.reshape(-1) + speed).log()
