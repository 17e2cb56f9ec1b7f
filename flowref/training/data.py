"""Data sets: points in the plane, scikit-learn's digits, and image sets of the user; each in a
training, a validation and a test part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowref.model import DataError, SpecError, nearest
from flowref.training import readers
from flowref.training.extras import package

Values = NDArray[Any]

# Points drawn for training, early stopping and reported values; each part has its own seed.
POINTS = {"train": 20_000, "validation": 5_000, "test": 10_000}
SEEDS = {"train": 0, "validation": 1, "test": 2}
DIGITS_LEVELS, PIXEL_LEVELS = 17, 256


@dataclass(frozen=True)
class Dataset:
    """Events ``(n, *event)`` for training, early stopping and reported values.

    ``levels``: the number of values of a pixel, 0, ..., levels - 1; None for points, which have
    real coordinates. Raises `DataError` for parts of different shapes, for non-finite values, and
    for pixels that are not levels.
    """

    name: str
    train: Values
    validation: Values
    test: Values
    levels: int | None = None

    def __post_init__(self) -> None:
        for part in ("train", "validation", "test"):
            values = getattr(self, part)
            if len(values) < 2 or values.shape[1:] != self.train.shape[1:]:
                raise DataError(
                    f"the {part} part of {self.name} has shape {values.shape}; expected at least "
                    "two events of shape "
                    f"{self.train.shape[1:]}: give more data"
                )
            check_values(values, self.levels, f"the {part} part of {self.name}")

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one point or image (channels, height, width)."""
        return tuple(self.train.shape[1:])

    @property
    def dims(self) -> int:
        """The number of entries of an event."""
        return math.prod(self.event_shape)


def check_values(values: Values, levels: int | None, what: str) -> None:
    """Raises `DataError` unless all values ``(n, *event)`` are finite and, for images, integers
    from 0 to levels - 1.
    """
    if not np.isfinite(values).all():
        count = int((~np.isfinite(values)).sum())
        raise DataError(
            f"{what} has {count} values that are not finite; expected numbers: remove those events"
        )
    if levels is None or values.size == 0:
        return
    least, most = values.min(), values.max()
    if least < 0 or most >= levels:
        raise DataError(
            f"{what} has pixels from {least:g} to {most:g}; expected levels from 0 to "
            f"{levels - 1}, as they were stored, "
            "before any scaling"
        )
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        raise DataError(
            f"{what} has pixels that are no whole numbers; expected levels from 0 to "
            f"{levels - 1}, before any scaling"
        )


def moons(points: int, seed: int) -> Values:
    """Two interleaved half circles with noise of 0.05; ``(points, 2)``."""
    drawn: Values = package("sklearn.datasets").make_moons(points, noise=0.05, random_state=seed)[0]
    return drawn


def circles(points: int, seed: int) -> Values:
    """Two concentric circles of radius 1 and 1/2 with noise of 0.05; ``(points, 2)``."""
    drawn: Values = package("sklearn.datasets").make_circles(
        points, factor=0.5, noise=0.05, random_state=seed
    )[0]
    return drawn


def blobs(points: int, seed: int) -> Values:
    """Three isotropic normal distributions of standard deviation 1, with the same centers for
    every seed; ``(points, 2)``.
    """
    centers = np.random.RandomState(8).uniform(-10, 10, (3, 2))
    drawn: Values = package("sklearn.datasets").make_blobs(
        points, centers=centers, random_state=seed
    )[0]
    return drawn


def unit_square_points(points: int, seed: int) -> Values:
    """Uniform points of the unit square; ``(points, 2)``."""
    return np.random.RandomState(seed).uniform(size=(points, 2))


def checkerboard(points: int, seed: int) -> Values:
    """Uniform points of the dark squares, of side 2, of a four-by-four board centered at the
    origin; ``(points, 2)``.
    """
    random = np.random.RandomState(seed)
    column, pair = random.randint(4, size=points), random.randint(2, size=points)
    corners = np.stack([column, 2 * pair + column % 2], 1)
    return 2 * (corners + random.uniform(size=(points, 2))) - 4


def pair(points: int, seed: int) -> Values:
    """An equal mixture of two isotropic normal distributions of standard deviation 0.4 at (-3, 0)
    and (3, 0); ``(points, 2)``.
    """
    random = np.random.RandomState(seed)
    side = 2.0 * random.randint(2, size=points) - 1
    return np.stack([3 * side, 0 * side], 1) + 0.4 * random.normal(size=(points, 2))


