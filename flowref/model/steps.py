"""The life of one object, as typed steps with typed outcomes: the ability behind the laws of mode
and state.

A life is a list of steps, played in order on one private copy; `Life` holds their outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy.typing as npt

from flowref.model.call import How, Mapped

Array = npt.NDArray[Any]
Out = TypeVar("Out", covariant=True)


@dataclass(frozen=True)
class Step(Generic[Out]):
    """One step of a life, whose outcome is an ``Out``."""


class Life(Sequence[Any]):
    """The outcomes of a list of steps, in their order; ``life.of(step)`` is that of one step."""

    def __init__(self, steps: Sequence[Step[Any]], outcomes: Sequence[Any]) -> None:
        self.steps, self.outcomes = tuple(steps), tuple(outcomes)

    def __getitem__(self, index: Any) -> Any:
        return self.outcomes[index]

    def __len__(self) -> int:
        return len(self.outcomes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.outcomes)

    def of(self, step: Step[Out]) -> Out:
        """The outcome of one of the steps, told apart by identity."""
        index = next(index for index, other in enumerate(self.steps) if other is step)
        outcome: Out = self.outcomes[index]
        return outcome


# Outcomes


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
class Trained:
    """The loss of an optimizer's step, and the gradient of each trainable parameter or None."""

    loss: float
    gradients: Mapping[str, Array | None]


@dataclass(frozen=True)
class Fitted:
    """The losses of the training steps that were made, and what the next one raised, or ""."""

    losses: tuple[float, ...]
    error: str


@dataclass(frozen=True)
class Pulled:
    """Value of the normalizing call and of its vector-Jacobian product; None where there is none."""

    value: Array
    x: Array | None
    weight: Array | None
    bias: Array | None


@dataclass(frozen=True)
class Drawn:
    """Samples, whether they carry a graph, and the derivative along a direction of `Pathwise`."""

    value: Array
    graph: bool
    slope: float = 0.0


@dataclass(frozen=True)
class Construction:
    """What building an object does besides: names of the process-wide settings that changed, and of
    the random generators that one of its constructors seeded.
    """

    globals: tuple[str, ...]
    seeded: tuple[str, ...]


@dataclass(frozen=True)
class Passed:
    """One run of a module within a call: what entered it and what it returned.

    ``name``: "" for the whole call.
    """

    name: str
    entered: Array | None
    value: Array
    ladj: Any


# Modes and calls


@dataclass(frozen=True)
class Train(Step[ModeChange]):
    """``.train()``."""


@dataclass(frozen=True)
class Eval(Step[ModeChange]):
    """``.eval()``."""


@dataclass(frozen=True, eq=False, init=False)
class Run(Step[Mapped]):
    """A call in the current mode, with the inputs that a `Call` of its name takes.

    ``how``: also under "no_grad", "inference_mode", "checkpoint". ``draws``: the random state that
    it starts in, the same for the same number; None: one of its own, by its place in the life.
    ``held``: the inputs are the very tensors of earlier held runs with the same arrays, as the last
    `Overwrite` left them.
    """

    call: str
    inputs: tuple[Any, ...]
    how: How
    draws: int | None
    held: bool

    def __init__(
        self,
        call: str,
        *inputs: Any,
        how: How = "plain",
        draws: int | None = None,
        held: bool = False,
    ) -> None:
        fields = {"call": call, "inputs": inputs, "how": how, "draws": draws, "held": held}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def x(self) -> Any:
        """Its first input: the points, of a call that takes some."""
        return self.inputs[0]


@dataclass(frozen=True, eq=False)
class Overwrite(Step[None]):
    """The tensor that held runs have been given for an array takes other values, in place."""

    array: Any
    values: Any


@dataclass(frozen=True)
class Modes(Step[Mapping[str, bool]]):
    """The training flag of every module, by name."""


@dataclass(frozen=True, eq=False)
class Learn(Step[Trained]):
    """One step of stochastic gradient descent, of size 1e-2, on the negative log-likelihood."""

    x: Any
    context: Any = None


@dataclass(frozen=True)
class Fit(Step[Fitted]):
    """Some 30 steps of Adam on its own log-likelihood; the trained object lives on, in eval mode."""


@dataclass(frozen=True)
class Nudge(Step[None]):
    """Trainable parameters moved in place along a seeded direction, as an optimizer does."""

    seed: int
    scale: float


# State


@dataclass(frozen=True)
class State(Step[Mapping[str, Array]]):
    """Parameters and buffers by name; tensor attributes, for what is no module."""


@dataclass(frozen=True)
class Weights(Step[Mapping[str, Array]]):
    """The parameters that are trained, by name."""


