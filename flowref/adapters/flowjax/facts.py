"""Facts of FlowJAX classes: shapes, contexts, supports and promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.torch_supports import interval
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.model import OPPOSITE, REAL, Facts, Shape, Support

UNIT, POSITIVE = Support.parse("unit"), Support.parse("positive")
SUPPORTS: dict[str, tuple[Support, Support]] = {
    "Exp": (REAL, POSITIVE),
    "SoftPlus": (REAL, POSITIVE),
    "Sigmoid": (REAL, UNIT),
    "Tanh": (REAL, Support.parse((-1.0, 1.0))),
    "Power": (POSITIVE, POSITIVE),
    **dict.fromkeys(
        (
            "Affine", "Loc", "Scale", "TriangularAffine", "AdditiveCondition", "LeakyTanh",
            "Permute", "Flip", "Identity", "Householder", "DiscreteCosine", "NumericalInverse",
            "RationalQuadraticSpline",
        ),
        (REAL, REAL),
    ),
}  # fmt: skip
PROMISES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("Permute", "Flip", "Householder", "DiscreteCosine"), VOLUME | CONSTANT),
    "Identity": VOLUME | CONSTANT | ELEMENTWISE,
    "Loc": VOLUME | CONSTANT | ELEMENTWISE,
    "AdditiveCondition": VOLUME | CONSTANT,
    "TriangularAffine": CONSTANT,
    **dict.fromkeys(("Affine", "Scale"), CONSTANT | {"elementwise"}),
    **dict.fromkeys(
        ("Exp", "SoftPlus", "Sigmoid", "Tanh", "LeakyTanh", "RationalQuadraticSpline"),
        ELEMENTWISE,
    ),
    "Power": frozenset({"elementwise"}),
}
# Apply the wrapped map entry by entry or event by event.
WRAPPERS = ("Vmap", "Scan", "Reshape", "EmbedCondition")
# Written to be compiled; vmap is applied already.
TRANSFORMED = {"compile": True}
# The search of a block neural autoregressive flow stops if the mean of |f(x) - y| over the entries
# of an event is at most ``atol``, 1e-5 (`flowjax.root_finding.bisect_check_expand_search`, its
# default), so that images are met to 1e-5 times the number of entries, per layer. Laws measure the
# slopes that convert this to x. It takes at most 5000 steps of at most 50 and raises outside of
# their reach, so that an inverse of all reals is not promised.
BISECTED = 1e-5


def one_way(obj: Any) -> bool:
    """Whether the class of a bijection has no inverse."""
    names = lineage(obj)
    if "Planar" in names:
        return getattr(obj, "negative_slope", None) is None
    return "BlockAutoregressiveNetwork" in names


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijection or a distribution."""
    names = lineage(obj)
    event = tuple(event_shape or obj.shape)
    context = None if obj.cond_shape is None else tuple(obj.cond_shape)
    if "AbstractBijection" in names:
        return facts_of(traits(obj), event, event, TRANSFORMED, context_shape=context)
    if "AbstractTransformed" not in names:
        return Facts(event, domain=support(obj), context_shape=context)
    whole, base = traits(obj.bijection), support(obj.base_dist)
    if base != whole.domain:  # the bijection maps the base's events
        image = support(obj)
        whole = replace(whole, domain=base, codomain=None if image == REAL else image)
    more: dict[str, Any] = {"samples-from-base": True, **TRANSFORMED}
    found = iterating(obj.bijection)
    if found:
        whole = replace(whole, declared=False)
    if "forward" in found:
        more |= {"iterative-forward": True}
    return facts_of(whole, event, event, more, context_shape=context)


def iterating(obj: Any) -> set[str]:
    """The directions of a bijection that are iterative."""
    names = lineage(obj)
    if "NumericalInverse" in names:
        return {"inverse"}
    if "Chain" in names:
        return set().union(*(iterating(one) for one in obj.bijections))
    inner = getattr(obj, "bijection", None)
    found = set() if inner is None else iterating(inner)
    if "Invert" in names:
        return {OPPOSITE[name] for name in found}
    return found


def support(base: Any) -> Support:
    """The support of a distribution, by its class."""
    names = lineage(base)
    if "_StandardUniform" in names:
        return UNIT
    if "Beta" in names:
        return UNIT
    if names & {"_StandardGamma", "_StandardExponential"}:
        return POSITIVE
    if "AbstractTransformed" in names:
        before = support(base.base_dist)
        if before != REAL:
            return _affine_image(base, before)
        return traits(base.bijection).codomain or REAL
    return REAL


def _affine_image(base: Any, before: Support) -> Support:
    """The image of a box or half-line under an elementwise affine map."""
    import jax.numpy as jnp
    import numpy as np

    if not lineage(base.bijection) & {"Affine", "Scale"}:
        return REAL
    ends = [np.nan_to_num(end, posinf=1e300, neginf=-1e300) for end in before.ends]
    images = [  # of both ends; scales are positive
        np.asarray(base.bijection.transform(jnp.full(base.shape, float(end)))) for end in ends
    ]
    lows, highs = (np.where(image > 1e200, math.inf, image) for image in images)
    low, high = np.unique(np.round(lows, 12)), np.unique(np.round(highs, 12))
    if len(low) > 1 or len(high) > 1:
        return REAL
    return interval(float(low[0]), float(high[0]))


def traits(obj: Any) -> Traits:
    """The traits of a bijection."""
    names = lineage(obj)
    if "Invert" in names:
        return traits(obj.bijection).inverted()
    if "Chain" in names:
        return compose([traits(one) for one in obj.bijections])
    if "Sandwich" in names:
        outer = traits(obj.outer)
        return compose([outer, traits(obj.inner), outer.inverted()])
    if "NumericalInverse" in names:
        return Traits(
            codomain=REAL,
            promises=traits(obj.bijection).promises,
            tolerance=BISECTED * math.prod(obj.shape),
            declared=False,
        )
    if names & set(WRAPPERS):
        return traits(obj.bijection)
    known = next((SUPPORTS[name] for name in names if name in SUPPORTS), None)
    promises = class_promises(PROMISES, names)
    if known is None:
        return Traits(codomain=_codomain_of_parts(obj), knots=knots(obj), promises=promises)
    return Traits(known[0], known[1], knots(obj), promises)


def _codomain_of_parts(obj: Any) -> Support | None:
    """The reals, if all parts of a map have them as range; else None."""
    held = getattr(obj, "bijections", None)
    if held is None:
        transformer = getattr(obj, "bijection", None)
        held = [] if transformer is None else [transformer]
    whole = [traits(one) for one in held]
    onto = all(one.domain == REAL and one.codomain == REAL for one in whole)
    named = lineage(obj) & {"Coupling", "MaskedAutoregressive"}
    return REAL if (whole and onto) or named else None


def knots(obj: Any) -> tuple[float, ...]:
    """Points where the formula of a map changes."""
    if hasattr(obj, "interval"):
        return tuple(sorted({abs(float(end)) for end in obj.interval}))
    if hasattr(obj, "max_val"):
        return (float(obj.max_val),)
    return ()
