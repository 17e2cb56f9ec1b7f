"""Layers that draw and do not say so: calls under several random states show it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user.contributions import kernel as kernel_of
from flowref.adapters.user.contributions import repair, settle, spread
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.chosen import chosen_of
from flowref.adapters.user.conventions.names import plain
from flowref.adapters.user.conventions.roles import forward_way
from flowref.adapters.user.conventions.settling import Settled
from flowref.loading.factory import attributes
from flowref.loading.instance import Instance
from flowref.model import Array, Dialect, Facts, Kernel, TargetError

# What noise is called by those who draw it.
NOISE = frozenset({"eps", "epsilon", "epsilons", "noise"})
# So many things a map returns at most: its value, its log-det, and another term of its log-density.
MOST = 3
# What may be off, beside the largest number, where a draw is undone.
UNDONE = 1e-5
# Random states in which contributions are compared with Jacobians, for events of up to so many entries;
# the step of differences, and what may be off.
STATES, ENTRIES, STEP, OFF = 4, 256, 1e-6, 1e-4
WORDS = "a layer that draws, as calls show (of a bijection say ?kind=bijection)"


def drawing(
    instance: Instance, spoken: Settled, facts: Facts, x: Array, context: Array | None
) -> tuple[Facts, Settled] | None:
    """The facts of a map that is a layer which draws, and how it speaks; None of all else.

    A bijection into which a random number slipped is none: it has to be a layer by what it does. Where
    both directions draw neither undoes the other, though the random state is the same; where one
    draws the other undoes it, whatever was drawn. Where sizes differ it is no bijection anyway. A stack of
    couplings with dropout does not undo itself either; but what it contributes is the log-det of the
    map that was drawn, and that of a layer is not.
    """
    _refuse_noise(instance, spoken, facts, x, context)
    found = _drawing(instance, spoken, facts, x, context)
    if found is not None and spoken.left:
        raise TargetError(
            f"{instance.source.target}: it draws, and {spoken.left}. What a layer that draws contributes counts all "
            "that it drew: audit a wrapper that takes and returns what is drawn as entries of a point, or one that "
            "returns (z, V) alone; of a bijection say ?kind=bijection"
        )
    return found


def _refuse_noise(
    instance: Instance, spoken: Settled, facts: Facts, x: Array, context: Array | None
) -> None:
    """Refuse a call without a way back that draws, and takes noise or returns more than a map does, as encoders
    do: it is no map.
    """
    dialect, taken = spoken.dialect, signatures.parameters(instance.obj, "forward")
    name = next((one.name for one in taken if plain(one.name) in NOISE), "")
    if facts.normalizer is not None or dialect.forward is None or dialect.inverse:
        return
    more = name or _returns_more(instance, x, context)
    if not more:
        return
    calls = Drawn(instance, Dialect(push=dialect.forward), context)
    try:
        drawn = not same(calls.there(x, 0)[0], calls.there(x, 1)[0])
    except Exception:  # what cannot be called is spoken of elsewhere
        return
    if drawn:
        what = (
            f"{name} where it is not given"
            if name
            else "random numbers, and returns more than a map does"
        )
        raise TargetError(
            f"{instance.source.target}: forward draws {what}: audit a wrapper that returns "
            "a bound as log_prob(x), or one that takes what is drawn; of a stochastic layer say ?draws=forward"
        )


def _returns_more(instance: Instance, x: Array, context: Array | None) -> bool:
    """Whether forward returns more than a value, a log-det and what may be one."""
    obj = instance.copy()
    options = dict(instance.source.target.options)
    way = forward_way(obj, chosen_of(obj, attributes(instance.source.factory), options))
    if way is None or way.form != "plain":
        return False
    tensors = [
        None if one is None else instance.backend.tensor(one, instance.dtype)
        for one in (x, context)
    ]
    try:
        with instance.backend.sandbox(0, instance.dtype):
            out = way.ask(obj, *tensors)
    except Exception:  # what cannot be called is spoken of elsewhere
        return False
    return isinstance(out, (tuple, list)) and len(out) > MOST


def _drawing(
    instance: Instance, spoken: Settled, facts: Facts, x: Array, context: Array | None
) -> tuple[Facts, Settled] | None:
    told = facts.certainty.estimate or instance.source.target.option("kind") == "bijection"
    if told or facts.normalizer is not None or instance.backend.name != "torch":
        return None
    with contextlib.suppress(Exception):  # what cannot be called is spoken of elsewhere
        other_size = spoken.latent is not None and spoken.latent[0].numel() != x[0].size
        dialect = (
            _of_other_size(instance, x, context) if other_size else _of_same_size(instance, spoken)
        )
        if dialect is None:
            return None
        calls = Drawn(instance, dialect, context)
        z, contributed = calls.there(x, 0)
        there = not same(z, calls.there(x, 1)[0])
        back = not same(calls.back(z, 0), calls.back(z, 1))
        if contributed is None or not (there or back) or calls.back(z, 0).shape != x.shape:
            return None
        if not other_size and (not layered(calls, x, z, there, back) or is_log_det(calls, x)):
            return None
        if contributed.size == 1:
            dialect = replace(dialect, push=partial(spread, call=dialect.push))
        kernel = replace(facts, kernel=Kernel((there, back)), latent_shape=tuple(z.shape[1:]))
        return kernel, replace(spoken, dialect=dialect).saying(WORDS)
    return None


def _of_same_size(instance: Instance, spoken: Settled) -> Dialect | None:
    """How a layer is called of which forward and inverse are called as those of a map."""
    dialect = spoken.dialect
    if dialect.forward is None or dialect.inverse is None:
        return None
    settles = repair if callable(getattr(instance.obj, "repair", None)) else None
    density = {name: getattr(dialect, name) for name in ("log_prob", "sample", "rsample")}
    return Dialect(push=dialect.forward, pull=dialect.inverse, repair=settles, **density)


def _of_other_size(instance: Instance, x: Array, context: Array | None) -> Dialect | None:
    """How a layer is called of which the latents have another size than the data."""
    backend, dtype = instance.backend, instance.dtype
    with backend.sandbox(0, dtype):
        obj = instance.copy()
        backend.set_mode(obj, False)
        options = {**dict(instance.source.target.options), "draws": "both"}
        chosen = chosen_of(obj, attributes(instance.source.factory), options)
        dialect = kernel_of(obj, chosen)
        if dialect is None or dialect.pull is None:
            return None
        given = None if context is None else backend.tensor(context, dtype)
        return settle(obj, dialect, chosen, backend.tensor(x, dtype), given)[0]


def layered(calls: Drawn, x: Array, z: Array, there: bool, back: bool) -> bool:
    """Whether what a map of as many entries draws is what a layer draws."""
    if there and back:
        return not same(calls.back(z, 0), x, UNDONE)
    if there:
        return all(
            same(calls.back(calls.there(x, seed)[0], seed + 5), x, UNDONE) for seed in (0, 1)
        )
    return all(same(calls.there(calls.back(z, seed), seed + 5)[0], z, UNDONE) for seed in (0, 1))


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
        if not same(contributed.reshape(len(x), -1).sum(1), log_det, OFF):
            return False
    return True


def same(first: Array, second: Array, off: float = 0.0) -> bool:
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

    def __init__(self, instance: Instance, dialect: Dialect, context: Array | None) -> None:
        self.instance, self.dialect, self.context = instance, dialect, context

    def there(self, x: Array, seed: int) -> tuple[Array, Array | None]:
        """Latents, and what was contributed."""
        out = self._made(self.dialect.push, x, seed)
        contributed = None if out[1] is None else np.asarray(self.instance.backend.array(out[1]))
        return np.asarray(self.instance.backend.array(out[0])), contributed

    def back(self, z: Array, seed: int) -> Array:
        """Data."""
        return np.asarray(self.instance.backend.array(self._made(self.dialect.pull, z, seed)[0]))

    def _made(self, call: Any, points: Array, seed: int) -> Any:
        backend, dtype = self.instance.backend, self.instance.dtype
        with backend.sandbox(seed, dtype):
            obj = self.instance.copy()
            backend.set_mode(obj, False)
            given = None if self.context is None else backend.tensor(self.context, dtype)
            return call(obj, backend.tensor(np.asarray(points, dtype=np.float64), dtype), given)