TOYS: dict[str, Callable[[int, int], Values]] = {
    "moons": moons,
    "circles": circles,
    "blobs": blobs,
    "random": unit_square_points,
}
# The data sets of points, which are drawn on request.
DRAWN: dict[str, Callable[[int, int], Values]] = {
    **TOYS,
    "checkerboard": checkerboard,
    "pair": pair,
}


def digits() -> Dataset:
    """1797 handwritten digits ``(n, 1, 8, 8)`` with 17 levels, shuffled with a fixed seed and
    split into 1197, 300 and 300.
    """
    images = package("sklearn.datasets").load_digits().images[:, None]
    images = images[np.random.RandomState(0).permutation(len(images))]
    return Dataset("digits", images[:1197], images[1197:1497], images[1497:], DIGITS_LEVELS)


def train_validation_split(name: str, train: Values, test: Values) -> Dataset:
    """Splits off a tenth of the training images ``(n, C, H, W)``, at most 5000, at random, as the
    validation part.
    """
    order = np.random.RandomState(0).permutation(len(train))
    size = min(len(train) // 10, 5000)
    return Dataset(
        name, train[np.sort(order[size:])], train[np.sort(order[:size])], test, PIXEL_LEVELS
    )


def mnist(path: Path, size: int | None, limit: int | None) -> Dataset:
    """The MNIST digits ``(n, 1, 28, 28)``."""
    return train_validation_split(
        "mnist", readers.mnist(path, True)[:limit], readers.mnist(path, False)[:limit]
    )


def cifar10(path: Path, size: int | None, limit: int | None) -> Dataset:
    """The CIFAR-10 images ``(n, 3, 32, 32)``."""
    return train_validation_split(
        "cifar10", readers.cifar10(path, True)[:limit], readers.cifar10(path, False)[:limit]
    )


def celeba(path: Path, size: int | None, limit: int | None) -> Dataset:
    """CelebA faces ``(n, 3, size, size)``; the last tenth by name is the test part."""
    images = readers.celeba(path, size or 32, limit)
    last = max(len(images) // 10, 1)
    return train_validation_split("celeba", images[:-last], images[-last:])


FILES: dict[str, Callable[[Path, int | None, int | None], Dataset]] = {
    "mnist": mnist,
    "cifar10": cifar10,
    "celeba": celeba,
}
NAMES = (*TOYS, "digits", *FILES, "checkerboard", "pair")


def load_dataset(
    name: str, path: str | None = None, size: int | None = None, limit: int | None = None
) -> Dataset:
    """Returns the data set of a name. ``path``: where the user has it; ``size``: side of the faces
    in pixels; ``limit``: maximal number of images.

    Raises `SpecError` for an unknown name, or options that it does not take; `DataError` for data
    that cannot be read.
    """
    if name not in NAMES:
        raise SpecError(
            f"there is no data set {name!r}{nearest(name, NAMES)}; expected one of "
            f"{', '.join(NAMES)}, or the folder of a run"
        )
    if size is not None and name != "celeba":
        raise SpecError(f"--size is for celeba; the images of {name} are taken as they are")
    if name in FILES:
        if path is None:
            raise SpecError(
                f"{name} is not part of flowref, and nothing is downloaded; {WHERE[name]} as "
                "--data PATH"
            )
        return FILES[name](Path(path), size, limit)
    if path is not None or limit is not None:
        raise SpecError(f"--data and --limit are for {', '.join(FILES)}; {name} needs neither")
    if name == "digits":
        return digits()
    train, validation, test = (
        DRAWN[name](POINTS[part], SEEDS[part]) for part in ("train", "validation", "test")
    )
    return Dataset(name, train, validation, test)


WHERE = {
    "mnist": "give the folder with train-images-idx3-ubyte and t10k-images-idx3-ubyte (plain or .gz)",
    "cifar10": "give the folder with data_batch_1.bin to data_batch_5.bin and test_batch.bin",
    "celeba": "give the folder with the aligned images (img_align_celeba)",
}
DESCRIBED = {
    "moons": "two half circles, noise 0.05",
    "circles": "two circles about one center, noise 0.05",
    "blobs": "three normal distributions",
    "random": "uniform on the unit square",
    "digits": "scikit-learn's digits, 8 x 8 pixels, 17 levels",
    **{name: f"{text} as --data PATH" for name, text in WHERE.items()},
    "checkerboard": "uniform on the dark squares of a board of four by four",
    "pair": "two normal distributions, far apart",
}
