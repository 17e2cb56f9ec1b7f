"""Facts of TensorFlow Probability classes: shapes, supports and promises. Domains of bijectors are
documented in words only; the table of supports quotes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flowref.adapters.common import jax_distributions
from flowref.adapters.common.jax_events import first_fitting_event
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_supports import interval
from flowref.adapters.common.traits import Traits, compose, facts_of
from flowref.adapters.tfp.calls import forward, simplex_forward
from flowref.model import REAL, Facts, Shape, Support


def kinds(obj: Any) -> set[str]:
    """The class names of an object and its bases, without the leading underscore of internal ones."""
    return {name.lstrip("_") for name in lineage(obj)}


UNIT, POSITIVE = Support.parse("unit"), Support.parse("positive")
SIMPLEX, ORDERED = Support.parse("simplex"), Support.parse("ordered")
INF, TINY = math.inf, 1e-37
Ends = tuple[Support, Support | None]


def number(obj: Any, name: str, default: float = 0.0) -> float:
    """A scalar parameter; NaN for arrays of several."""
    import numpy as np

    value = getattr(obj, name)
    values = np.unique(np.asarray(default if value is None else value, dtype=float))
    return float(values[0]) if len(values) == 1 else math.nan


def between(low: float, high: float) -> Support | None:
    """An interval with parameters as ends; None if they differ between coordinates."""
    low = 0.0 if abs(low) < TINY else low  # an excluded end is shifted by a tiny number
    return interval(low, high) if low < high else None


def power(obj: Any) -> Ends:
    # "When `power` is an odd integer, this bijector has domain the whole real line, and otherwise the
    # domain is non-negative numbers."
    odd = number(obj, "power") % 2 == 1
    return (REAL, REAL) if odd else (POSITIVE, POSITIVE)


def power_transform(obj: Any) -> Ends:
    # "This bijector maps inputs from `[-1/c, inf]` to `[0, inf]`"; c = 0 is `Exp`.
    c = number(obj, "power")
    return (interval(-1 / c, INF) if c else REAL), POSITIVE


def frechet(obj: Any) -> Ends:
    # "maps inputs from `[loc, inf]` to `[0, 1]`"
    return between(number(obj, "loc"), INF) or REAL, UNIT


def extreme_value(obj: Any) -> Ends:
    # "[loc - scale/concentration, inf] when conc > 0; [-inf, loc - scale/concentration] when conc < 0;
    # [-inf, inf] when conc == 0"
    conc = number(obj, "concentration")
    if not conc:
        return REAL, UNIT
    end = number(obj, "loc") - number(obj, "scale") / conc
    return (between(end, INF) if conc > 0 else between(-INF, end)) or REAL, UNIT


def pareto(obj: Any) -> Ends:
    # "Forward computation maps R**n to the support of the `GeneralizedPareto` distribution."
    loc, conc = number(obj, "loc"), number(obj, "concentration")
    high = INF if conc >= 0 else loc - number(obj, "scale") / conc
    return REAL, between(loc, high)


def box(obj: Any) -> Ends:
    return REAL, between(number(obj, "low", 0.0), number(obj, "high", 1.0))


def clipped(obj: Any) -> Ends:
    return REAL, between(number(obj, "low", -INF), number(obj, "high", INF))


def above(obj: Any) -> Ends:
    return REAL, between(number(obj, "low", 0.0), INF)


# Class name -> documented supports of inputs and outputs.
SUPPORTS: dict[str, Ends | Callable[[Any], Ends]] = {
    "Exp": (REAL, POSITIVE),
    "Log": (POSITIVE, REAL),
    "Expm1": (REAL, Support.parse((-1.0, INF))),
    "Log1p": (Support.parse((-1.0, INF)), REAL),
    "Tanh": (REAL, Support.parse((-1.0, 1.0))),
    "Softsign": (REAL, Support.parse((-1.0, 1.0))),
    "Sigmoid": box,
    "SoftClip": clipped,
    "Softplus": above,
    "Square": (POSITIVE, POSITIVE),  # "X is a positive real number"
    # Defined on both sides of 0, one of which is an interval.
    "Reciprocal": (POSITIVE, POSITIVE),
    "Power": power,
    "PowerTransform": power_transform,
    # Distribution functions: "maps inputs from `[-inf, inf]` to `[0, 1]`", or from the support of
    # the density.
    **dict.fromkeys(("NormalCDF", "GumbelCDF", "MoyalCDF"), (REAL, UNIT)),
    **dict.fromkeys(("WeibullCDF", "RayleighCDF"), (POSITIVE, UNIT)),
    "KumaraswamyCDF": (UNIT, UNIT),
    "FrechetCDF": frechet,
    "GeneralizedExtremeValueCDF": extreme_value,
    # Documented on the line; but the distributions are of positive numbers, and only there the
    # images and, for the shifted one, monotonicity hold.
    **dict.fromkeys(("GompertzCDF", "ShiftedGompertzCDF"), (POSITIVE, UNIT)),
    "GeneralizedPareto": pareto,
    "Ascending": (REAL, ORDERED),
    **dict.fromkeys(
        (
            "Identity", "Shift", "Scale", "Sinh", "SinhArcsinh", "LambertWTail", "Softfloor",
            "ScaleMatvecDiag", "ScaleMatvecLU", "ScaleMatvecTriL", "ScaleMatvecLinearOperator", "Householder",
            "Cumsum", "Permute", "MaskedAutoregressiveFlow", "RealNVP", "RationalQuadraticSpline",
        ),
        (REAL, REAL),
    ),
    **dict.fromkeys(("FillTriangular", "FillScaleTriL", "CorrelationCholesky"), (REAL, None)),
}  # fmt: skip
# Parameters that determine these sets.
ENDS = ("low", "high", "loc", "concentration", "power")
PROMISES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("Identity", "Shift"), VOLUME | CONSTANT | ELEMENTWISE),
    "Scale": CONSTANT | {"elementwise"},
    **dict.fromkeys(("ScaleMatvecDiag",), CONSTANT | {"elementwise"}),
    **dict.fromkeys(("ScaleMatvecLU", "ScaleMatvecTriL", "ScaleMatvecLinearOperator"), CONSTANT),
    **dict.fromkeys(("Permute", "Householder", "Cumsum", "Reshape"), VOLUME | CONSTANT),
    **dict.fromkeys(
        (
            "Exp", "Log", "Expm1", "Log1p", "Tanh", "Softsign", "Sigmoid", "SoftClip", "Softplus", "Square",
            "PowerTransform", "NormalCDF", "GumbelCDF", "MoyalCDF", "WeibullCDF", "RayleighCDF", "FrechetCDF",
            "GeneralizedExtremeValueCDF", "GompertzCDF", "ShiftedGompertzCDF", "GeneralizedPareto", "Sinh",
            "SinhArcsinh", "LambertWTail", "Softfloor",
        ),
        ELEMENTWISE,
    ),
    **dict.fromkeys(("Reciprocal", "Power", "KumaraswamyCDF"), frozenset({"elementwise"})),
}  # fmt: skip
ONTO_SIMPLEX = frozenset({"SoftmaxCentered", "IteratedSigmoidCentered"})
# Distributions of integers, some with floating draws, and of single points.
ATOMS = frozenset(
    {
        "Bernoulli", "BetaBinomial", "Binomial", "Categorical", "DeterminantalPointProcess", "Deterministic",
        "DirichletMultinomial", "Empirical", "FiniteDiscrete", "Geometric", "Inflated", "Multinomial", "NegativeBinomial",
        "OneHotCategorical", "OrderedLogistic", "PlackettLuce", "Poisson", "PoissonLogNormalQuadratureCompound",
        "ProbitBernoulli", "QuantizedDistribution", "Skellam", "StoppingRatioLogistic", "VectorDeterministic", "Zipf",
    }
)  # fmt: skip
# Wrappers with the support of an inner distribution -> its attribute.
WRAPPERS = {
    "Sample": "distribution",
    "Independent": "distribution",
    "BatchReshape": "distribution",
    "BatchBroadcast": "distribution",
    "MixtureSameFamily": "components_distribution",
}


def single(obj: Any) -> bool:
    """Whether a bijector is an injective map of one array to one array."""
    ranks = (obj.forward_min_event_ndims, obj.inverse_min_event_ndims)
    return all(not isinstance(rank, dict | list | tuple) for rank in ranks) and bool(
        getattr(obj, "_is_injective", True)
    )


def onto_simplex(obj: Any) -> bool:
    """Whether a bijector maps vectors onto a simplex, with one coordinate more."""
    return bool(kinds(obj) & ONTO_SIMPLEX)


def flow(obj: Any) -> bool:
    """Whether a distribution is a base transformed event by event by a given bijector that preserves
    shapes, rather than a named distribution of the library.
    """
    if type(obj).__name__.lstrip("_") != "TransformedDistribution" or not single(obj.bijector):
        return False
    events = [tuple(one.event_shape) for one in (obj, obj.distribution)]
    return events[0] == events[1] != () and not tuple(obj.batch_shape)


def within(obj: Any) -> Any:
    """The innermost distribution of the same kind; itself, if it wraps none."""
    name = next((WRAPPERS[name] for name in WRAPPERS if name in kinds(obj)), None)
    return obj if name is None else within(getattr(obj, name))


def discrete(obj: Any) -> bool:
    """Whether a distribution has atoms, by its class name."""
    return bool(kinds(within(obj)) & ATOMS)


def traits(obj: Any) -> Traits:
    """The traits of a bijector."""
    names = kinds(obj)
    if "Invert" in names:
        return traits(obj.bijector).inverted()
    known = next((SUPPORTS[name] for name in SUPPORTS if name in names), None)
    if "Chain" in names and known is None:
        stages = list(reversed(obj.bijectors))
        whole = compose([traits(one) for one in stages])
        return replace(whole, codomain=whole.codomain or _image(stages))
    promises = class_promises(PROMISES, names)
    if known is None:
        return Traits(promises=promises, declared=onto_simplex(obj))
    domain, codomain = known(obj) if callable(known) else known
    return Traits(domain, codomain, promises=promises)


def _image(stages: list[Any]) -> Support | None:
    """The image of a chain whose last maps shift and scale an interval; None for others."""
    import numpy as np

    if not stages:
        return REAL
    if not kinds(stages[-1]) & {"Shift", "Scale"}:
        return traits(stages[-1]).codomain if len(stages) == 1 else None
    before = traits(stages[0]).codomain if len(stages) == 2 else _image(stages[:-1])
    if before is None or before.joint or before.coordinates:
        return None
    ends = [np.unique(np.asarray(stages[-1].forward(end))) for end in before.ends]
    if any(len(end) != 1 for end in ends):
        return None
    return between(*sorted(float(end[0]) for end in ends))


def steady(obj: Any) -> bool:
    """Whether the domain and range of a bijector are independent of its parameters."""
    names = kinds(obj)
    if "Invert" in names:
        return steady(obj.bijector)
    known = next((SUPPORTS[name] for name in SUPPORTS if name in names), None)
    if known is None and "Chain" in names:
        stages = list(reversed(obj.bijectors))
        image = None if compose([traits(one) for one in stages]).codomain else _image(stages)
        return all(map(steady, stages)) and not (image and image.has_end)
    return not callable(known) or all(getattr(obj, name, None) is None for name in ENDS)


def described_bijector(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijector."""
    whole = traits(obj)
    mapped = simplex_forward if onto_simplex(obj) else forward
    guessed: tuple[Shape, ...] = ()
    if event_shape is None:
        rank = int(obj.forward_min_event_ndims)
        found = first_fitting_event(obj, lambda x: mapped(obj, x), whole.domain, max(1, rank))
        if found is None:
            raise unknown_shape(obj)
        event_shape, guessed = found
    if onto_simplex(obj):  # the range without the last coordinate has no name
        return Facts(event_shape, latent_shape=event_shape, guessed=guessed)
    latent = tuple(int(size) for size in obj.forward_event_shape(event_shape))
    more = {} if steady(obj) else {"fixed": True}
    return replace(facts_of(whole, event_shape, latent, more), guessed=guessed)


