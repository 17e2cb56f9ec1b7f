"""Facts from the classes of bijx: supports and promises. Event shapes of bijections are found by calls."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.bijx.calls import forward
from flowref.adapters.common.jax_events import first_fitting_event
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.model import REAL, Facts, Shape, Support

UNIT, POSITIVE = Support.parse("unit"), Support.parse("positive")
SUPPORTS: dict[str, tuple[Support, Support]] = {
    "Exponential": (REAL, POSITIVE),
    "SoftPlus": (REAL, POSITIVE),
    "Sigmoid": (REAL, UNIT),
    "GaussianCDF": (REAL, UNIT),
    "Tanh": (REAL, Support.parse((-1.0, 1.0))),
    "Tan": (UNIT, REAL),
    "Power": (POSITIVE, POSITIVE),
    "BetaStretch": (UNIT, UNIT),
    **dict.fromkeys(
        (
            "AffineLinear", "Scaling", "Shift", "Sinh", "CubicRational", "SinhConjugation",
            "CubicConjugation",
        ),
        (REAL, REAL),
    ),
}  # fmt: skip
PROMISES: dict[str, frozenset[str]] = {
    "Shift": VOLUME | CONSTANT | ELEMENTWISE,
    **dict.fromkeys(("AffineLinear", "Scaling"), CONSTANT | {"elementwise"}),
    **dict.fromkeys(
        (
            "Exponential", "SoftPlus", "Sigmoid", "GaussianCDF", "Tanh", "Tan", "Power", "BetaStretch",
            "Sinh", "CubicRational", "SinhConjugation", "CubicConjugation",
        ),
        ELEMENTWISE,
    ),
}  # fmt: skip


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijection or distribution."""
    names = lineage(obj)
    prior = obj.prior if "Transformed" in names else obj
    event = event_shape or getattr(prior, "event_shape", None)
    guessed: tuple[Shape, ...] = ()
    if not event and "Bijection" in names:
        found = first_fitting_event(obj, partial(forward, obj), traits(obj).domain)
        event, guessed = found or (None, ())
    if not event:
        raise unknown_shape(obj)
    if "Transformed" in names:
        promises = {"samples-from-base": True}
        return facts_of(traits(obj.bijection), tuple(event), tuple(event), promises)
    if "Bijection" in names:
        return replace(facts_of(traits(obj), tuple(event), tuple(event)), guessed=guessed)
    return Facts(tuple(event))


def traits(obj: Any) -> Traits:
    """The traits of a bijection."""
    names = lineage(obj)
    if "Chain" in names:
        return compose([traits(one) for one in obj.bijections])
    if "Inverse" in names:
        return traits(obj.bijection).inverted()
    if "Frozen" in names:
        return traits(obj.frozen)
    known = next((SUPPORTS[name] for name in names if name in SUPPORTS), (REAL, None))
    return Traits(known[0], known[1], (), class_promises(PROMISES, names))
