"""Laws at events of another size than the usual one, of what takes these."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from flowref import checking, loading
from flowref.checking import Settings
from flowref.loading.event_sizes import keeps_size, other_sizes
from flowref.model import Shape, Status
from flowref_zoo.specimens.other_sizes import SPECIMENS, Scaled

IMAGES, SEQUENCES = (2, 4, 4), (2, 6)
SIDE = 7


class Told(Scaled):
    """It was told its size."""

    def __init__(self, *size: int) -> None:
        super().__init__()
        self.size = size

    def total(self, x: Any) -> Any:
        """The log-det at that size."""
        return (self.log_scale.sum() * math.prod(self.size)).expand(len(x))


class Declared(Scaled):
    """It declares its size."""

    event_shape = IMAGES


class Computed(Scaled):
    """It holds what was computed from its size."""

    def __init__(self) -> None:
        super().__init__()
        self.log_det = 16 * math.log(3.0)


class Literal(Scaled):
    """Its size stands in its code."""

    def total(self, x: Any) -> Any:
        """The log-det at that size."""
        return (self.log_scale.sum() * 16).expand(len(x))


class Global(Scaled):
    """Its size stands in its file."""

    def total(self, x: Any) -> Any:
        """The log-det at that size."""
        return (self.log_scale.sum() * SIDE).expand(len(x))


class Closed(Scaled):
    """Its size is that of a function's."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.count = lambda: width
        self.other = partial(math.prod, (2, 3))


class Refusing(Scaled):
    """It takes one size only."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(2, 4, 4))

    def scale(self, x: Any) -> Any:
        """A number for each channel, and a zero for each entry."""
        return super().scale(x) + 0 * self.offset


def verdict(obj: Any, event: Shape, law: str) -> Status:
    """What a law says of an object."""
    plain = loading.snapshot(obj)
    target = loading.alias_live_target(plain, plain.with_options(event=",".join(map(str, event))))
    return checking.pair_verdict(target, law, Settings("quick"), written=False).status


@pytest.mark.parametrize("event", [IMAGES, SEQUENCES], ids=["images", "sequences"])
@pytest.mark.parametrize("defect", ["", "twice-a-half", "back-by-a-half"])
def test_a_size_that_was_not_visited(defect: str, event: Shape) -> None:
    """What is right at the usual size alone holds there, and is wrong at another."""
    laws = SPECIMENS[0].defects.get(defect, ("map/log-det[other-size]",))
    seen = [verdict(Scaled(defect), event, law) for law in laws]
    assert set(seen) == {Status.VIOLATED if defect else Status.HOLDS}
    assert verdict(Scaled(defect), event, laws[0].partition("[")[0]) is Status.HOLDS


@pytest.mark.parametrize("build", [partial(Told, 4, 4), Declared, Refusing])
def test_one_size_is_enough(build: Callable[[], Any]) -> None:
    """What keeps its size, declares it or refuses others is not judged at others."""
    assert verdict(build(), IMAGES, "map/log-det[other-size]") is Status.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("build", "event", "keeps"),
    [
        (Scaled, IMAGES, False),
        (Refusing, IMAGES, False),
        (partial(Told, 4, 4), IMAGES, True),
        (partial(Told, 16), IMAGES, True),
        (partial(Told, 3), IMAGES, False),
        (Declared, IMAGES, True),
        (Computed, IMAGES, True),
        (Literal, IMAGES, True),
        (Literal, (2, 5, 5), False),
        (Global, (2, SIDE), True),
        (Global, IMAGES, False),
        (partial(Closed, 5), (2, 5), True),
        (partial(Closed, 5), (2, 3), True),
        (partial(Closed, 5), (2, 8), False),
        (partial(nn.Conv2d, 4, 4, 1), (4, 4, 4), False),
    ],
)
def test_where_a_size_is_kept(build: Callable[[], Any], event: Shape, keeps: bool) -> None:
    """Attributes, classes, closures, literals and globals are read; layers of frameworks refuse by themselves."""
    assert keeps_size(build(), event) is keeps


@pytest.mark.parametrize(
    ("event", "first"), [(IMAGES, (2, 4, 5)), (SEQUENCES, (2, 7)), ((3,), None), ((), None)]
)
def test_another_size_is_of_another_parity(event: Shape, first: Shape | None) -> None:
    """One more position along the last axis; vectors have one size."""
    assert next(other_sizes(event), None) == first
