"""Stochastic layers that are not declared, found by calls under several random states."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.contributions import broadcast_contribution, repair, resolve_kernel
from flowref.adapters.user.contributions import kernel as kernel_of
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.names import normalized_name
from flowref.adapters.user.conventions.roles import forward_call_form
from flowref.adapters.user.solvers import integrates, steps_differ
from flowref.loading.draft import Draft, Finding
from flowref.model import Array, Dialect, Kernel, TargetError

# Names of noise arguments.
NOISE = frozenset({"eps", "epsilon", "epsilons", "noise"})
# Maximal number of values that a map returns: its value, its log-det, and one more log-density
# term.
MOST = 3
# Relative tolerance of an inverse that undoes a draw.
UNDONE = 1e-5
# Random states in which contributions are compared with Jacobians, maximal entries of the events,
# the step of differences, and the tolerance.
STATES, ENTRIES, STEP, OFF = 4, 256, 1e-6, 1e-4


def encoder(draft: Draft) -> None:
    """Raise `TargetError` if a map without inverse is random and takes noise or returns more than a map, as
    encoders do.
    """
    dialect, taken = draft.dialect, signatures.method_parameters(draft.instance.obj, "forward")
    name = next((one.name for one in taken if normalized_name(one.name) in NOISE), "")
    if dialect.forward is None or dialect.inverse or not (name or _returns_more(draft)):
        return
    x, context = draft.points
    calls = Drawn(draft, Dialect(push=dialect.forward), context)
    try:
        drawn = not same_results(calls.there(x, 0)[0], calls.there(x, 1)[0])
    except Exception:  # reported elsewhere
        return
    if drawn:
        what = (
            f"{name} unless it is given"
            if name
            else "random numbers, and returns more than a map does"
        )
        raise TargetError(
            f"{draft.instance.source.target}: forward draws {what}: audit a wrapper that returns "
            "a bound as log_prob(x), or one that takes the draws; for a stochastic layer say ?draws=forward"
        )


def _returns_more(draft: Draft) -> bool:
    """Whether forward returns more than a value, a log-det and one more term."""
    instance = draft.instance
    way = forward_call_form(instance.obj, instance.chosen(instance.copy()))
    if way is None or way.form != "plain":
        return False
    try:
        out = draft.ask(way.ask, *draft.points)
    except Exception:  # reported elsewhere
        return False
    return isinstance(out, (tuple, list)) and len(out) > MOST


def may_draw(draft: Draft) -> bool:
    """Whether neither an estimate nor a bijection is declared."""
    declared = draft.instance.source.options.get("kind") == "bijection"
    return not (declared or draft.facts.certainty.estimate)


def layer(draft: Draft) -> Finding | None:
    """The finding for a map that is a stochastic layer; else None.

    A bijection with random noise by mistake is not one. If both directions draw, neither may undo the other
    in the same random state; if one draws, the other must undo every draw; if sizes differ it is no
    bijection. A stack of couplings with dropout does not undo itself either, but contributes the log-det of
    the drawn map, which a stochastic layer does not. Raises `TargetError` if a returned value was not
    recognized.
    """
    found = None
    with contextlib.suppress(Exception):  # reported elsewhere
        found = _layer(draft)
    if found is not None and draft.resolved.left:
        raise TargetError(
            f"{draft.instance.source.target}: it is random, and {draft.resolved.left}. The contribution of a stochastic layer "
            "includes all its draws: audit a wrapper that takes and returns the draws as entries of a point, or one "
            "that returns (z, V) alone; for a bijection say ?kind=bijection"
        )
    return found


def _layer(draft: Draft) -> Finding | None:
    if _steps_differ(draft):
        return None
    (x, context), latent = draft.points, draft.resolved.latent
    other_size = latent is not None and latent[0].numel() != x[0].size
    dialect = (
        _other_size_convention(draft, x, context) if other_size else _same_size_convention(draft)
    )
    if dialect is None:
        return None
    calls = Drawn(draft, dialect, context)
    z, contributed = calls.there(x, 0)
    there = not same_results(z, calls.there(x, 1)[0])
    data = calls.back(z, 0)
    back = not same_results(data, calls.back(z, 1))
    if contributed is None or not (there or back) or data.shape != x.shape:
        return None
    if not other_size and (not layered(calls, x, z, there, back) or is_log_det(calls, x)):
        return None
    if contributed.size == 1:
        dialect = replace(dialect, push=partial(broadcast_contribution, call=dialect.push))
    facts = {"kernel": Kernel((there, back)), "latent_shape": tuple(z.shape[1:])}
    return Finding(facts=facts, dialect=dialect)


def _steps_differ(draft: Draft) -> bool:
    """Whether values differ between draws only by the steps of an adaptive solver, which follow an
    estimate.
    """
    forward = draft.dialect.forward
    if forward is None or not integrates(draft.instance.obj):
        return False
    calls = Drawn(draft, Dialect(push=forward), draft.points[1])
    (one, first), (other, second) = (calls.there(draft.points[0], seed) for seed in (0, 1))
    if first is None or second is None:
        return False
    return steps_differ(draft.instance.obj, (one, other), (first, second))


def _same_size_convention(draft: Draft) -> Dialect | None:
    dialect = draft.dialect
    if dialect.forward is None or dialect.inverse is None:
        return None
    settles = repair if callable(getattr(draft.instance.obj, "repair", None)) else None
    density = {name: getattr(dialect, name) for name in ("log_prob", "sample", "rsample")}
    return Dialect(push=dialect.forward, pull=dialect.inverse, repair=settles, **density)


def _other_size_convention(draft: Draft, x: Array, context: Array | None) -> Dialect | None:
    """The calling convention of a layer whose latents have another size; None if it is none."""
    chosen = draft.instance.chosen(draft.instance.copy(), draws="both")

    def settled(obj: Any, points: Any, given: Any) -> Dialect | None:
        dialect = kernel_of(obj, chosen)
        if dialect is None or dialect.pull is None:
            return None
        return resolve_kernel(obj, dialect, chosen, points, given)[0]

    found: Dialect | None = draft.ask(settled, x, context)
    return found


def layered(calls: Drawn, x: Array, z: Array, there: bool, back: bool) -> bool:
    """Whether the draws of a map between points ``x`` and latents ``z``, ``(n, *event)`` each, are those of
    a stochastic layer; ``there``, ``back``: whether the directions are random.
    """
    if there and back:
        return not same_results(calls.back(z, 0), x, UNDONE)
    if there:
        return all(
            same_results(calls.back(calls.there(x, seed)[0], seed + 5), x, UNDONE)
            for seed in (0, 1)
        )
    return all(
        same_results(calls.there(calls.back(z, seed), seed + 5)[0], z, UNDONE) for seed in (0, 1)
    )


def is_log_det(calls: Drawn, x: Array) -> bool:
    """Whether in every random state the contribution at ``x (n, *event)`` is the log-det of the drawn map,
    by differences; True for events too large to check.
    """
    entries = x[0].size
    if entries > ENTRIES:
        return True
    step = STEP * np.maximum(1.0, np.abs(x).max())
    for seed in range(STATES):
        columns = []
        for shift in step * np.eye(entries).reshape(entries, *x.shape[1:]):
            rise = calls.there(x + shift, seed)[0] - calls.there(x - shift, seed)[0]
            columns.append(rise.reshape(len(x), -1) / (2 * step))
        _, log_det = np.linalg.slogdet(np.stack(columns, axis=-1))
        contributed = calls.there(x, seed)[1]
        assert contributed is not None
        if not same_results(contributed.reshape(len(x), -1).sum(1), log_det, OFF):
            return False
    return True


def same_results(first: Array, second: Array, off: float = 0.0) -> bool:
    """Whether two results of equal shape agree up to ``off`` times the largest number.

    Entries that are not finite in both agree: a map of positive numbers returns NaN for negative ones, and
    draws nothing.
    """
    if first.shape != second.shape:
        return False
    finite = np.isfinite(second)
    if not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return False
    largest = float(np.max(np.abs(second[finite]), initial=1.0))
    return bool((np.abs(first[finite] - second[finite]) <= off * largest).all())


class Drawn:
    """Calls of copies in eval mode under given random states."""

    def __init__(self, draft: Draft, dialect: Dialect, context: Array | None) -> None:
        self.draft, self.dialect, self.context = draft, dialect, context

    def there(self, x: Array, seed: int) -> tuple[Array, Array | None]:
        """Latents ``(n, *latent)`` of points ``(n, *event)``, and contributions ``(n,)`` or None."""
        value, contributed, *_ = self.draft.ask(self.dialect.push, x, self.context, seed)
        given = None if contributed is None else self.draft.array(contributed)
        return self.draft.array(value), given

    def back(self, z: Array, seed: int) -> Array:
        """Points ``(n, *event)`` of latents ``(n, *latent)``."""
        return self.draft.array(self.draft.ask(self.dialect.pull, z, self.context, seed)[0])
