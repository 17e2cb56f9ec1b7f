"""Building an object under random rounding. What a constructor computes and stores (an
exponential, an inverse, cumulative knots) has the rounding error of the construction, which
noise within a call cannot show.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from flowref.backends.torch.array_noise import arrays_rounded
from flowref.backends.torch.live import BUDGET_FACTOR, BUDGET_FLOOR, Live
from flowref.backends.torch.noise import RandomRounding
from flowref.backends.torch.state import duplicate, tensors
from flowref.backends.torch.torch_float32 import Counting

# A context around the building of an object.
Around = Callable[[], AbstractContextManager[Any]]
# Objects that take more operations to build are not rebuilt.
MOST = 20_000


@contextlib.contextmanager
def rounded_build(live: Live, seed: int, magnitude: float) -> Iterator[bool]:
    """Inside, calls use an object that was built and warmed up under random rounding, in the same
    random states; yields whether it differs.
    """
    other = _built(live, seed, magnitude)
    if other is None:
        yield False
        return
    obj, make = other
    with live.instead(obj, make):
        yield True


def _built(live: Live, seed: int, magnitude: float) -> tuple[Any, Callable[[], Any]] | None:
    """Such an object and its builder; None if building rounds nothing, or fails."""
    make = live.build_within
    if make is None:
        return None
    try:
        budget = _budget(live, make)
        noises: list[RandomRounding] = []

        @contextlib.contextmanager
        def around() -> Iterator[None]:
            # Float32 constants of an object are deliberate.
            noise = RandomRounding(magnitude, seed + len(noises), budget=budget, single=False)
            noises.append(noise)
            with noise, arrays_rounded(noise):
                yield

        obj = make(around)
    except Exception:  # too long, or an error under noise: unknown
        return None
    if not noises[0].drawn and same_tensors(obj, live.pristine):
        return None
    return obj, lambda: make(around)


def _budget(live: Live, make: Callable[[Around], Any]) -> int:
    """The number of operations after which building counts as non-converging under noise. Raises
    if an object takes many.
    """
    if "build" not in live.clean_operations:
        counters: list[Counting] = []

        def around() -> Counting:
            counters.append(Counting())
            return counters[-1]

        make(around)
        live.clean_operations["build"] = sum(counter.operations for counter in counters)
    clean = live.clean_operations["build"]
    if clean > MOST:
        raise RuntimeError("it takes too long to build")
    return BUDGET_FACTOR * clean + BUDGET_FLOOR


def same_tensors(obj: Any, other: Any) -> bool:
    """Whether two objects hold equal tensors."""
    ours, theirs = tensors(obj), tensors(other)
    return len(ours) == len(theirs) and all(map(_identical_tensors, ours, theirs))


def transplanted(changed: Any, clean: Any, rounded: Any) -> Any:
    """A copy of an object, where tensors that are unchanged since its construction have the values
    of another construction.
    """
    copy = duplicate(changed)
    held = [tensors(one) for one in (copy, clean, rounded)]
    if len({len(one) for one in held}) == 1:
        with torch.no_grad():
            for tensor, before, after in zip(*held, strict=True):
                if _identical_tensors(tensor, before) and tensor.shape == after.shape:
                    tensor.copy_(after)
    return copy


def _identical_tensors(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
