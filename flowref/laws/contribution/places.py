"""The supports of latents and data of a stochastic layer: declared, or observed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.contribution.sets import FREEDOM, WIDER, Points, Whole, drawn_on, with_whole
from flowref.model import REAL, Array, Support, Undecidable
from flowref.model.abilities import Pushing, TwoWay, offers

# Number of points whose latents are examined, and their spreads.
COUNT, SPREADS = 4000, (0.5, 2.0, 8.0, 30.0)
# Points that decide whether latents are integers.
SOME = 64
# A standard normal distribution has less than 1e-6 beyond this; and the distance from the ends
# within which latents must come to fill an interval.
REACH, NEAR = 5.0, 0.03
# A few thousand latents spread over the line have some beyond this; how much of the line they fill
# is measured.
BEYOND = 2.5
# Repeated draws of a stochastic forward, the tolerance of a recovered latent, and the allowed share
# of duplicates.
AGAIN, BACK, REPEATED = 32, 1e-6, 0.02
# One of this many latents must be finite.
FINITE = 3
SAY = "say ?codomain=real, positive, ordered, ..."


class Place(NamedTuple):
    """A set that contains the latents, and the share of its own distribution that is known to lie
    on them. ``sure``: whether it was declared, or verified point by point.
    """

    support: Support
    share: float
    sure: bool


class Levels(NamedTuple):
    """The uniform distribution on integers, entry by entry: points ``(n, *shape)``."""

    low: Array
    high: Array

    @property
    def center(self) -> Array:
        """The middle of the range, ``(*shape)``."""
        return np.asarray((self.low + self.high) / 2)

    @property
    def spread(self) -> Array:
        """Half the range, ``(*shape)``."""
        return np.asarray(np.maximum((self.high - self.low) / 2, 1.0))

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Points ``(count, *shape)``."""
        return rng.integers(self.low, self.high + 1, (count, *self.low.shape)).astype(np.float64)

    def log_prob(self, x: Array) -> Array:
        """The log-probability of each row, ``(n,)``."""
        inside = ((x >= self.low) & (x <= self.high) & (x == np.round(x))).reshape(len(x), -1)
        chance = -float(np.log(self.high - self.low + 1.0).sum())
        return np.where(inside.all(1), chance, -np.inf)


def placed(flow: Pushing, seed: int) -> Place:
    """The support of the latents: the declared codomain, or a set that the latents of a few
    thousand points fill. Raises `Undecidable` if neither is known.
    """
    declared = flow.codomain
    if declared is not None:
        some = latents_of(flow, seed, SOME)
        if some is None or with_whole(declared, some.reshape(len(some), -1)) is declared:
            return Place(declared, 1.0, True)
    z = latents_of(flow, seed, COUNT)
    if declared is not None and z is not None:
        # A declaration gives the interval, but not whether values are integers.
        support: Support | None = with_whole(declared, z.reshape(len(z), -1))
    else:
        support = None if z is None else seen(z)
    if support is None:
        raise Undecidable(
            f"its codomain is not declared, and calls do not show where latents lie; {SAY}"
        )
    return share_on_latents(flow, support, seed)


