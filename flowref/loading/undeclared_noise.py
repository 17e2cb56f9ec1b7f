"""Layers that draw and do not say so: calls under several random states show it."""

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
from flowref.adapters.user.conventions.roles import forward_way
from flowref.adapters.user.solvers import integrates, steps_differ
from flowref.loading.draft import Draft, Finding
from flowref.model import Array, Dialect, Kernel, TargetError

# What noise is called by those who draw it.
NOISE = frozenset({"eps", "epsilon", "epsilons", "noise"})
# So many things a map returns at most: its value, its log-det, and another term of its log-density.
MOST = 3
# What may be off, beside the largest number, where a draw is undone.
UNDONE = 1e-5
# Random states in which contributions are compared with Jacobians, for events of up to so many entries;
# the step of differences, and what may be off.
STATES, ENTRIES, STEP, OFF = 4, 256, 1e-6, 1e-4


def encoder(draft: Draft) -> None:
    """Raises: `TargetError` where a call without a way back draws, and takes noise or returns more than a map does, as
    encoders do: it is no map.
    """
    dialect, taken = draft.dialect, signatures.method_parameters(draft.instance.obj, "forward")
    name = next((one.name for one in taken if normalized_name(one.name) in NOISE), "")
    if dialect.forward is None or dialect.inverse or not (name or _returns_more(draft)):
        return
    x, context = draft.points
    calls = Drawn(draft, Dialect(push=dialect.forward), context)
    try:
        drawn = not same_results(calls.there(x, 0)[0], calls.there(x, 1)[0])
    except Exception:  # what cannot be called is spoken of elsewhere
        return
    if drawn:
        what = (
            f"{name} where it is not given"
            if name
            else "random numbers, and returns more than a map does"
        )
        raise TargetError(
            f"{draft.instance.source.target}: forward draws {what}: audit a wrapper that returns "
            "a bound as log_prob(x), or one that takes what is drawn; of a stochastic layer say ?draws=forward"
        )


def _returns_more(draft: Draft) -> bool:
    """Whether forward returns more than a value, a log-det and what may be one."""
    instance = draft.instance
    way = forward_way(instance.obj, instance.chosen(instance.copy()))
    if way is None or way.form != "plain":
        return False
    try:
        out = draft.ask(way.ask, *draft.points)
    except Exception:  # what cannot be called is spoken of elsewhere
        return False
    return isinstance(out, (tuple, list)) and len(out) > MOST


def may_draw(draft: Draft) -> bool:
    """Whether nobody says that it estimates its log-det, or that it is a bijection."""
    declared = draft.instance.source.options.get("kind") == "bijection"
    return not (declared or draft.facts.certainty.estimate)


def layer(draft: Draft) -> Finding | None:
    """What is known of a map that is a layer which draws; None of all else.

    A bijection into which a random number slipped is none: it has to be a layer by what it does. Where
    both directions draw neither undoes the other, though the random state is the same; where one
    draws the other undoes it, whatever was drawn. Where sizes differ it is no bijection anyway. A stack of
    couplings with dropout does not undo itself either; but what it contributes is the log-det of the
    map that was drawn, and that of a layer is not.

    Raises: `TargetError` where nobody reads all that it drew.
    """
    found = None
    with contextlib.suppress(Exception):  # what cannot be called is spoken of elsewhere
        found = _layer(draft)
    if found is not None and draft.spoken.left:
        raise TargetError(
            f"{draft.instance.source.target}: it draws, and {draft.spoken.left}. What a layer that draws contributes "
            "counts all that it drew: audit a wrapper that takes and returns what is drawn as entries of a point, or one "
            "that returns (z, V) alone; of a bijection say ?kind=bijection"
        )
    return found


def _layer(draft: Draft) -> Finding | None:
    if _steps_differ(draft):
        return None
    (x, context), latent = draft.points, draft.spoken.latent
    other_size = latent is not None and latent[0].numel() != x[0].size
    dialect = _of_other_size(draft, x, context) if other_size else _of_same_size(draft)
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
    """Whether values differ from draw to draw as an adaptive solver has them, whose steps follow an estimate beside
    them.
    """
    forward = draft.dialect.forward
    if forward is None or not integrates(draft.instance.obj):
        return False
    calls = Drawn(draft, Dialect(push=forward), draft.points[1])
    (one, first), (other, second) = (calls.there(draft.points[0], seed) for seed in (0, 1))
    if first is None or second is None:
        return False
    return steps_differ(draft.instance.obj, (one, other), (first, second))


def _of_same_size(draft: Draft) -> Dialect | None:
    """How a layer is called of which forward and inverse are called as those of a map."""
    dialect = draft.dialect
    if dialect.forward is None or dialect.inverse is None:
        return None
    settles = repair if callable(getattr(draft.instance.obj, "repair", None)) else None
    density = {name: getattr(dialect, name) for name in ("log_prob", "sample", "rsample")}
    return Dialect(push=dialect.forward, pull=dialect.inverse, repair=settles, **density)


def _of_other_size(draft: Draft, x: Array, context: Array | None) -> Dialect | None:
    """How a layer is called of which the latents have another size than the data."""
    chosen = draft.instance.chosen(draft.instance.copy(), draws="both")

    def settled(obj: Any, points: Any, given: Any) -> Dialect | None:
        dialect = kernel_of(obj, chosen)
        if dialect is None or dialect.pull is None:
            return None
        return resolve_kernel(obj, dialect, chosen, points, given)[0]

    found: Dialect | None = draft.ask(settled, x, context)
    return found


def layered(calls: Drawn, x: Array, z: Array, there: bool, back: bool) -> bool:
    """Whether what a map of as many entries draws is what a layer draws."""
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
    """Whether in every random state what is contributed is the log-det of the map that is drawn in it,
    by differences; also where there are too many entries to see it.
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
    """Whether two results are the same, up to a share of the largest number.

    What is no finite number in both is the same: a map of positive numbers gives nan for negative ones, and
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
    """Calls of copies in eval mode, each under a random state."""

    def __init__(self, draft: Draft, dialect: Dialect, context: Array | None) -> None:
        self.draft, self.dialect, self.context = draft, dialect, context

    def there(self, x: Array, seed: int) -> tuple[Array, Array | None]:
        """Latents, and what was contributed."""
        value, contributed, *_ = self.draft.ask(self.dialect.push, x, self.context, seed)
        given = None if contributed is None else self.draft.array(contributed)
        return self.draft.array(value), given

    def back(self, z: Array, seed: int) -> Array:
        """Data."""
        return self.draft.array(self.draft.ask(self.dialect.pull, z, self.context, seed)[0])
