"""What a framework must offer so that its objects can be audited.

A dozen verbs: `Backend.owns`, ``sandbox``, ``duplicate``, ``fingerprint``, ``cast``, ``state_shapes``, ``tensor``,
``array`` and ``subject``, with its ``name`` and what it ``requires``; ``noise`` where code outside of subjects
can be rounded. What else a backend is asked for has an answer here, of a framework that compiles nothing, takes
one thread, has no other device and no modes, and whose operations are not counted; one of which that is not true
gives its own.

``subject`` makes calls, Jacobians and noise of a dialect's functions. The rest is written once, in verbs:

- `flowref.backends.lives.ScenarioObject`: lives, of what is called, held, changed, saved and put back;
- `flowref.backends.training.Trainee`: training, of gradients and moves;
- `flowref.backends.result_cache`: results that laws share; `flowref.backends.parts`: parts, and what combines them;
  `flowref.backends.data`: points on either side of a map.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol, TypeVar

from flowref.model import (
    Array,
    Condition,
    Cost,
    Dialect,
    Facts,
    Shape,
    Subject,
    TargetError,
    Unsupported,
)
from flowref.model.graph import TracedCall

T = TypeVar("T")


class Wish(Enum):
    """What code wanted of another device than the processor: nothing, or what it was refused, or given on
    the processor.
    """

    NONE = "none"
    REFUSED = "refused"
    GRANTED = "granted"


class Counter(Protocol):
    """How many operations have run since the count began."""

    @property
    def operations(self) -> int:
        """The number of operations so far."""

    @property
    def readings(self) -> int:
        """How often trained parameters were read, in the median: a solver reads them at every step."""

    @property
    def rows(self) -> int:
        """The most rows of a product of matrices, or positions of a convolution: a quadrature evaluates its
        integrand at all nodes at once.
        """

    @property
    def rounds(self) -> bool:
        """Whether numbers were rounded to whole ones."""

    @property
    def unknown(self) -> Set[str]:
        """The names of operations with floating results of which nothing says whether they round."""


@dataclass(frozen=True)
class Blueprint:
    """What the subjects of one target are made of.

    ``build``: a new object at each call; ``resolve``: the dialect of a part of a composite, or None.
    ``rebuild_seed`` decides the random state in which laws of state have the object built anew. User code is
    built anew in another one: what it draws while it is built, and does not save, is lost when it is loaded
    in another process.
    """

    name: str
    build: Callable[[], Any]
    dialect: Dialect
    facts: Facts
    resolve: Callable[[Any], Dialect | None] = lambda _: None
    rebuild_seed: int = 3


@dataclass(frozen=True)
class Uncounted:
    """A `Counter` of what nobody counts."""

    operations: int = 0
    readings: int = 0
    rows: int = 0
    rounds: bool = False
    unknown: Set[str] = frozenset()


class Backend(Protocol):
    """A framework: how its live objects are kept, moved between dtypes, called and made subjects.

    A module that offers one derives from this class, and imports the framework inside functions only, so
    that naming a backend loads nothing. Dtypes are given by name, "float32" or "float64".
    """

    # As adapters name it in ``Adapter.backend``, and the import name of the framework.
    name: str
    requires: str
    # Whether objects have a train mode and an eval mode.
    modes: bool = False

    def owns(self, obj: Any) -> bool:
        """Whether a live object is of this framework: by its class, or by the arrays it holds."""

    def sandbox(self, seed: int, dtype: str | None = None) -> AbstractContextManager[Any]:
        """Run foreign code in fixed random states and with a default dtype; what it changes in the
        process (settings, random states) is put back afterwards, and what it prints is kept off
        the screen.
        """

    def duplicate(self, obj: Any) -> Any:
        """An independent copy of a live object."""

    def paired(self, obj: tuple[Any, ...]) -> Any:
        """One map of two objects of which each is the inverse of the other; None of other tuples."""
        return None

    def fingerprint(self, obj: Any) -> str:
        """A hexadecimal digest of an object's class and arrays, equal where they are, bit for bit."""

    def cast(self, obj: Any, dtype: str) -> Any:
        """The object with its floating arrays in another dtype; it may be changed in place."""

    def state_shapes(self, obj: Any) -> Sequence[Shape]:
        """The shapes of the arrays that an object holds as its state, in a fixed order."""

    def tensor(self, array: Array, dtype: str) -> Any:
        """An array of the framework from one of numpy."""

    def array(self, value: Any) -> Any:
        """An array of numpy from one of the framework; Python numbers stay what they are."""

    def subject(self, made_of: Blueprint, condition: Condition) -> Subject:
        """The subject of what a blueprint builds, in a condition."""

    def noise(self, seed: int, magnitude: float) -> AbstractContextManager[Any]:
        """Round each floating-point operation that runs inside at random, by a relative error of up
        to ``magnitude``. Here: `Unsupported`, of what is rounded within subjects only (see `Subject.noise`).
        """
        raise Unsupported(f"code of {self.name} is rounded at random within subjects only")

    def versions(self) -> Mapping[str, str]:
        """Distribution -> version, of what decides results: the framework, by its name."""
        return {self.requires: importlib.metadata.version(self.requires)}

    def worker_setup(self) -> None:
        """Prepare a worker process: import the framework, and let it use one thread."""
        importlib.import_module(self.requires)

    def single_threaded(self) -> AbstractContextManager[Any]:
        """Compute with one thread, and with as many as before afterwards. Nothing happens where the
        framework is not imported, or fixes their number once and for all.
        """
        return nullcontext()

    def lacks(self, device: str) -> str:
        """Why objects cannot be moved to a device of a name here; empty where they can."""
        return f"objects of {self.name} are not moved to devices"

    def elsewhere(self) -> Wish:
        """What code in sandboxes wanted of another device since this was last asked. What it was refused
        it is given on the processor from now on, as long as the process lasts.
        """
        return Wish.NONE

    def importing(self) -> AbstractContextManager[Any]:
        """The circumstances in which code of a user that names the framework is imported: where
        constants take their precision from a setting, that in which they are judged.
        """
        return nullcontext()

    def building(self) -> AbstractContextManager[Any]:
        """The circumstances in which builders of libraries are called, which draw weights and train none:
        where operations are compiled one by one, these are not.
        """
        return nullcontext()

    def sparing(self, run: Callable[[], T], of: Any = None) -> T:
        """What foreign code gives that is called for what it returns, and not differentiated by
        whoever calls it: as little as can be is kept for a way back. ``of``: an object that it calls
        over and over; what comes of its arrays alone may be computed once.
        """
        return run()

    def once(self, function: Callable[..., T], *args: Any) -> T:
        """What a function of arrays, and of objects that hold some, gives that is called with such ones this
        once: nothing is compiled for it.
        """
        return function(*args)

    def set_mode(self, obj: Any, training: bool) -> None:
        """Put an object into train or eval mode, where it has modes."""
        return

    def load_weights(self, obj: Any, path: Path, key: str) -> None:
        """Put the weights of a file into an object, in place, to the last bit; ``key``: which of
        several in it. Raises `TargetError` in one sentence where they do not fit.
        """
        raise TargetError(
            f"{path} is not read: objects of {self.name} cannot be changed in place; name a factory that "
            "loads them"
        )

    def resting(self, obj: Any) -> str:
        """What to do where an object has arrays of which nothing tells whether they are parameters, and none
        that is moved as one; empty of all others.
        """
        return ""

    def count_operations(self) -> AbstractContextManager[Counter]:
        """Count the operations of the framework that run inside, and change nothing."""
        return nullcontext(Uncounted())

    def cost(self, obj: Any, dialect: Dialect, facts: Facts, dtype: str, most: float) -> Cost:
        """What calls of an object, which is used up, take with one row and with more, by counting;
        one of more than ``most`` nominal nanoseconds is cut short. An empty `Cost` where nothing is
        counted: then nothing is planned.
        """
        return Cost()

    def correspondence(self, obj: Any, other: Any) -> dict[str, str]:
        """Which weight or buffer of an object stands for which of another one: by name, or else in their order. Raises:
        `TargetError` where they do not correspond. Here too: of frameworks whose objects nobody compares.
        """
        raise TargetError(f"objects of {self.name} are not compared yet; expected two of PyTorch")

    def lent(self, obj: Any, other: Any, names: Mapping[str, str]) -> AbstractContextManager[None]:
        """Let ``other`` compute with weights and buffers of an object, as `correspondence` names them."""
        raise Unsupported(f"objects of {self.name} are not compared yet")

    def moved(self, obj: Any, scale: float) -> Any:
        """An object of which all that training may move was moved along a direction: itself, or a new one. Here: `Unsupported`."""
        raise Unsupported(f"parameters of {self.name} are not moved yet")

    def slope(
        self,
        obj: Any,
        calls: Sequence[Callable[[Any, Any, Any], Any]],
        by: str,
        drawn: Callable[[str, Shape], Any],
        shape: Shape | None = None,
    ) -> Callable[[Any, Any, Any], Any]:
        """A call that gives a weighted sum of what calls of (object, points, context) give, and its derivative as the framework
        has it, ``by`` "points" or the "parameters" of such an ``obj``, along a direction of each.

        ``drawn(name, shape)``: the weights, of a name that begins with "cotangent", and the directions, "along x", or "along
        self.weight" of each parameter. ``shape``: of a direction that all points move along, which is drawn as "cotangent x".
        Here: `Unsupported`.
        """
        raise Unsupported(
            f"gradients of {self.name} are not proved yet: flowref audit measures them"
        )

    def traced(
        self, obj: Any, call: Callable[[Any, Any, Any], Any], x: Any, context: Any
    ) -> TracedCall:
        """The graph of what a call of an object computes for a batch of points, under a context if it is not None.
        Here: `Unsupported`, of a framework whose calls nobody traces.
        """
        raise Unsupported(f"code of {self.name} is not proved yet: flowref audit measures it")
