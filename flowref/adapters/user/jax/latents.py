"""Latents that come as a list: of levels, which together make up an event, or of states, of which the last is
the latent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flowref.model import Shape, TargetError

# Of a list of states.
LAST = "last"
Latents = tuple[Shape, ...] | str


def alone(out: Any, x: Any) -> bool:
    """Whether what a call on a batch returned is a list of latents, and no value with its log-det."""
    if not isinstance(out, list) or not all(_holds(part, x) for part in out):
        return False
    return not (len(out) == 2 and _size(out[0]) == x.size and _size(out[1]) <= len(x) < x.size)


def _holds(part: Any, x: Any) -> bool:
    return len(getattr(part, "shape", ())) > 1 and len(part) == len(x)


def _size(value: Any) -> int:
    return math.prod(value.shape) if hasattr(value, "shape") else -1


def latents_of(parts: Sequence[Any], x: Any) -> Latents:
    """The shapes of an event's latents in a list that came of a batch, or `LAST`."""
    entries, sizes = math.prod(x.shape[1:]), [_size(part) for part in parts]
    if sizes and all(size == x.size for size in sizes):
        return LAST
    if sum(sizes) != x.size or not all(_holds(part, x) for part in parts):
        given = ", ".join(
            str(tuple(part.shape)) if hasattr(part, "shape") else type(part).__name__
            for part in parts
        )
        raise TargetError(
            f"forward returns a list of {given} for {len(x)} events; its sizes neither add up to the "
            f"{entries} entries of an event nor are all that. If the event shape is another, give it as "
            "?event=3 or ?event=2,4,4; else let it return the latents alone, beside the log-det"
        )
    return tuple(tuple(part.shape[1:]) for part in parts)


def joined(parts: Sequence[Any], latents: Latents) -> Any:
    """One array of the latents of a batch: flat where they are several parts."""
    import jax.numpy as jnp

    if latents == LAST:
        return parts[-1]
    return jnp.concatenate([part.reshape(len(part), -1) for part in parts], -1)


def split(z: Any, shapes: tuple[Shape, ...]) -> list[Any]:
    """Flat latents, of one event or of a batch, as a list of arrays of given shapes."""
    import jax.numpy as jnp

    ends = [sum(map(math.prod, shapes[:end])) for end in range(1, len(shapes))]
    parts = jnp.split(z, ends, -1)
    return [part.reshape(*z.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True)]


def words(latents: Latents) -> str:
    """What the line of a target says of them."""
    if isinstance(latents, str):
        return "latent: the last of its states"
    return f"latent: {len(latents)} parts, {sum(map(math.prod, latents))} entries"