def described_distribution(obj: Any) -> Facts:
    """The facts of a distribution."""
    event = jax_distributions.event_of(obj)
    if discrete(obj):
        return Facts(event, latent_shape=event, promises={"atoms": True})
    if flow(obj):
        whole = traits(obj.bijector)
        more: dict[str, Any] = {"samples-from-base": True}
        base = support(obj.distribution)
        if base != whole.domain:  # the bijector maps the base's events
            whole = replace(whole, domain=base or REAL, codomain=None)
        if not steady(obj.bijector):
            more |= {"fixed": True}
        return facts_of(whole, event, event, more)
    found, known = event_space(obj), support(obj)
    promises = {} if found is None or steady(found) else {"fixed": True}
    return Facts(event, domain=known or REAL, declared=known is not None, promises=promises)


def event_space(obj: Any) -> Any:
    """The bijector from the line to a distribution's support; None if not stated."""
    try:
        return within(obj).experimental_default_event_space_bijector()
    except NotImplementedError:
        return None


def support(obj: Any) -> Support | None:
    """The support of a distribution; None if unknown."""
    found = event_space(obj)
    if found is None:
        return None
    return SIMPLEX if onto_simplex(found) else traits(found).codomain


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a bijector or a distribution."""
    if "Bijector" in kinds(obj):
        return described_bijector(obj, event_shape)
    return described_distribution(obj)
