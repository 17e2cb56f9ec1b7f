"""Whether latents fill a set: declared, seen point by point, or told by the mass of the density."""

from __future__ import annotations

import math

from flowref.laws.contribution.calls import guarded
from flowref.laws.contribution.places import AGAIN, SAY, placed
from flowref.laws.contribution.weighing import weighed
from flowref.model import Support, Undecidable
from flowref.model.abilities import Pushing

# How many points tell the mass, the more where its standard error is larger than that, and what of it may
# be missing.
COUNTS, ERROR, LACKING = (80_000, 640_000), 0.006, 0.02
# A set is filled of which so much is on latents beside what draws show of one that is: of half of a line
# it is half of that.
NEARLY = 0.8


def filled(flow: Pushing, seed: int) -> Support:
    r"""Where latents lie, each point being one; `Undecidable` where that is not known.

    For a normalized density q the mass of $E[e^V q(z)]$ is the chance under q of what are latents at
    all. Where contributions give a mass of 1, there is nothing else; and where forward draws on all
    sides of nearly every latent, whatever contributions are.
    """
    place = placed(flow, seed)
    if place.sure and place.share >= 1:
        return place.support
    # Of one number among several that are alike the others lie on both sides with this chance.
    around = ((AGAIN - 1) / (AGAIN + 1)) ** math.prod(flow.latent_shape)
    if not place.sure and place.share >= NEARLY * around:
        return place.support
    if not place.sure and abs(_mass(flow, place.support, seed) - 1) <= LACKING:
        return place.support
    raise Undecidable(f"its codomain is not declared, and may be less than {place.support}; {SAY}")


def _mass(flow: Pushing, support: Support, seed: int) -> float:
    """The mass of the density, or 0 where this many points do not tell it."""
    for count in COUNTS:
        try:
            mass, error = guarded(weighed(flow, support, count, seed + 17)[2])
        except Undecidable:
            return 0.0
        if error <= ERROR:
            return mass
        if abs(mass - 1) > LACKING + 3 * error:
            return 0.0
    return 0.0
