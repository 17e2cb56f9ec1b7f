"""Modes, calls and training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from flowref.model.call import How, Mapped
from flowref.model.steps.life import Step

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ModeChange:
    """The effect of ``.train()`` or ``.eval()``.

    ``returned_self``: whether it returned the module; ``recursed``: whether every submodule is in the mode;
    ``raised``: the error if a flag hides the method (the mode is then set by the flag), or "".
    """

    returned_self: bool
    recursed: bool
    raised: str


@dataclass(frozen=True)
class Train(Step[ModeChange]):
    """``.train()``."""


@dataclass(frozen=True)
class Eval(Step[ModeChange]):
    """``.eval()``."""


@dataclass(frozen=True)
class Modes(Step[Mapping[str, bool]]):
    """The training flag of every module, by name."""


@dataclass(frozen=True, eq=False, init=False)
class Run(Step[Mapped]):
    """A call in the current mode, with the inputs of the `Call` of its name.

    ``how``: also "no_grad", "inference_mode" or "checkpoint". ``draws``: an index of its random state, None
    for one by its place in the life. ``held``: reuse the tensors of earlier held runs with the same arrays,
    as the last `Overwrite` left them. ``kept``: keep the result for `Reread`.
    """

    call: str
    inputs: tuple[Any, ...]
    how: How
    draws: int | None
    held: bool
    kept: bool

    def __init__(
        self,
        call: str,
        *inputs: Any,
        how: How = "plain",
        draws: int | None = None,
        held: bool = False,
        kept: bool = False,
    ) -> None:
        fields = {"call": call, "inputs": inputs, "how": how, "draws": draws}
        fields |= {"held": held, "kept": kept}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def x(self) -> Any:
        """Its first input: the points, if it takes points."""
        return self.inputs[0]


@dataclass(frozen=True, eq=False)
class Reread(Step[Mapped]):
    """The current value of an earlier kept result."""

    run: Run


@dataclass(frozen=True, eq=False)
class Overwrite(Step[None]):
    """Overwrite in place the tensor that held runs get for an array."""

    array: Any
    values: Any


@dataclass(frozen=True)
class Trained:
    """The loss of an optimizer step, and the gradient of each trainable parameter or None."""

    loss: float
    gradients: Mapping[str, Array | None]


@dataclass(frozen=True, eq=False)
class Learn(Step[Trained]):
    """One step of stochastic gradient descent, of size ``rate``, on the negative log-likelihood.

    ``center``: the mean of the normal base of a map without density; its gradient there is zero.
    """

    x: Any
    context: Any = None
    center: float = 0.0
    rate: float = 1e-2


@dataclass(frozen=True)
class Fitted:
    """The losses of the training steps, and the error of the next one, or ""."""

    losses: tuple[float, ...]
    error: str


@dataclass(frozen=True)
class Fit(Step[Fitted]):
    """Some 30 steps of Adam on the log-likelihood; the trained object is used from then on, in eval mode."""


@dataclass(frozen=True)
class Nudge(Step[None]):
    """Move trainable parameters in place along a seeded direction, as an optimizer does."""

    seed: int
    scale: float
