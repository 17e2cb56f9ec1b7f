"""Log-densities that are lower bounds (ELBO): promised, documented, or random if their noise is not passed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.common.documentation import BOUND, documents
from flowref.adapters.user import bounds, calls, contributions
from flowref.adapters.user.conventions import signatures
from flowref.loading.draft import Draft, Finding
from flowref.model import Array

PROMISE = "lower-bound"


def lower_bound_finding(draft: Draft) -> Finding | None:
    """The finding for a promised lower bound, and for a documented one that is random."""
    promised = draft.facts.promises.get(PROMISE)
    if not promised and not (
        draft.dialect.log_prob and documents(draft.instance.obj, BOUND, "log_prob")
    ):
        return None
    if draft.dialect.log_prob is None:
        return Finding(("a lower bound",))
    # In a new object the terms may cancel, such as two logarithms of the same density.
    if not contributions.has_lower_bound_density(draft.instance.obj) and _repeats(draft, "", None):
        known = promised or draft.facts.certainty.estimate
        return Finding(("log_prob is a lower bound",)) if known else None
    return random(draft)


def random(draft: Draft) -> Finding:
    """The finding for a lower bound that differs between random states: an estimate."""
    kind = draft.facts.promises.get(PROMISE)
    if not isinstance(kind, str):
        kind = "expected" if bounds.expected(draft.instance.obj) else "one-sample"
    said = "of one sample" if kind == "one-sample" else "with averages or closed forms"
    words = f"log_prob is a random lower bound {said}"
    return Finding((words,), promises={"estimator": True, PROMISE: kind})


def of_noise(draft: Draft) -> Finding | None:
    """The finding for a log-density with an optional noise argument: deterministic if it is given, random
    if not. Else None.
    """
    method = calls.density_method(draft.dialect.log_prob)
    taken = signatures.method_parameters(draft.instance.obj, method) if method else []
    names = [one.name for one in taken if one.default is None]
    if draft.facts.promises.get(PROMISE) or not names:
        return None
    try:
        if _repeats(draft, method, None):
            return None
        name = next((name for name in names if _repeats(draft, method, name)), "")
    except Exception:  # another argument, or an error that laws report
        return None
    if not name:
        return None
    found = random(draft)
    return found._replace(details=(f"{name} is drawn unless given: {found.details[0]}",))


def _repeats(draft: Draft, method: str, name: str | None) -> bool:
    """Whether two random states give equal log-densities, with noise passed as ``name``."""
    one, other = (_log_prob_with_noise(draft, method, name, seed) for seed in (0, 1))
    return np.array_equal(one, other, equal_nan=True)


def _log_prob_with_noise(draft: Draft, method: str, name: str | None, seed: int) -> Array:
    x, context = draft.points
    noise = np.random.default_rng(0).uniform(0.2, 0.8, x.shape)

    def ask(obj: Any, points: Any, given: Any) -> Any:
        if name is not None:
            drawn = draft.instance.backend.tensor(noise, draft.instance.dtype)
            setattr(obj, method, partial(getattr(obj, method), **{name: drawn}))
        return draft.dialect.log_prob(obj, points, given)  # type: ignore[misc]

    return draft.array(draft.ask(ask, x, context, seed))
