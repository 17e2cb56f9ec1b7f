"""Latents that a base does not count: along them a log-density is the same however far they are moved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from flowref.laws.common.arithmetic import reported
from flowref.laws.density.base import normalizing_calls
from flowref.laws.density.draws import SampledDensity, answered, drawn, pilot, repeats
from flowref.model import OPPOSITE, Array, Batch, Unsupported
from flowref.model.abilities import Density, Flow, Invertible, offers
from flowref.model.means import fitting

# Blocks of latents that are moved one at a time, by how much, by how much a base falls there that
# decays, and what rounding may do to one that does not; and how far that has to be so, where a map
# goes so far.
BLOCKS, FAR, FALL, FLAT, FARTHER = 16, 30.0, 100.0, 1e-6, 3_000.0
# As few are enough to tell halves; and how many times what one call of several may take is spent on one.
FEWEST, SPARED = 2, 3
# Samples gather at an end where more than the share GATHERED of them lies within the share END of their
# range: of more than MANY, where a few at an end are no accident.
END, GATHERED, MANY = 0.01, 0.004, 1_000


class InvertibleDensity(Density, Invertible, Protocol):
    """A density with its map, which goes both ways."""


def ends_there(flow: Density, batch: Batch, which: str, latents: Array) -> bool:
    """Whether the density may well be the same along some latents, since it repeats, as of angles, or
    since samples end there, as of what is uniform between ends. ``which``: the call that gives them.
    """
    if repeats(flow, batch):
        return True
    if not offers(flow, SampledDensity):
        return False
    try:
        draws = drawn(flow, pilot(flow), batch.seed)
        x = draws.flat.reshape(-1, *flow.density_shape)
        z = np.asarray(flow.calls[which](x, draws.context).value).reshape(len(x), -1)[:, latents]
    except Exception:  # samples are the affair of other laws
        return False
    # Of few samples there is always one at an end: together the latents give enough.
    return gather(z if len(z) > MANY else z.reshape(-1, 1))


def gather(flat: Array) -> bool:
    """Whether samples gather at an end, as those of bounded supports do."""
    low, high = flat.min(0), flat.max(0)
    near = END * (high - low)
    shares = ((flat < low + near).mean(0), (flat > high - near).mean(0))
    return bool(np.max(shares) > GATHERED)


def forgotten(flow: Flow, batch: Batch) -> Iterator[tuple[str, Array]]:
    """The call that maps data to latents, and latents along which the base is the same far out, while it
    falls along others: it knows where it ends, and some are not counted.
    """
    if not offers(flow, InvertibleDensity):
        return
    try:
        ways = normalizing_calls(flow)  # either, where user code does not say which it is
    except Unsupported:
        return
    for which in ways:
        found = _forgotten(flow, batch, which)
        if len(found):
            yield which, found


def _affordable(flow: InvertibleDensity) -> int:
    """How many blocks there are: fewer where calls are so dear that no time would be left."""
    cost = flow.facts.cost
    rows = min(fitting(cost.of(name)) for name in ("forward", "inverse", "log_prob"))
    return max(FEWEST, min(BLOCKS, SPARED * rows // 4))


def _forgotten(flow: InvertibleDensity, batch: Batch, which: str) -> Array:
    """Such latents, where a call maps data to latents; none where all are, or it is not known. A scale
    that other latents tell may be so large far out that nothing falls: what is forgotten is so everywhere.
    """
    context = None if batch.context is None else batch.context[:1]
    try:
        z = np.asarray(flow.calls[which](batch.x[:1], context).value, np.float64)
    except Exception:  # which error is the affair of other laws
        return np.zeros(0, dtype=int)
    found = _flat(flow, z, context, which)
    if not len(found):
        return found
    ordinary = np.random.default_rng(batch.seed).standard_normal(z.shape)
    return np.intersect1d(found, _flat(flow, ordinary, context, which))


def _flat(flow: InvertibleDensity, z: Array, context: Array | None, which: str) -> Array:
    """Latents along which the base is the same, from one point of them on, ``(1, *latent)``."""
    there, back = flow.calls[which], flow.calls[OPPOSITE[which]]
    none = np.zeros(0, dtype=int)
    try:
        blocks = np.array_split(np.arange(z.size), min(z.size, _affordable(flow)))
        steps = (FAR, -FAR, FARTHER, -FARTHER)
        moved = np.repeat(z.reshape(1, -1), 1 + len(steps) * len(blocks), 0)
        for row, (block, step) in enumerate(itertools.product(blocks, steps), 1):
            moved[row, block] += step
        moved = moved.reshape(-1, *z.shape[1:])
        contexts = None if context is None else np.repeat(context, len(moved), 0)
        x = np.asarray(back(moved, contexts).value)
        reached = there(x, contexts)
        log_p, _ = answered(flow, x, contexts)
        base = log_p - reported(flow, reached, len(x))
    except Exception:  # which error is the affair of other laws
        return none
    off = np.abs(np.asarray(reached.value) - moved).reshape(len(x), -1).max(1)
    change = np.where(off < FLAT * FAR, base - base[0], np.nan)[1:].reshape(-1, len(steps))
    # Of each by itself: where scales depend on other latents it is vast along these alone.
    size = np.abs(log_p[0]) + np.abs(log_p[1:]).reshape(-1, len(steps))
    rounding = np.where(np.isfinite(size), FLAT * (1 + size), 0.0)
    near, far = change[:, :2], change[:, 2:]
    falls = (np.abs(near) >= rounding[:, :2]).any(1) | (np.abs(far) >= rounding[:, 2:]).any(1)
    flat = np.asarray(~falls & np.isfinite(near).all(1))
    if not (near < -FALL).all(1).any():
        return none
    return np.concatenate(
        [none, *(block for block, same in zip(blocks, flat, strict=True) if same)]
    )
