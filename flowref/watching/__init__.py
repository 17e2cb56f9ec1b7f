"""Training watched while it runs: what is not finite, and which laws the model breaks.

| module | holds |
|---|---|
| `pace` | at which steps a check is due, within a share of the time |
| `calls` | the calls of a model that training makes, recorded |
| `operators` | the first operator whose result, or whose gradient, is not finite |
| `screens` | measures on a few rows that take about a step; what they suspect is judged by a law |
| `cases` | the batch and the model in a folder that `flowref replay` reads |
| `modules` | the watch of a torch module |
| `lightning`, `functions` | the same as a callback of Lightning, and of a function in JAX |
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
    """Watch a torch module while a user's own loop trains it, by ``with flowref.watch(model): ...``.

    At each step of an optimizer of its parameters a gradient is looked at; the first step that is
    not finite is traced to its operator. Each ``every`` steps, or as seldom as keeps the watch
    within one per cent of the time, ``rows`` rows of the last batch are mapped there and back, their
    log-det is compared with that of the Jacobian, and rows are compared with themselves alone. ``report``
    is called with each finding, one sentence; ``folder`` is where cases are saved. The training is never
    interrupted and its random state is left as it is.

    Raises: `TargetError` where ``model`` is no torch module, or a number is below 1.
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
    """Watch a loop in JAX, which calls what is returned with ``(parameters, batch)`` at each step.

    ``loss(parameters, batch)`` is a number; ``forward(parameters, x)`` returns values and log-dets of rows, and
    ``inverse(parameters, z)`` values, or a pair that begins with them. Each ``every`` steps the loss of ``rows`` rows and
    its gradients must be finite, the round trip return, and the log-det be that of the Jacobian.
    """
    from flowref.watching.functions import Steps

    return Steps(loss, every, rows, forward, inverse, report)
