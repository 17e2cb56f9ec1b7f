"""Estimators with fit: fitted ones are kept as they are, others are fitted to the user's data or to drawn
points.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import SCORES
from flowref.adapters.user.event_shapes import FEATURES
from flowref.loading.data import open_rows
from flowref.loading.options import parse_shape, parse_support
from flowref.loading.ownership import framework
from flowref.model import Array, Support, Target, TargetError, draw_points, one_line

# Drawn points, maximal rows of data, and the default number of features.
DRAWN, MOST, USUAL = 256, 10_000, 3
LINE, POSITIVE = f"{DRAWN} drawn points", f"{DRAWN} drawn positive points"
UNIT = f"{DRAWN} drawn points of the unit interval"
# Methods that make an estimator a map.
MAPS = ("transform", "inverse_transform")
# The text after --data of this process.
_data = ""


@dataclass(frozen=True)
class Sample:
    """Points ``(n, d)`` to which an estimator is fitted, and their description."""

    points: Array
    words: str


@contextlib.contextmanager
def fitting_to(data: str) -> Iterator[None]:
    """Fit estimators to these data inside; to drawn points if empty."""
    global _data
    before, _data = _data, data
    try:
        yield
    finally:
        _data = before


def fitted_to() -> str:
    """The data to which estimators are fitted."""
    return _data


def is_estimator(obj: Any) -> bool:
    """Whether an object has fit and is a map or a density afterwards, and has no parameters that gradients
    train.
    """
    if not signatures.defines_method(obj, "fit") or signatures.taken_by(obj):
        return False
    return all(callable(getattr(obj, name, None)) for name in MAPS) or callable(
        getattr(obj, SCORES, None)
    )


def is_fitted(obj: Any, samples: Callable[[], Iterator[Sample]]) -> bool:
    """Whether an estimator is fitted: by scikit-learn's rule (attributes ending in an underscore), else
    whether it can be called at some points.
    """
    is_fitted_method = getattr(obj, "__sklearn_is_fitted__", None)
    if callable(is_fitted_method):
        return bool(is_fitted_method())
    if any(name[-1:] == "_" and name[:1] != "_" for name in getattr(obj, "__dict__", ())):
        return True
    call = MAPS[0] if hasattr(obj, MAPS[0]) else SCORES
    return any(_accepts_sample(obj, call, sample) for sample in samples())


def _accepts_sample(obj: Any, method: str, sample: Sample) -> bool:
    try:
        getattr(framework(obj).duplicate(obj), method)(sample.points)
    except Exception:  # raises before it is fitted, or outside its domain
        return False
    return True


def fitted_estimator(obj: Any, target: Target) -> tuple[Any, str]:
    """A fitted estimator, and a description of its data, empty if it was fitted before.

    Raises `TargetError` if fit rejects the data, or all drawn points.
    """

    def samples() -> Iterator[Sample]:
        return _samples(obj, target)

    if is_fitted(obj, samples):
        return obj, ""
    if asks := signatures.required(obj, "fit")[1:]:
        raise TargetError(
            f"{type(obj).__name__} is not fitted, and its fit asks for {asks[0]}; fit it first"
        )
    refusals = []
    for sample in samples():
        other = framework(obj).duplicate(obj)
        try:
            other.fit(sample.points)
        except Exception as error:
            refusals.append(f"its fit refuses {sample.words}: {one_line(error, 200)}")
        else:
            return other, f"fitted to {sample.words}"
    way = "fit it first" if _data else "fit it first, or name points that it takes with --data"
    raise TargetError(f"{type(obj).__name__} is not fitted, and {refusals[0]}; {way}")


def fitting(build: Callable[[], Any], target: Target) -> Any:
    """The estimator that ``build`` returns, fitted."""
    return fitted_estimator(build(), target)[0]


def _samples(obj: Any, target: Target) -> Iterator[Sample]:
    """Candidate samples: the user's data, else points of the stated domain, else those of `drawn`."""
    if _data:
        rows = open_rows(_data)
        numbers = np.linspace(0, rows.count - 1, min(MOST, rows.count)).astype(int)
        points = rows.take(numbers).reshape(len(numbers), -1)
        points = points[np.isfinite(points).all(1)]
        yield Sample(points, f"{len(points):,} rows of {rows.name}")
        return
    size = _size(obj, target)
    if (domain := _stated_domain(obj, target)) is not None:
        points = draw_points(domain, (DRAWN, size), np.random.default_rng(0))
        yield Sample(points, f"{DRAWN} drawn points of its domain")
        return
    yield from drawn(size)


def drawn(size: int) -> Iterator[Sample]:
    """Samples on the line, positive, and in the unit interval, ``(n, size)`` each. Scripts write the same."""
    normal = correlated(size)
    yield Sample(normal + np.exp(normal / 2), LINE)
    yield Sample(np.exp(normal / 2), POSITIVE)
    yield Sample(1 / (1 + np.exp(-normal)), UNIT)


def _size(obj: Any, target: Target) -> int:
    if event := target.option("event"):
        return math.prod(parse_shape(event, "event"))
    sizes = (getattr(obj, name, None) for name in ("n_features_in_", *FEATURES))
    return next((size for size in sizes if type(size) is int), USUAL)


def _stated_domain(obj: Any, target: Target) -> Support | None:
    text = target.option("domain") or target.option("support")
    if text is not None:
        return parse_support(text, str(target))
    stated = getattr(obj, "domain", None)
    return Support.parse(stated) if isinstance(stated, str | tuple | Support) else None


def correlated(size: int) -> Any:
    """Correlated normal points with several standard deviations, ``(n, size)``. Scripts write the same."""
    upper = np.triu(np.ones((size, size)))
    return np.random.default_rng(0).standard_normal((DRAWN, size)) @ upper
