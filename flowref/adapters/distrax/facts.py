"""Facts of distrax classes: shapes, supports as documented, and promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common import jax_distributions
from flowref.adapters.common.jax_events import first_fitting_event
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_supports import interval
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.adapters.distrax.calls import forward
from flowref.model import REAL, Facts, Shape, Support

UNIT, POSITIVE = Support.parse("unit"), Support.parse("positive")
SUPPORTS: dict[str, tuple[Support, Support]] = {
    "Tanh": (REAL, Support.parse((-1.0, 1.0))),
    "Sigmoid": (REAL, UNIT),
    "GumbelCDF": (REAL, UNIT),
    **dict.fromkeys(
        (
            "ScalarAffine", "Shift", "DiagLinear", "DiagPlusLowRankLinear", "TriangularLinear",
            "LowerUpperTriangularAffine", "UnconstrainedAffine", "RationalQuadraticSpline", "MaskedCoupling",
            "SplitCoupling",
        ),
        (REAL, REAL),
    ),
}  # fmt: skip
PROMISES: dict[str, frozenset[str]] = {
    "Shift": VOLUME | CONSTANT | ELEMENTWISE,
    **dict.fromkeys(("ScalarAffine", "DiagLinear"), CONSTANT | {"elementwise"}),
    **dict.fromkeys(
        (
            "DiagPlusLowRankLinear", "TriangularLinear", "LowerUpperTriangularAffine", "UnconstrainedAffine",
        ),
        CONSTANT,
    ),
    **dict.fromkeys(("Tanh", "Sigmoid", "GumbelCDF", "RationalQuadraticSpline"), ELEMENTWISE),
}  # fmt: skip
DENSITIES: dict[str, Support | Callable[[Any], Support]] = {
    **dict.fromkeys(
        (
            "Normal", "Laplace", "Logistic", "Gumbel", "LogStddevNormal", "MultivariateNormalFromBijector",
            "MultivariateNormalDiag",
        ),
        REAL,
    ),
    "Beta": UNIT,
    "Gamma": POSITIVE,
    "Dirichlet": Support.parse("simplex"),
    "Uniform": lambda obj: interval(float(obj.low), float(obj.high)),
}  # fmt: skip
ATOMS = frozenset(
    {
        "Bernoulli", "Categorical", "CategoricalUniform", "Clipped", "Deterministic", "EpsilonGreedy", "Greedy",
        "Multinomial", "OneHotCategorical", "Quantized", "Softmax",
    }
)  # fmt: skip


def within(obj: Any) -> Any:
    """The innermost distribution of the same kind; itself, if it wraps none."""
    names = lineage(obj)
    if "Independent" in names:
        return within(obj.distribution)
    return within(obj.components_distribution) if "MixtureSameFamily" in names else obj


def discrete(obj: Any) -> bool:
    """Whether a distribution has atoms, by its class name."""
    return bool(lineage(within(obj)) & ATOMS)


def flow(obj: Any) -> bool:
    """Whether a distribution is a base transformed event by event by a given bijector, rather than a named
    distribution of the library.
    """
    if type(obj).__name__ != "Transformed":
        return False
    events = [jax_distributions.event_of(one) for one in (obj, obj.distribution)]
    return events[0] == events[1] != ()


def traits(obj: Any) -> Traits:
    """The traits of a bijector."""
    names = lineage(obj)
    if "Chain" in names:
        return compose([traits(one) for one in reversed(obj.bijectors)])
    if "Inverse" in names:
        return traits(obj.bijector).inverted()
    if "Block" in names:
        return traits(obj.bijector)
    known = next((SUPPORTS[name] for name in SUPPORTS if name in names), None)
    promises = class_promises(PROMISES, names)
    if known is None:
        return Traits(promises=promises, declared=False)
    return Traits(*known, promises=promises)


def support(obj: Any) -> Support | None:
    """The support of a distribution; None if unknown."""
    one = within(obj)
    if type(one).__name__ == "Transformed":
        return traits(one.bijector).codomain
    known = next((DENSITIES[name] for name in DENSITIES if name in lineage(one)), None)
    try:
        return known(one) if callable(known) else known
    except TypeError:  # arrays of bounds
        return None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijector or a distribution."""
    if "Bijector" in lineage(obj):
        return described_bijector(obj, event_shape)
    event = jax_distributions.event_of(obj)
    if discrete(obj):
        return Facts(event, latent_shape=event, promises={"atoms": True})
    known = support(obj)
    if not flow(obj):
        return Facts(event, domain=known or REAL, declared=known is not None)
    whole, base = traits(obj.bijector), support(obj.distribution)
    if base != whole.domain:  # the bijector maps the base's events
        whole = replace(whole, domain=base or REAL, codomain=None)
    return facts_of(whole, event, event, {"samples-from-base": True})


def described_bijector(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijector."""
    whole = traits(obj)
    guessed: tuple[Shape, ...] = ()
    if event_shape is None:
        rank = max(1, int(obj.event_ndims_in))
        found = first_fitting_event(obj, partial(forward, obj), whole.domain, rank)
        if found is None:
            raise unknown_shape(obj)
        event_shape, guessed = found
    return replace(facts_of(whole, event_shape, event_shape), guessed=guessed)
