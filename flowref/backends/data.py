"""Points of a map's domain and codomain as numpy arrays: ordinary ones, and training data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flowref.model import REAL, Array, Dialect, Facts, Shape, Support, draw_points


def is_mask(array: Any) -> bool:
    """Whether an array holds only zeros and ones, and at least one of each."""
    plain = np.asarray(array)
    return plain.size > 1 and bool(np.isin(plain, (0.0, 1.0)).all()) and plain.min() != plain.max()


def toward_latents(dialect: Dialect) -> str:
    """Returns the name of the call that maps data to latents: ``dialect.normalizing``, or
    "forward" if there is no inverse.
    """
    return dialect.normalizing if dialect.inverse is not None else "forward"


def data_on_latents(dialect: Dialect) -> bool:
    """Whether data lie in the codomain of ``forward``, as for a map from latents to data."""
    return dialect.forward is not None and toward_latents(dialect) == "inverse"


def side(facts: Facts, latents: bool = False) -> tuple[Support, Shape]:
    """Returns (support, event shape) of the inputs of ``forward``, or of its outputs if
    ``latents``.
    """
    if latents:
        return facts.codomain or REAL, facts.latent_shape or facts.event_shape
    return facts.domain, facts.event_shape


def points_and_contexts(
    facts: Facts,
    rows: int,
    rng: np.random.Generator,
    latents: bool = False,
    drawn: Callable[..., Array] = draw_points,
) -> tuple[Array, Array | None]:
    """Draws ``rows`` points of the domain (or codomain), shape ``(rows, *event)``, and contexts of
    shape ``(rows, *context)``, or None without contexts.
    """
    support, shape = side(facts, latents)
    x = drawn(support, (rows, *shape), rng)
    if facts.context_shape is None:
        return x, None
    return x, rng.standard_normal((rows, *facts.context_shape))


def skewed_samples(support: Support, shape: Shape, rng: np.random.Generator) -> Any:
    """Draws points of a support, of ``shape`` ``(n, *event)``, from a skewed distribution with two
    modes in each coordinate; in joint supports and products, from the ordinary one.
    """
    if support.joint or support.kind == "product":
        return draw_points(support, shape, rng)
    rows = (shape[0], *[1] * (len(shape) - 1))
    second = rng.random(rows) < 0.35
    noise = rng.standard_normal(shape)
    real = np.where(second, 1.5 + 0.3 * noise, -2.0 + 0.8 * np.exp(0.5 * noise))
    low, high = support.low, support.high
    if math.isfinite(low) and math.isfinite(high):
        return low + (high - low) * (0.02 + 0.96 / (1 + np.exp(-real)))
    if math.isfinite(low):
        return low + np.log1p(np.exp(real)) + 1e-3
    if math.isfinite(high):
        return high - np.log1p(np.exp(real)) - 1e-3
    return real


def flattened_results(results: Sequence[Any]) -> list[Any]:
    """The arrays of a list of results, where tuples are flattened and None is dropped."""
    each = [one if isinstance(one, tuple) else (one,) for one in results]
    return [part for parts in each for part in parts if part is not None]