@dataclass(frozen=True)
class Unregistered(Step[Sequence[str]]):
    """Where the object reaches leaves that require a gradient and are none of its parameters:
    through a list, a dictionary, a closure, a plain attribute. ``path`` of `Sway` takes such a name.
    """


@dataclass(frozen=True, eq=False)
class Sway(Step[Sequence[Mapped]]):
    """What some runs return while one of the `Unregistered` leaves is moved; it is put back."""

    path: str
    runs: Sequence[Run]
    scale: float


@dataclass(frozen=True)
class Construct(Step["Construction"]):
    """Another object is built, as the first was, with nothing around it put back before it is seen
    what it changed.
    """


@dataclass(frozen=True)
class Reload(Step[None]):
    """The state_dict goes into a newly built object, strictly, which lives on."""


@dataclass(frozen=True)
class Save(Step[None]):
    """The state_dict is kept."""


@dataclass(frozen=True)
class Restore(Step[None]):
    """The state_dict that was kept last goes back into the object, strictly."""


@dataclass(frozen=True)
class Rounded(Step[None]):
    """Every floating parameter and buffer takes the value that it has in another dtype."""

    dtype: str


@dataclass(frozen=True)
class Deepcopy(Step[None]):
    """The deep copy lives on."""


@dataclass(frozen=True)
class Pickle(Step[None]):
    """What comes back from pickling lives on."""


@dataclass(frozen=True)
class TorchSave(Step[None]):
    """What comes back from the framework's own file format lives on."""


@dataclass(frozen=True)
class Graphs(Step[Mapping[str, bool]]):
    """Names of buffers and tensor attributes that hold an autograd graph, each True."""


@dataclass(frozen=True)
class Cast(Step[None]):
    """``.to(dtype)``, after which calls are given inputs of that dtype."""

    dtype: str


@dataclass(frozen=True)
class Dtypes(Step[Mapping[str, str]]):
    """The dtype of every floating parameter and buffer."""


@dataclass(frozen=True)
class Meta(Step[Mapping[str, str]]):
    """The device of every tensor the object holds, after ``.to("meta")``."""


@dataclass(frozen=True)
class CountTensors(Step[int]):
    """How many tensors are alive in the process, after a garbage collection."""


# Batch normalization


@dataclass(frozen=True)
class Roles(Step[Mapping[str, Any]]):
    """Array or number of each role of a batch normalizer (see `Normalizer`); absent ones None."""


@dataclass(frozen=True, eq=False)
class Assign(Step[None]):
    """A parameter, buffer or constant of a batch normalizer is set in place."""

    role: str
    value: Any


@dataclass(frozen=True, eq=False)
class Normalize(Step[Array]):
    """The value of the call that normalizes, in the current mode."""

    x: Any
    how: How = "plain"


@dataclass(frozen=True, eq=False)
class Pullback(Step[Pulled]):
    """The normalizing call and its vector-Jacobian product with a cotangent."""

    x: Any
    cotangent: Any


# Inside a map


@dataclass(frozen=True, eq=False)
class Layers(Step[Mapping[str, int]]):
    """How often every sub-bijection that has parameters runs in one call."""

    call: str
    x: Any
    context: Any = None


@dataclass(frozen=True, eq=False)
class Trace(Step[Sequence[Passed]]):
    """Each run of the named modules in a call; the call itself comes last."""

    call: str
    x: Any
    context: Any
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class Cut(Step[Sequence[Array]]):
    """Gradients of a call's value times each cotangent, for what a named module gives."""

    call: str
    x: Any
    context: Any
    name: str
    cotangents: Sequence[Any] = field(default_factory=tuple)


@dataclass(frozen=True, eq=False)
class Parameters(Step[Array]):
    """What the conditioner of a coupling gives in one call, ``(rows, numbers)``."""

    call: str
    x: Any
    context: Any = None


@dataclass(frozen=True)
class Bend(Step[None]):
    """From here on the conditioner of a coupling gives something else.

    ``how``: "folded": its absolute value with no graph, a function that is not injective and has no
    derivative; "kept": the same as before, plus ``size`` for entries that are kept.
    """

    how: str
    size: float = 0.0


# Samples


@dataclass(frozen=True)
class Draw(Step[Drawn]):
    """Samples, with gradients recorded."""

    n: int


@dataclass(frozen=True, eq=False)
class Pathwise(Step[Drawn]):
    """Reparameterized samples, and autograd's derivative of the sum of weights times samples in the
    direction in which `Nudge` of the same seed moves.
    """

    n: int
    weights: Any
    seed: int