def latents_of(flow: Pushing, seed: int, count: int) -> Array | None:
    """The finite latents of points near and far, ``(n, *latent)``; None if forward rejects them,
    or few are finite.
    """
    rng, some = np.random.default_rng(seed), []
    for turn, spread in enumerate(SPREADS):
        x = Points(flow.domain, flow.event_shape, 0.0, spread).draw(rng, count // len(SPREADS))
        # Its own noise for each, which would otherwise be repeated.
        out, refused = attempt(flow.push, x, seed + 101 * turn, None)
        if not refused:
            some.append(np.asarray(out.value, dtype=np.float64))
    if not some:
        return None
    z = np.concatenate(some)
    finite = np.isfinite(z).reshape(len(z), -1).all(1)
    # Far out a step of a layer may overflow.
    return z[finite] if finite.sum() * FINITE >= count else None


def seen(z: Array) -> Support | None:
    """The set that latents are spread over; None if it is unknown."""
    flat = z.reshape(len(z), -1)
    if not flat.shape[1]:
        return None
    counted = [is_integer_valued(entry) for entry in flat.T]
    if any(counted):
        each = [
            _levels_of(entry) if one else spread_over(entry[:, None])
            for one, entry in zip(counted, flat.T, strict=True)
        ]
        found = [one for one in each if one is not None]
        return Support.product(found) if len(found) == len(each) else None
    return spread_over(z)


def _levels_of(entry: Array) -> Support:
    """The integers that an entry takes; the outermost ones stand for all beyond."""
    low, high = float(entry.min()), float(entry.max())
    return Whole.between(
        low if low > -REACH else -math.inf,
        high if high < REACH else math.inf,
    )


def spread_over(z: Array) -> Support | None:
    """The set that non-integer latents are spread over; None if it is unknown."""
    flat = z.reshape(len(z), -1)
    if any(len(np.unique(entry)) < (1 - REPEATED) * len(entry) for entry in flat.T):
        return None
    low, high = flat.min(0), flat.max(0)
    if z.ndim > 1 and z.shape[-1] > 1 and (np.diff(z, axis=-1) > 0).all():
        return Support.parse("ordered")
    if (low < -BEYOND).all() and (high > BEYOND).all():
        return REAL
    if (low > 0).all() and (low < NEAR).all():
        if (high > BEYOND).all():
            return Support.parse("positive")
        if (high < 1).all() and (high > 1 - NEAR).all():
            return Support.parse("unit")
    return None


def share_on_latents(flow: Pushing, support: Support, seed: int) -> Place:
    """The share of the distribution on a set that lies on latents. For a deterministic forward,
    the latents that the inverse recovers; for a stochastic one, those within the range of its
    draws at the data that the inverse returned.
    """
    draws = flow.kernel.draws[0] is not False
    nothing = Place(support, 0.0, False)
    if not offers(flow, TwoWay):
        return nothing
    count = COUNT // AGAIN if draws else COUNT
    z = drawn_on(support, flow.latent_shape, np.random.default_rng(seed + 3), count)
    back, refused = attempt(flow.pull, z, seed, None)
    if refused:
        return nothing
    x = np.asarray(back.value, dtype=np.float64)
    again, refused = attempt(flow.push, np.repeat(x, AGAIN, 0) if draws else x, seed + 4, None)
    if refused or np.shape(again.value)[1:] != z.shape[1:]:
        return nothing
    there = np.asarray(again.value, dtype=np.float64).reshape(count, -1, *z.shape[1:])
    room = BACK * (1 + np.abs(z))
    inside = (there.min(1) <= z + room) & (z - room <= there.max(1))
    share = float(inside.reshape(count, -1).all(1).mean())
    return Place(support, share, not draws)


def proposals(flow: Pushing, inside: Support, seed: int) -> list[Points | Levels]:
    """Proposals of data around the inverse images of the codomain, with growing width; for integer
    data, integers.
    """
    shape = flow.event_shape
    plain = Points(flow.domain, shape, 0.0, WIDER)
    if not offers(flow, TwoWay):
        return [plain]
    latents = drawn_on(inside, flow.latent_shape, np.random.default_rng(seed), COUNT // 2)
    out, refused = attempt(flow.pull, latents, seed + 1, None)
    if refused:
        return [plain]
    x: Array = np.asarray(out.value, dtype=np.float64).reshape(len(latents), -1)
    if not np.isfinite(x).all() or x.shape[1] != math.prod(shape):
        return [plain]
    if is_integer_valued(x):
        return [Levels(x.min(0).reshape(shape), x.max(0).reshape(shape))]
    if flow.domain.kind != "real":
        return [plain]
    low, center, high = (one.reshape(shape) for one in np.quantile(x, (0.25, 0.5, 0.75), axis=0))
    # Half of Student's t lies within 0.73 of its middle.
    spread = np.maximum((high - low) / (2 * 0.7267 if FREEDOM == 5 else 1.35), 1e-3)
    around = [Points(flow.domain, shape, center, wide * spread) for wide in (WIDER, 2 * WIDER)]
    return [*around, plain]


def is_integer_valued(x: Array) -> bool:
    """Whether data are integers, and not all equal."""
    return bool((x == np.round(x)).all() and (x != x.flat[0]).any())
