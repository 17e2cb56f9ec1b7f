"""What its author writes to have `toyflows` audited: a backend for numpy, and an adapter.

The distribution offers them through the groups ``flowref.backends`` and ``flowref.adapters``.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from flowref.backends import Backend, Blueprint
from flowref.backends.process import quarantine
from flowref.model import (
    Adapter,
    Array,
    Call,
    Component,
    Condition,
    Dialect,
    Facts,
    Manner,
    Mapped,
    Observation,
    Shape,
    Subject,
    Unsupported,
)

T = TypeVar("T")


def mannered(run: Callable[..., Mapped], inputs: tuple[Any, ...], manner: Manner) -> Mapped:
    """Numpy knows one manner."""
    if manner != Manner():
        raise Unsupported("numpy knows no such manner")
    return run(*inputs)


def unwatched(inputs: tuple[Any, ...], default: str, training: bool) -> Observation:
    """Nothing is observed."""
    raise Unsupported("calls of numpy are not observed")


class Rounded(np.ndarray):
    """An array of which every function of numpy is rounded at random, as `Numpy.noise` says."""

    noise: tuple[np.random.Generator, float] | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """The function of plain arrays, with an error of its own in each entry."""
        plain = [np.asarray(value) for value in inputs]
        out = np.asarray(getattr(ufunc, method)(*plain, **options))
        if Rounded.noise is not None and out.dtype == np.float64:
            rng, magnitude = Rounded.noise
            out = out * (1 + magnitude * rng.uniform(-1, 1, out.shape))
        return out.view(Rounded)


class Numpy(Backend):
    """numpy, whose arrays are arrays already."""

    name, requires = "toy-numpy", "numpy"

    def owns(self, obj: Any) -> bool:
        """Whether it comes from `toyflows`."""
        return type(obj).__module__ == "toyflows"

    def sandbox(
        self, seed: int, dtype: str | None = None
    ) -> contextlib.AbstractContextManager[Any]:
        """What flowref keeps of any process is all there is."""
        return quarantine(seed)

    def duplicate(self, obj: Any) -> Any:
        """A deep copy."""
        return copy.deepcopy(obj)

    def fingerprint(self, obj: Any) -> str:
        """A digest of what it is pickled to."""
        return hashlib.sha256(pickle.dumps(obj)).hexdigest()

    def cast(self, obj: Any, dtype: str) -> Any:
        """Arrays are in float64."""
        return obj

    def state_shapes(self, obj: Any) -> Sequence[Shape]:
        """Those of its attributes."""
        return [value.shape for value in vars(obj).values() if isinstance(value, np.ndarray)]

    def tensor(self, array: Array, dtype: str = "") -> Any:
        """The array itself, able to be rounded."""
        return array.astype(dtype or array.dtype).view(Rounded)

    def array(self, value: Any) -> Any:
        """The plain array."""
        return np.asarray(value)

    @contextlib.contextmanager
    def noise(self, seed: int, magnitude: float) -> Iterator[None]:
        """Of what is computed from `Rounded` arrays."""
        Rounded.noise = np.random.default_rng(seed), magnitude
        try:
            yield
        finally:
            Rounded.noise = None

    def subject(self, made_of: Blueprint, condition: Condition) -> Subject:
        """Both directions, and the Jacobian by differences, which are exact on affine maps."""
        with self.sandbox(condition.seed):
            obj = made_of.build()
        for name, value in vars(obj).items():
            if isinstance(value, np.ndarray):
                setattr(obj, name, self.tensor(value, "float64"))

        def call(which: str, x: Array, context: Array | None = None) -> Mapped:
            y, ladj = getattr(made_of.dialect, which)(obj, self.tensor(x, "float64"), context)
            return Mapped(self.array(y), self.array(ladj))

        def made(which: str) -> Call[Mapped]:
            run = partial(call, which)
            return Call(which, run, partial(mannered, run), unwatched)

        def jacobian(which: str, x: Array, context: Array | None = None) -> Array:
            columns = call(which, np.eye(x.shape[1])).value - call(which, 0 * x[:1]).value
            return np.broadcast_to(columns.T, (len(x), *columns.shape))

        return Subject(
            name=made_of.name,
            facts=made_of.facts,
            calls={which: made(which) for which in ("forward", "inverse")},
            jacobian=jacobian,
            noise=self.noise,
        )


def components() -> Mapping[str, Component]:
    """A correct map, and one whose log-det forgets an entry."""
    from toyflows import Affine

    def build(wrong: bool = False) -> Any:
        return Affine([0.5, 2.0, -3.0], [1.0, 0.0, 0.25], wrong=wrong)

    made = {"Affine": build, "Affine[wrong]": lambda: build(True)}
    return {name: Component(name, make, SPOKEN, Facts((3,))) for name, make in made.items()}


SPOKEN = Dialect(
    forward=lambda obj, x, context: obj.push(x), inverse=lambda obj, y, context: obj.pull(y)
)
BACKEND: Backend = Numpy()
ADAPTER = Adapter(
    name="toy",
    package="toyflows",
    title="toyflows",
    components=components,
    recognizes=lambda obj: SPOKEN if type(obj).__name__ == "Affine" else None,
    describe=lambda obj, shape: Facts(shape or obj.scale.shape),
    backend="toy-numpy",
    healthy=lambda: ("Affine",),
)
