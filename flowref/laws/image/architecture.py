"""The layers of a multi-scale map, and whether they run."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.outcomes import flags
from flowref.laws.image.multi_scale import WHOLE, InvertibleMultiScale
from flowref.model import (
    ADVICE,
    CONTRACT,
    EXACT,
    GIVEN,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    draw_points,
    law,
    requires,
)
from flowref.model.abilities import MultiScaled
from flowref.model.steps import Eval, Layers

# The architecture of Real NVP: couplings before and after a squeeze, and in the last level.
BEFORE, AFTER, FINAL = 3, 3, 4


@law(
    "multi-scale/all-layers-run",
    force=ADVICE,
    tolerance=EXACT,
    source="a loop over range(couplings, final) that leaves the last couplings out trains without complaint",
    **{**WHOLE, "scales": GIVEN},
)
def all_layers_run(flow: InvertibleMultiScale, batch: Batch) -> Residual:
    """Every layer with parameters runs in both calls, equally often."""
    x = np.asarray(
        draw_points(flow.domain, (1, *flow.event_shape), np.random.default_rng(batch.seed))
    )
    context = None if batch.context is None else batch.context[:1]
    y = np.asarray(flow.forward(x, context).value)
    steps = [Eval(), Layers("forward", x, context), Layers("inverse", y, context)]
    _, there, back = flow.play(steps)
    if not there:
        raise Unsupported("it has no layers with parameters")
    idle = sorted(name for name, count in there.items() if not count and not back[name])
    uneven = sorted(name for name, count in there.items() if count != back[name])
    notes = [f"{', '.join(idle)} never run"] if idle else []
    notes += [f"{', '.join(uneven)} run in one call more often than in the other"] if uneven else []
    return flags(bool(notes), len(batch.x), "; ".join(notes))


@requires("the kinds of its layers are not declared", blocked=True)
def lists_layers(flow: MultiScaled) -> bool:
    """The kinds of the layers are declared."""
    return bool(flow.multi_scale.architecture)


@law(
    "multi-scale/real-nvp-architecture",
    force=CONTRACT,
    promise="real-nvp",
    tolerance=EXACT,
    applies=lists_layers,
    source="Dinh et al. 2017, Real NVP (arXiv:1605.08803), sections 3.6 and 4.1",
    **{**WHOLE, "scales": GIVEN},
)
def real_nvp_architecture(flow: MultiScaled, batch: Batch) -> Residual:
    """Each level has three checkerboard couplings, a squeeze and three channel couplings with
    twice the hidden width; the last has four checkerboard couplings.
    """
    *inner, last = flow.multi_scale.architecture
    expected = [("checkerboard",) * BEFORE + ("squeeze",) + ("channel",) * AFTER] * len(inner)
    seen = [tuple(kind for kind, _ in level) for level in inner]
    widths = [width for level in (*inner, last) for kind, width in level if kind != "squeeze"]
    if not widths:
        raise Undecidable("no coupling is declared")
    doubled: list[int] = []
    width = widths[0]
    for level in (*inner, last):
        for kind, _ in level:
            width *= 2 if kind == "squeeze" else 1
            doubled += [] if kind == "squeeze" else [width]
    note = ""
    if seen != expected or tuple(kind for kind, _ in last) != ("checkerboard",) * FINAL:
        final = ", ".join(kind for kind, _ in last)
        note = f"the levels are {[', '.join(kinds) for kinds in seen]} and {final}"
    elif widths != doubled:
        note = f"the hidden widths are {widths}; expected {doubled}"
    return flags(bool(note), len(batch.x), note)
