"""What an object keeps, and how it is copied, saved, restored, cast and built again."""

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
class Counters(Step[Mapping[str, float]]):
    """The numbers that the modules of the object hold as plain attributes, by dotted name."""


@dataclass(frozen=True)
class Count(Step[None]):
    """One of the `Counters` is set."""

    name: str
    value: float


@dataclass(frozen=True)
class Construction:
    """What building an object does besides: names of the process-wide settings that changed, and of
    the random generators that one of its constructors seeded.
    """

    globals: tuple[str, ...]
    seeded: tuple[str, ...]


@dataclass(frozen=True)
class Construct(Step[Construction]):
    """Another object is built, as the first was, with nothing around it put back before it is seen
    what it changed.
    """


@dataclass(frozen=True)
class Inherited(Step[Sequence[str]]):
    """Parts of another object, built as the first was, that its classes hold: as the default of an
    argument of a constructor, or as an attribute of the class. All objects of the class share them.
    """


@dataclass(frozen=True)
class Reload(Step[None]):
    """The state_dict goes into a newly built object, strictly, which lives on. ``number``: which of the
    objects that may be built, of which each draws what it draws anew.
    """

    number: int = 0


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
class Branch(Step[None]):
    """A deep copy is made, and its trainable parameters move as by `Nudge`; the object lives on."""

    seed: int
    scale: float


@dataclass(frozen=True)
class Pickle(Step[None]):
    """What comes back from pickling lives on."""


@dataclass(frozen=True)
class TorchSave(Step[None]):
    """What comes back from the framework's own file format lives on."""


@dataclass(frozen=True)
class Fold(Step[None]):
    """A method that takes nothing folds layers into one another, as for inference: the module that it returns
    lives on, or else the object. Raises `Unsupported` where there is none.
    """


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
class Likeness:
    """Whether a class says itself what it is equal to, and which strangers an object of it is equal
    to: a bare object, and transforms that do different things.
    """

    own: bool
    strangers: tuple[str, ...]


@dataclass(frozen=True)
class Compare(Step[Likeness]):
    """The object, compared with what it cannot be."""


@dataclass(frozen=True)
class CountTensors(Step[int]):
    """How many tensors are alive in the process, after a garbage collection."""
