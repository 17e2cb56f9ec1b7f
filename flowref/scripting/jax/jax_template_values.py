"""The values of a template's placeholders in one case."""

from __future__ import annotations

import contextlib
import math

from flowref.scripting.case import ReproductionCase
from flowref.scripting.jax.jax_object_lines import random_points
from flowref.scripting.names import Unwritable
from flowref.scripting.numbers import number_literal

# Half-width of the integration range on an unbounded axis.
REACH = 40.0
# Rows of an ordinary batch.
ORDINARY = 16


def filling(case: ReproductionCase, which: str, rows: int) -> dict[str, str]:
    """Return placeholder -> text. ``which``: the call that the template is about; ``rows``: number
    of points.
    """
    facts, dialect, shape = case.facts, case.dialect, case.facts.event_shape
    size, latent = math.prod(shape), facts.latent_shape or shape
    there = case.law.points == "data" or dialect.normalizing == "forward"
    direct = there or None in (dialect.forward, dialect.inverse)
    domain = facts.domain
    names = {
        "square": "" if len(shape) == len(latent) == 1 else f".reshape({size}, {size})",
        "size": str(size),
        "sizes": ", ".join(map(str, shape)),
        "shape": str((-1, *shape)),
        "rows": str(rows),
        "latents": "x" if facts.codomain is not None else "forward(x)[0]",
        "data": "x" if direct else "forward(x)[0]",
        "which": which,
        "normalizing": dialect.normalizing if getattr(dialect, dialect.normalizing) else "forward",
        "ladj_shape": str((rows, *facts.ladj_event)),
        "from": number_literal(domain.low if math.isfinite(domain.low) else -REACH),
        "to": number_literal(domain.high if math.isfinite(domain.high) else REACH),
    }
    with contextlib.suppress(Unwritable):
        names["ordinary"] = random_points(domain, (ORDINARY, *shape))
    if (other := case.recorded.observed.get("x'")) is not None:
        names["other"] = f"jnp.array([{other!r}])"
    if (point := case.recorded.observed.get("z")) is not None:
        names["point"] = f"jnp.array([{point!r}])"
    return names
