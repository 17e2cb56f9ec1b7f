"""What is measured: families of flows, and along which axis each grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

SIDES: Mapping[int, int] = {48: 4, 192: 8, 768: 16, 3072: 32}
# Flows of vectors of one library, so that they differ in their maps only; images are flowref's own.
VECTORS = {"coupling": "zuko:RealNVP", "spline": "zuko:NSF", "autoregressive": "zuko:MAF"}
IMAGES = "image"
FAMILIES = (*VECTORS, IMAGES)
# Axis -> values, and those of a short run. What does not grow has a value that lies on every axis, so
# that one audit is a point of all four.
AXES: Mapping[str, tuple[Sequence[int], Sequence[int]]] = {
    "features": ((2, 8, 32, 128, 512, 3072), (2, 8, 32, 128)),
    "layers": ((1, 4, 16, 64), (1, 4, 16)),
    "width": ((16, 64, 256, 1024), (16, 64, 256)),
    "batch": ((16, 256, 4096), (16, 256)),
}
IMAGE_FEATURES: tuple[Sequence[int], Sequence[int]] = (tuple(SIDES), (48, 192))


@dataclass(frozen=True)
class Point:
    """One flow, and with how many rows in a batch it is audited. Along an axis one of the numbers
    grows, and the others are these.
    """

    family: str
    axis: str
    features: int = 32
    layers: int = 4
    width: int = 64
    batch: int = 16

    @property
    def value(self) -> int:
        """Where on its axis it lies."""
        value: int = getattr(self, self.axis)
        return value

    @property
    def name(self) -> str:
        """As it is named in the file of results, and by globs."""
        return f"{self.family}/{self.axis}/{self.value}"

    @property
    def audit(self) -> tuple[str, int]:
        """What is measured there, which points of several axes share."""
        return self.spec, self.batch

    @property
    def spec(self) -> str:
        """The target."""
        if self.family == IMAGES:
            side = SIDES[self.features]
            return f"growth_page.images:build?side={side}&layers={self.layers}&width={self.width}"
        options = f"features={self.features}&transforms={self.layers}&hidden={self.width}"
        return f"{VECTORS[self.family]}?{options}"


def grid(*, short: bool) -> Iterator[Point]:
    """Every point, the cheap ones first: value by value along all axes."""
    points = []
    for family in FAMILIES:
        image = family == IMAGES
        for axis, values in AXES.items():
            chosen = IMAGE_FEATURES if image and axis == "features" else values
            start = Point(family, axis)
            start = replace(start, features=48, layers=4, width=16) if image else start
            for value in chosen[1] if short else chosen[0]:
                grown: dict[str, Any] = {axis: value}
                points.append(replace(start, **grown))
    yield from sorted(points, key=_size)


def _size(point: Point) -> int:
    """Roughly what grows with it."""
    return point.features * point.layers * point.width * point.batch
