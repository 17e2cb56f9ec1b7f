"""Latents of an estimator that its inverse maps to no finite point."""

from __future__ import annotations

import warnings

import numpy as np

from flowref.loading.draft import Draft, Finding
from flowref.loading.estimators import is_estimator

# Standard deviations within which standardized latents may well lie.
DEVIATIONS = (5.0, -5.0)


def standardizes(draft: Draft) -> bool:
    """Whether the draft is an estimator with an inverse whose latent support is not stated."""
    back = draft.dialect.inverse is not None and draft.facts.codomain is None
    return back and is_estimator(draft.instance.obj)


def pointless(draft: Draft) -> Finding | None:
    """The first constant latent of `DEVIATIONS` whose inverse is not finite, if any."""
    shape = draft.facts.latent_shape or draft.facts.event_shape
    for number in DEVIATIONS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out = draft.ask(draft.dialect.inverse, np.full((1, *shape), number))
        except Exception:  # raises instead
            continue
        if not np.isfinite(draft.array(out[0])).all():
            return Finding((f"{number:g}",))
    return None
