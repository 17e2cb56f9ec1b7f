"""How a map computes its log-det: in single precision, as a truncated series, or as an estimate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions.series import Series, density_as_log_det, rule_of
from flowref.loading.draft import Draft, Finding
from flowref.loading.size import call_with_cached_weights
from flowref.model import Array

# Remarks on log-dets in single precision, and on sums that start in the default dtype.
SINGLE, DEFAULT = "in single precision, and judged in that", "added up in the default dtype"
ESTIMATED = "estimated with random probes, judged as an estimate"
UNBIASED = "?promises=unbiased-log-det tests its mean"


def precision(draft: Draft) -> Finding | None:
    """The finding for a map whose value is float64 and whose log-det is float32, because the sum starts
    from zeros of the default dtype or from tensors that casts do not reach. If it does so under either
    default dtype, the code casts to float explicitly.
    """
    points = draft.points
    if not _narrows(draft, points, "float32"):
        return None
    itself = _narrows(draft, points, draft.instance.dtype)
    return Finding((SINGLE if itself else DEFAULT,), promises={"narrow-log-det": True})


def _narrows(draft: Draft, points: tuple[Array, Array | None], default: str) -> bool:
    (x, context), instance = points, draft.instance
    backend = instance.backend
    with backend.sandbox(0, default):
        # A few rows show the dtype.
        given = None if context is None else backend.tensor(context, instance.dtype)[:2]
        value: Any = backend.tensor(x[:2], instance.dtype)
        for call in filter(None, (draft.dialect.forward, draft.dialect.inverse)):
            try:
                value, ladj = call_with_cached_weights(
                    backend, call, instance.resting(), value, given
                )
                dtypes = [str(getattr(backend.array(part), "dtype", "")) for part in (value, ladj)]
            except Exception:  # reported by a law
                return False
            if dtypes == ["float64", "float32"]:
                return True
    return False


def rule(draft: Draft) -> Finding | None:
    """The finding for a log-det that is a truncated power series (calls use more terms from now on) or an
    estimate; without a map, for an estimated log-density.
    """
    dialect, promises = draft.dialect, draft.facts.promises
    call = dialect.forward or partial(density_as_log_det, dense=dialect.log_prob)
    found = draft.ask(
        partial(rule_of, call=call, searched=dialect.forward is not None), *draft.points
    )
    if isinstance(found, Series):
        held = {} if "log-det-tolerance" in promises else {"log-det-tolerance": found.tolerance}
        calls = {name: found.of(getattr(dialect, name)) for name in ("forward", "inverse")}
        return Finding((found.words,), promises=held, dialect=replace(dialect, **calls))
    if not found:
        return None
    said = ESTIMATED if draft.facts.certainty.unbiased else f"{ESTIMATED}; {UNBIASED}"
    return Finding((said,), promises={} if "estimator" in promises else {"estimator": True})
