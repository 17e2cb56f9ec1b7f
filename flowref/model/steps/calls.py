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
    """What ``.train()`` or ``.eval()`` did.

    ``returned_self``: whether it returned the module; ``recursed``: whether every submodule is in
    the mode; ``raised``: what a flag that hides the method makes it raise (the mode is then set by
    the flag), or "".
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
    """A call in the current mode, with the inputs that a `Call` of its name takes.

    ``how``: also under "no_grad", "inference_mode", "checkpoint". ``draws``: the random state that
    it starts in, the same for the same number; None: one of its own, by its place in the life.
    ``held``: the inputs are the very tensors of earlier held runs with the same arrays, as the last
    `Overwrite` left them. ``kept``: what it returns is held on to, for `Reread`.
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
        """Its first input: the points, of a call that takes some."""
        return self.inputs[0]


@dataclass(frozen=True, eq=False)
class Reread(Step[Mapped]):
    """What an earlier run returned and was kept, as it is now."""

    run: Run


@dataclass(frozen=True, eq=False)
class Overwrite(Step[None]):
    """The tensor that held runs have been given for an array takes other values, in place."""

    array: Any
    values: Any


@dataclass(frozen=True)
class Trained:
    """The loss of an optimizer's step, and the gradient of each trainable parameter or None."""

    loss: float
    gradients: Mapping[str, Array | None]


@dataclass(frozen=True, eq=False)
class Learn(Step[Trained]):
    """One step of stochastic gradient descent, of size ``rate``, on the negative log-likelihood.

    ``center``: the mean of the normal base that a map is trained to, at which its gradient is none.
    """

    x: Any
    context: Any = None
    center: float = 0.0
    rate: float = 1e-2


@dataclass(frozen=True)
class Fitted:
    """The losses of the training steps that were made, and what the next one raised, or ""."""

    losses: tuple[float, ...]
    error: str


@dataclass(frozen=True)
class Fit(Step[Fitted]):
    """Some 30 steps of Adam on its own log-likelihood; the trained object lives on, in eval mode."""


@dataclass(frozen=True)
class Nudge(Step[None]):
    """Trainable parameters moved in place along a seeded direction, as an optimizer does."""

    seed: int
    scale: float
