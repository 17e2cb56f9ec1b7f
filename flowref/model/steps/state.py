"""State of an object, and how it is copied, saved, restored, cast and rebuilt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from flowref.model.call import Mapped
from flowref.model.steps.calls import Run
from flowref.model.steps.life import Step

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class State(Step[Mapping[str, Array]]):
    """Parameters and buffers by name; tensor attributes for objects that are no modules."""


@dataclass(frozen=True)
class Weights(Step[Mapping[str, Array]]):
    """Trainable parameters, by name."""


@dataclass(frozen=True)
class Unregistered(Step[Sequence[str]]):
    """Leaves with gradients that are not registered parameters, reached through a list, dictionary, closure
    or plain attribute, with their paths.
    """


@dataclass(frozen=True, eq=False)
class Sway(Step[Sequence[Mapped]]):
    """The results of runs while one of the `Unregistered` leaves is moved; it is restored."""

    path: str
    runs: Sequence[Run]
    scale: float


@dataclass(frozen=True)
class Counters(Step[Mapping[str, float]]):
    """Numbers held by modules as plain attributes, by dotted name."""


@dataclass(frozen=True)
class Count(Step[None]):
    """Set one of the `Counters`."""

    name: str
    value: float


@dataclass(frozen=True)
class Construction:
    """Side effects of construction: process-wide settings that changed, and random generators that a
    constructor seeded.
    """

    globals: tuple[str, ...]
    seeded: tuple[str, ...]


@dataclass(frozen=True)
class Construct(Step[Construction]):
    """Build another object as the first was, without restoring global state before the changes are
    recorded.
    """


@dataclass(frozen=True)
class Inherited(Step[Sequence[str]]):
    """Parts of another object that its classes hold, as default arguments or class attributes, so that all
    objects share them.
    """


@dataclass(frozen=True)
class Reload(Step[None]):
    """Load the state_dict strictly into a newly built object, which is used from then on. ``number``: an
    index of that object, each with its own random state.
    """

    number: int = 0


@dataclass(frozen=True)
class Save(Step[None]):
    """Save the state_dict."""


@dataclass(frozen=True)
class Restore(Step[None]):
    """Load the last saved state_dict strictly."""


@dataclass(frozen=True)
class Rounded(Step[None]):
    """Round all floating parameters and buffers to another dtype."""

    dtype: str


@dataclass(frozen=True)
class Deepcopy(Step[None]):
    """Use a deep copy from now on."""


@dataclass(frozen=True)
class Branch(Step[None]):
    """Deep copy the object and move the copy's parameters as `Nudge` does; the original is used from then
    on.
    """

    seed: int
    scale: float


@dataclass(frozen=True)
class Pickle(Step[None]):
    """Use the unpickled object from now on."""


@dataclass(frozen=True)
class TorchSave(Step[None]):
    """Use the object loaded from the framework's own file format from now on."""


@dataclass(frozen=True)
class Fold(Step[None]):
    """Call a method without arguments that folds layers for inference; use the returned module, else the
    object. Raises `Unsupported` if there is none.
    """


@dataclass(frozen=True)
class Graphs(Step[Mapping[str, bool]]):
    """Names of buffers and tensor attributes that hold an autograd graph, each True."""


@dataclass(frozen=True)
class Cast(Step[None]):
    """``.to(dtype)``; later calls get inputs of that dtype."""

    dtype: str


@dataclass(frozen=True)
class Dtypes(Step[Mapping[str, str]]):
    """The dtypes of floating parameters and buffers."""


@dataclass(frozen=True)
class Likeness:
    """Whether a class defines equality, and which unrelated objects compare equal: a bare object, and
    transforms that compute something else.
    """

    own: bool
    strangers: tuple[str, ...]


@dataclass(frozen=True)
class Compare(Step[Likeness]):
    """Compare the object with objects that it cannot equal."""


@dataclass(frozen=True)
class CountTensors(Step[int]):
    """The number of live tensors in the process, after a garbage collection."""
