"""Watching a training run: non-finite numbers, and laws that the model violates.

| module | contents |
|---|---|
| `pace` | when a check is due, within a share of the time |
| `calls` | the calls that training makes of a model, recorded |
| `operators` | the first operator with a non-finite result or gradient |
| `screens` | measures on a few rows that cost about a step; a law judges what they suspect |
| `cases` | the batch and the model in a folder that `flowref replay` reads |
| `modules` | the watch of a torch module |
| `lightning`, `functions` | the same as a callback of Lightning, and for a function in JAX |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowref.model import TargetError

if TYPE_CHECKING:
    from flowref.watching.functions import Steps
    from flowref.watching.modules import Watch

__all__ = ["steps", "watch"]


def watch(
    model: Any,
    every: int = 100,
    rows: int = 4,
    report: Callable[[str], Any] = print,
    folder: str | Path = ".flowref/watch",
) -> Watch:
    """Watch a torch module while a user's own loop trains it, by ``with flowref.watch(model):
    ...``.

    At each optimizer step of its parameters one gradient is checked; the first step with a
    non-finite number is traced to its operator. Every ``every`` steps, or less often to stay within
    one per cent of the time, the last batch's first ``rows`` rows go through the round trip, their
    log-det is compared with that of the Jacobian, and each row's result with its result in a batch
    of copies. ``report`` is called with each finding, one sentence; ``folder`` is where cases are
    saved. Training is never interrupted and its random state is unchanged.

    Raises `TargetError` if ``model`` is not a torch module, or a number is below 1.
    """
    from flowref.loading.ownership import framework

    if min(every, rows) < 1:
        raise TargetError(
            f"a watch needs every and rows of at least 1, and was given {every} and {rows}"
        )
    if not callable(getattr(model, "named_modules", None)) or framework(model).name != "torch":
        raise TargetError(
            f"a watch needs a torch module, and was given {type(model).__name__}; a function of parameters "
            "and a batch in JAX is watched by flowref.watching.steps"
        )
    from flowref.watching.modules import Watch

    return Watch(model, every, rows, report, Path(folder))


def steps(
    loss: Callable[[Any, Any], Any],
    every: int = 100,
    rows: int = 4,
    forward: Callable[[Any, Any], Any] | None = None,
    inverse: Callable[[Any, Any], Any] | None = None,
    report: Callable[[str], Any] = print,
) -> Steps:
    """Returns a watch for a loop in JAX, which calls it with ``(parameters, batch)`` at each step.

    ``loss(parameters, batch)`` returns a number; ``forward(parameters, x)``, with ``x`` ``(n,
    *event)``, returns values and log-dets ``(n,)``; ``inverse(parameters, z)`` returns values, or a
    tuple that begins with them. Every ``every`` steps, on ``rows`` rows, the loss and its gradients
    must be finite, the inverse must return the rows, and the log-det must be that of the Jacobian.
    """
    from flowref.watching.functions import Steps

    return Steps(loss, every, rows, forward, inverse, report)
