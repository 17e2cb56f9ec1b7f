"""Latents that may be asked for, and that an estimator brings back to no point."""

from __future__ import annotations

import warnings

import numpy as np

from flowref.loading.draft import Draft, Finding
from flowref.loading.estimators import is_estimator

# Deviations from the mean in which standardized latents may well lie.
DEVIATIONS = (5.0, -5.0)


def standardizes(draft: Draft) -> bool:
    """Whether it is an estimator with a way back, whose latents nobody says where they lie."""
    back = draft.dialect.inverse is not None and draft.facts.codomain is None
    return back and is_estimator(draft.instance.obj)


def pointless(draft: Draft) -> Finding | None:
    """The first latent, all of whose entries are as many deviations, that comes back as no finite point."""
    shape = draft.facts.latent_shape or draft.facts.event_shape
    for number in DEVIATIONS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out = draft.ask(draft.dialect.inverse, np.full((1, *shape), number))
        except Exception:  # it refuses what it does not bring back
            continue
        if not np.isfinite(draft.array(out[0])).all():
            return Finding((f"{number:g}",))
    return None
