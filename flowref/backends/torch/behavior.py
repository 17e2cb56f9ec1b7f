"""Whether an operator rounds, found by calling it on small tensors that fit its schema: schemas
and tags mark views and random operators, but not whether a result is rounded.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from flowref.backends.rounding import ordinary_numbers, unrounded


class Behavior(Enum):
    """``EXACT``: each result is an input up to sign and a power of two, or an integer, or
    constant. ``POINTWISE``: results are rounded, each computed from the inputs at its own
    index. ``MIXED``: from inputs at other indices too.
    """

    EXACT = "exact"
    POINTWISE = "pointwise"
    MIXED = "mixed"


class Unmade(Exception):  # no error: no value of this type can be made
    """An argument has a type for which no value is made."""


class Stance(NamedTuple):
    """How the arguments of a call are made: shapes of tensors and of indices, integers, entries of
    integer lists that are no dimensions, whether optional numbers are given, and whether all
    tensors hold integers.
    """

    shape: tuple[int, ...]
    indices: tuple[int, ...]
    integer: int
    integers: tuple[int, ...]
    filled: bool = False
    whole: bool = False


STANCES = (
    Stance((4, 4), (4, 4), 2, (2, 2)),
    Stance((4, 4), (4,), 1, (1, 1), filled=True),
    Stance((4,), (4,), 2, (2,)),
    Stance((2, 4, 4), (2, 4, 4), 2, (2, 2)),
    Stance((1, 2, 4, 4), (1, 2, 4, 4), 2, (2, 2), filled=True),
    Stance((1, 2, 4, 4), (4,), 1, (1, 1, 1, 1)),
    Stance((4,), (4,), 2, (2,), whole=True),
)
# An operator that only copies in so many ways of calling counts as exact.
ENOUGH = 2
SIZES = ("size", "shape", "input_sizes", "self_size", "output_size")
INDICES = ("index", "indices", "lengths", "target", "offsets", "repeats", "bins")
MASKS = ("mask", "condition")


def behavior_of(func: Any) -> Behavior | None:
    """Returns the behavior of an ATen operator, or None if no valid arguments are found. Internal
    operators are not called, since they do not check their arguments.
    """
    if func.namespace != "aten" or func.overloadpacket.__name__.startswith("_"):
        return None
    state = torch.get_rng_state()
    with _disable_current_modes(), torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _observed_behavior(func, state)
        finally:
            torch.set_rng_state(state)


def _observed_behavior(func: Any, state: Any) -> Behavior | None:
    copies = 0
    for stance in STANCES:
        try:
            runs = [_run(func, stance, seed, state) for seed in (1, 2)]
        except Unmade:
            return None
        except Exception:  # invalid arguments
            continue
        if _exact(runs):
            results = runs[1][1]
            shown = any(np.isfinite(one).any() for one in results) and not stance.whole
            copies += shown or not results
            if copies == ENOUGH:
                break
        elif not stance.whole:
            return Behavior.POINTWISE if _pointwise(func, stance, state) else Behavior.MIXED
    return Behavior.EXACT if copies else None


def _exact(runs: list[Any]) -> bool:
    """Whether finite results do not depend on the inputs, or equal inputs."""
    (_, first), (given, results) = runs
    if len(first) == len(results) and all(map(_equal_arrays, first, results)):
        return True
    return unrounded(given, results)


def _equal_arrays(first: Any, second: Any) -> bool:
    return first.shape == second.shape and bool(np.array_equal(first, second, equal_nan=True))


def _pointwise(func: Any, stance: Stance, state: Any) -> bool:
    """Whether results have the shape of the inputs, and changed entries of the inputs change only
    the results at their index.
    """
    _, before = _run(func, stance, 1, state)
    given, after = _run(func, stance, 1, state, moved=True)
    shapes = {one.shape for one in given if one.shape} | {one.shape for one in before}
    return len(shapes) == 1 and all(
        np.array_equal(one.ravel()[1:-1], other.ravel()[1:-1], equal_nan=True)
        for one, other in zip(before, after, strict=True)
    )


def _run(
    func: Any, stance: Stance, seed: int, state: Any, moved: bool = False
) -> tuple[list[Any], list[Any]]:
    """The floating inputs and results of an operator. ``moved``: with other first and last entries
    in each tensor.
    """
    generator = np.random.Generator(np.random.SFC64(seed))
    positional, named, numbers = [], {}, []
    for argument in func._schema.arguments:
        value = _argument_value(argument, stance, generator)
        if moved:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, torch.Tensor) and one.is_floating_point() and one.dim():
                    one.view(-1)[[0, -1]] *= 1.1
        numbers += list(_floats(value))
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    torch.set_rng_state(state)
    return numbers, list(_floats(func(*positional, **named)))


def _argument_value(argument: Any, stance: Stance, generator: Any) -> Any:
    """A value for an argument; raises `Unmade` if its type is not supported."""
    kind, name = str(argument.type), argument.name
    optional = kind.startswith("Optional[")
    kind = kind.removeprefix("Optional[").removesuffix("]") if optional else kind
    given = stance.filled and kind in ("number", "float", "Tensor") and optional
    if argument.has_default_value() and not given:
        return argument.default_value
    if kind == "Tensor":
        return None if optional and not given else _tensor(name, stance, generator)
    if kind == "List[Tensor]":
        return [_tensor(name, stance, generator) for _ in range(2)]
    if kind == "List[Optional[Tensor]]":
        return [_tensor("index", stance, generator)]
    if optional and not given:
        return None
    if kind in ("number", "float"):
        return (
            3 if stance.whole else float(generator.uniform(0.3, 0.9) + (0 if stance.filled else 2))
        )
    dimension = "dim" in name or "axis" in name
    if kind == "int":
        return 0 if dimension or name in ("start", "index", "offset") else stance.integer
    if kind == "List[int]":
        if dimension:
            return [0]
        return list(stance.shape if name in SIZES else stance.integers)
    if kind == "bool":
        return stance.filled
    raise Unmade(kind)


def _tensor(name: str, stance: Stance, generator: Any) -> torch.Tensor:
    if any(part in name for part in INDICES):
        return torch.from_numpy(generator.integers(0, 2, stance.indices))
    if name == "value":
        return torch.tensor(generator.uniform(0.3, 0.9), dtype=torch.float64)
    if stance.whole:
        return torch.from_numpy(generator.integers(0, 5, stance.shape))
    if any(part in name for part in MASKS):
        return torch.from_numpy(generator.random(stance.shape) < 0.5)
    return torch.from_numpy(ordinary_numbers(stance.shape, generator))


def _floats(value: Any) -> Iterator[Any]:
    """The floating numbers of a value, as arrays with their own memory."""
    if isinstance(value, (tuple, list)):
        for one in value:
            yield from _floats(one)
    elif isinstance(value, float):
        yield np.asarray(value)
    elif isinstance(value, torch.Tensor):
        if value.is_complex():
            value = torch.view_as_real(value.resolve_conj())
        if value.is_floating_point() and value.numel():
            yield np.array(value.detach().resolve_neg().double())
