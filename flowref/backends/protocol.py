"""The interface of a framework whose objects can be audited.

Required: `Backend.owns`, ``sandbox``, ``duplicate``, ``fingerprint``, ``cast``, ``state_shapes``,
``tensor``, ``array`` and ``subject``, with ``name`` and ``requires``; ``noise`` where code outside
of subjects can be rounded. All other methods have a default, for a framework that compiles nothing,
runs in one thread, has no other device and no modes, and does not count operations. ``subject``
makes calls, Jacobians and noise from a dialect's functions. The rest is shared by all frameworks:

- `flowref.backends.lives.ScenarioObject`: scenarios, from methods that call, read, change, save and load;
- `flowref.backends.training.Trainee`: training, from gradients and moves;
- `flowref.backends.result_cache`: results that laws share; `flowref.backends.parts`: parts and
  compositions; `flowref.backends.data`: points of the domain and the codomain.
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
    """What code requested of a device other than the CPU: nothing, a device that it was refused,
    or one that it was granted on the CPU.
    """

    NONE = "none"
    REFUSED = "refused"
    GRANTED = "granted"


class Counter(Protocol):
    """Numbers of operations since the count began."""

    @property
    def operations(self) -> int:
        """The number of operations so far."""

    @property
    def readings(self) -> int:
        """The median over trained parameters of how often each was read: a solver reads them at
        each step.
        """

    @property
    def rows(self) -> int:
        """The largest number of rows of a matrix product, or of positions of a convolution: a
        quadrature evaluates its integrand at all nodes at once.
        """

    @property
    def rounds(self) -> bool:
        """Whether numbers were rounded to integers."""

    @property
    def unknown(self) -> Set[str]:
        """The names of operations with floating results that are not known to round or not to."""


@dataclass(frozen=True)
class Blueprint:
    """How the subjects of one target are made.

    ``build``: returns a new object at each call; ``resolve``: the dialect of a part of a composite,
    or None. ``rebuild_seed`` is the random state in which laws of state have the object rebuilt.
    User code is rebuilt in another random state: what it draws while it is built and does not save
    is lost when it is loaded in another process.
    """

    name: str
    build: Callable[[], Any]
    dialect: Dialect
    facts: Facts
    resolve: Callable[[Any], Dialect | None] = lambda _: None
    rebuild_seed: int = 3


@dataclass(frozen=True)
class Uncounted:
    """A `Counter` for frameworks that do not count."""

    operations: int = 0
    readings: int = 0
    rows: int = 0
    rounds: bool = False
    unknown: Set[str] = frozenset()


class Backend(Protocol):
    """A framework: how its objects are copied, cast, called and made subjects.

    A module that offers one derives from this class and imports the framework inside functions
    only, so that naming a backend loads nothing. Dtypes are given by name, "float32" or "float64".
    """

    # The name in ``Adapter.backend``, and the import name of the framework.
    name: str
    requires: str
    # Whether objects have a train mode and an eval mode.
    modes: bool = False

    def owns(self, obj: Any) -> bool:
        """Whether a live object belongs to this framework, by its class or the arrays it holds."""

    def sandbox(self, seed: int, dtype: str | None = None) -> AbstractContextManager[Any]:
        """Run foreign code with fixed random states and a default dtype; restores the settings and
        random states of the process afterwards, and captures what is printed.
        """

    def duplicate(self, obj: Any) -> Any:
        """Returns an independent copy of a live object."""

    def paired(self, obj: tuple[Any, ...]) -> Any:
        """Returns one map for a tuple of two objects that are inverse to each other; None for
        other tuples.
        """
        return None

    def fingerprint(self, obj: Any) -> str:
        """A hexadecimal digest of an object's class and arrays, equal where they are, bit for bit."""

    def cast(self, obj: Any, dtype: str) -> Any:
        """Returns the object with its floating arrays in another dtype; may work in place."""

    def state_shapes(self, obj: Any) -> Sequence[Shape]:
        """The shapes of the arrays that an object holds as its state, in a fixed order."""

    def tensor(self, array: Array, dtype: str = "") -> Any:
        """Converts a numpy array to an array of the framework, of ``dtype``; by default floating
        numbers are of the framework's default dtype, and others of their own.
        """

    def array(self, value: Any) -> Any:
        """Converts an array of the framework to numpy; Python numbers are returned as they are."""

    def subject(self, made_of: Blueprint, condition: Condition) -> Subject:
        """The subject of an object that the blueprint builds, in a condition."""

    def noise(self, seed: int, magnitude: float) -> AbstractContextManager[Any]:
        """Round each floating-point operation inside at random, by a relative error of up to
        ``magnitude``. Default: raises `Unsupported`, for frameworks that round within subjects
        only (see `Subject.noise`).
        """
        raise Unsupported(f"code of {self.name} is rounded at random within subjects only")

    def versions(self) -> Mapping[str, str]:
        """Distribution -> version, for distributions that affect results. Default: the
        framework.
        """
        return {self.requires: importlib.metadata.version(self.requires)}

    def worker_setup(self) -> None:
        """Prepare a worker process: import the framework, and let it use one thread."""
        importlib.import_module(self.requires)

    def single_threaded(self) -> AbstractContextManager[Any]:
        """Compute with one thread, then restore the number. Has no effect if the framework is not
        imported or cannot change the number.
        """
        return nullcontext()

    def lacks(self, device: str) -> str:
        """Returns why objects cannot be moved to a device of this name here, or ""."""
        return f"objects of {self.name} are not moved to devices"

    def device_requests(self) -> Wish:
        """Returns what sandboxed code has requested of other devices since the last call. Requests
        that were refused are granted on the CPU for the rest of the process.
        """
        return Wish.NONE

    def importing(self) -> AbstractContextManager[Any]:
        """Context in which user code that names the framework is imported, such as the default
        precision of the audit, which module constants take.
        """
        return nullcontext()

    def building(self) -> AbstractContextManager[Any]:
        """Context in which builders of libraries are called, which draw weights but do not train;
        eager operations are not compiled here.
        """
        return nullcontext()

    def sparing(self, run: Callable[[], T], of: Any = None) -> T:
        """Runs foreign code whose result is not differentiated, with as little recorded for the
        backward pass as possible. ``of``: an object that is called repeatedly; results that
        depend on its arrays only may be cached.
        """
        return run()

    def once(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function of arrays and of objects that hold arrays, without compiling it: for
        arguments that occur once.
        """
        return function(*args)

    def set_mode(self, obj: Any, training: bool) -> None:
        """Put an object into train or eval mode; no effect without modes."""
        return

    def load_weights(self, obj: Any, path: Path, key: str) -> None:
        """Load the weights of a file into an object, in place and bit by bit; ``key`` selects one
        of several state dicts. Raises `TargetError`, with a reason, if they do not fit.
        """
        raise TargetError(
            f"{path} is not read: objects of {self.name} cannot be changed in place; name a factory that "
            "loads them"
        )

    def resting(self, obj: Any) -> str:
        """Returns advice for an object whose arrays are not marked as parameters, so that none is
        trained; "" for all others.
        """
        return ""

    def count_operations(self) -> AbstractContextManager[Counter]:
        """Count the operations of the framework inside, without changing them."""
        return nullcontext(Uncounted())

    def cost(self, obj: Any, dialect: Dialect, facts: Facts, dtype: str, most: float) -> Cost:
        """Returns the counted cost of calls of an object with one row and with more; the object is
        used up. A call of more than ``most`` nominal nanoseconds is cut short. An empty `Cost`
        if nothing is counted: then nothing is planned.
        """
        return Cost()

    def correspondence(self, obj: Any, other: Any) -> dict[str, str]:
        """Returns weight or buffer name of ``obj`` -> name of ``other``: matched by name, or else
        by order. Raises `TargetError` if they do not correspond, or if the framework has no
        comparison.
        """
        raise TargetError(f"objects of {self.name} are not compared yet; expected two of PyTorch")

    def lent(self, obj: Any, other: Any, names: Mapping[str, str]) -> AbstractContextManager[None]:
        """Let ``other`` compute with the weights and buffers of ``obj``, as `correspondence`
        matches them.
        """
        raise Unsupported(f"objects of {self.name} are not compared yet")

    def moved(self, obj: Any, scale: float) -> Any:
        """Returns the object, or a new one, with all trainable parameters moved along a direction
        by ``scale``. Default: raises `Unsupported`.
        """
        raise Unsupported(f"parameters of {self.name} are not moved yet")

    def slope(
        self,
        obj: Any,
        calls: Sequence[Callable[[Any, Any, Any], Any]],
        by: str,
        drawn: Callable[[str, Shape], Any],
        shape: Shape | None = None,
    ) -> Callable[[Any, Any, Any], Any]:
        """Returns a call (object, points, context) -> (weighted sum s of the results of ``calls``,
        derivative of s by autodiff), where the derivative is along a direction of the "points",
        or of the "parameters" of such an ``obj``, according to ``by``.

        ``drawn(name, shape)`` draws the weights, whose names begin with "cotangent", and the
        directions: "along x", or "along self.weight" for each parameter. ``shape``: of one
        direction for all points, drawn as "cotangent x". Default: raises `Unsupported`.
        """
        raise Unsupported(
            f"gradients of {self.name} are not proved yet: flowref audit measures them"
        )

    def traced(
        self, obj: Any, call: Callable[[Any, Any, Any], Any], x: Any, context: Any
    ) -> TracedCall:
        """Returns the graph of a call of an object for a batch ``x`` ``(n, *event)``, with a
        context if it is not None. Default: raises `Unsupported`, for frameworks whose calls
        cannot be traced.
        """
        raise Unsupported(f"code of {self.name} is not proved yet: flowref audit measures it")
