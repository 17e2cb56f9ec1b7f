"""torch: transforms, whose forward call maps latents to data in a density, distributions, and batch
normalizers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowref.adapters.common import batch_norm_shapes, batch_norms, torch_dialects
from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.described import described, lineage
from flowref.adapters.common.torch_transforms import (
    CONSTANT,
    ELEMENTWISE,
    INVERSES,
    VOLUME,
    Traits,
    composed,
    declared_traits,
    distribution_facts,
    facts_of,
    transform_facts,
    unknown_shape,
)
from flowref.adapters.torch_distributions import batch_norms as torch_batch_norms
from flowref.model import REAL, Adapter, Component, Dialect, Facts, Preprocessing, Shape


def chain(parts: Sequence[Any]) -> Any:
    from torch.distributions import ComposeTransform

    return ComposeTransform(list(parts))


def simplex_forward(obj: Any, x: Any, context: Any = None) -> Any:
    # The last coordinate is one minus the others; without it the Jacobian is square.
    y = obj(x)
    return y[..., :-1], obj.log_abs_det_jacobian(x, y)


def simplex_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    import torch

    y = torch.cat([y, 1 - y.sum(-1, keepdim=True)], -1)
    x = obj.inv(y)
    return x, obj.inv.log_abs_det_jacobian(y, x)


def cholesky_forward(obj: Any, x: Any, context: Any = None) -> Any:
    import torch

    # The strictly lower triangle determines the factor: its rows have unit length and its diagonal
    # is positive.
    y = obj(x)
    row, column = torch.tril_indices(y.shape[-1], y.shape[-1], -1)
    return y[..., row, column], obj.log_abs_det_jacobian(x, y)


def cholesky_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    import torch

    size = round((0.25 + 2 * y.shape[-1]) ** 0.5 + 0.5)
    row, column = torch.tril_indices(size, size, -1)
    lower = y.new_zeros((*y.shape[:-1], size, size))
    lower[..., row, column] = y
    factor = lower + torch.diag_embed((1 - lower.square().sum(-1)).sqrt())
    x = obj.inv(factor)
    return x, obj.inv.log_abs_det_jacobian(factor, x)


def cdf(obj: Any, x: Any) -> Any:
    return obj.cdf(x)


def icdf(obj: Any, u: Any) -> Any:
    return obj.icdf(u)


def rescale(obj: Any, factor: float) -> Any:
    from torch.distributions import AffineTransform, TransformedDistribution

    return TransformedDistribution(obj, [AffineTransform(0.0, factor)])


TRANSFORM = replace(torch_dialects.TRANSFORM, chain=chain)
SIMPLEX = Dialect(forward=simplex_forward, inverse=simplex_inverse, normalizing="inverse")
CHOLESKY = Dialect(forward=cholesky_forward, inverse=cholesky_inverse, normalizing="inverse")
DENSITY = replace(torch_dialects.DENSITY, rescale=rescale)
UNIVARIATE = replace(DENSITY, cdf=cdf, icdf=icdf)
FLOW = replace(torch_dialects.FLOW, rescale=rescale)

PROMISES: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("ExpTransform", "SigmoidTransform", "SoftplusTransform", "TanhTransform"), ELEMENTWISE
    ),
    "CumulativeDistributionTransform": ELEMENTWISE,
    "AffineTransform": CONSTANT | {"elementwise"},
    "PowerTransform": frozenset({"elementwise"}),
    "ReshapeTransform": VOLUME,
}


def traits(transform: Any) -> Traits:
    """What is known of a transform of this library, or of the user's."""
    names = lineage(transform)
    if names & INVERSES:
        return traits(transform.inv).inverted()
    if "ComposeTransform" in names:
        return composed([traits(part) for part in transform.parts])
    if "IndependentTransform" in names:
        return traits(transform.base_transform)
    promises = frozenset({"batch-dims"}).union(*(PROMISES[name] for name in names & set(PROMISES)))
    if names & {"CatTransform", "StackTransform"}:
        promises |= frozenset.intersection(
            *(traits(part).promises for part in transform.transforms)
        )
    slope = getattr(transform, "scale" if "AffineTransform" in names else "exponent", 0.0)
    if names & {"AffineTransform", "PowerTransform"} and bool(
        (slope > 0) if isinstance(slope, float) else (slope > 0).all()
    ):
        promises |= {"monotone"}
    return declared_traits(transform, promises)


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform or distribution, its event shape inferred where it tells one."""
    if batch_norms.of_torch(obj):
        facts = batch_norm_shapes.facts(obj, event_shape)
        if not facts.event_shape:
            raise unknown_shape(obj)
        return facts
    names = lineage(obj)
    if "Distribution" in names:
        facts = distribution_facts(obj, event_shape)
        if "Exponential" in names:
            facts = replace(facts, promises={**facts.promises, "exponential-rate": float(obj.rate)})
        return _flow_facts(obj, facts) if recognizes(obj) is FLOW else facts
    if names & {"StickBreakingTransform", "CorrCholeskyTransform"}:
        if event_shape is None:
            raise unknown_shape(obj)
        # Onto the interior of a simplex or a ball, which no support describes.
        return facts_of(Traits(promises=frozenset({"batch-dims"})), event_shape, event_shape)
    facts = transform_facts(obj, event_shape, traits(obj))
    # The inverse of a sigmoid, which maps data to latents, is the logit of numbers between zero and
    # one.
    return replace(facts, preprocessing=Preprocessing()) if "SigmoidTransform" in names else facts


def _flow_facts(obj: Any, facts: Facts) -> Facts:
    whole = chain(obj.transforms)
    mapped = transform_facts(whole, facts.event_shape, traits(whole))
    promises = {**mapped.promises, **base_promises(obj.base_dist), "samples-from-base": True}
    return replace(mapped, latent_shape=facts.event_shape, promises=promises)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a bijective transform, a distribution or a batch normalizer, or None."""
    from torch.distributions import Distribution, Transform, TransformedDistribution

    if batch_norms.of_torch(obj):
        return batch_norms.DIALECT
    if isinstance(obj, Transform):
        names = lineage(obj)
        if "StickBreakingTransform" in names:
            return SIMPLEX
        if "CorrCholeskyTransform" in names:
            return CHOLESKY
        return TRANSFORM if obj.bijective else None
    if isinstance(obj, TransformedDistribution):
        return FLOW if _on_the_line(obj) else UNIVARIATE if has_quantiles(obj) else DENSITY
    if not isinstance(obj, Distribution):
        return None
    return UNIVARIATE if has_quantiles(obj) else DENSITY


def has_quantiles(obj: Any) -> bool:
    """Whether a distribution is one of numbers and has both a distribution function and quantiles."""
    import torch

    if len(obj.event_shape) or len(obj.batch_shape):
        return False
    try:
        obj.cdf(obj.icdf(torch.tensor(0.5, dtype=torch.float64)))
    except (
        NotImplementedError
    ):  # what the base class raises for a function that a distribution does not offer
        return False
    return True


def _on_the_line(obj: Any) -> bool:
    """Whether data and latents have one shape and live on the whole line, so that which is which
    matters to no one.
    """
    known = traits(chain(obj.transforms))
    same = obj.event_shape == obj.base_dist.event_shape and not len(obj.batch_shape)
    return (
        bool(same and obj.transforms)
        and known.domain == REAL
        and known.codomain == REAL
        and known.declared
    )


def components() -> Mapping[str, Component]:
    """The bijective transforms, densities over them, and the batch normalizers of torch.nn."""
    found = {}
    for name, (build, event) in torch_batch_norms.constructions().items():
        found[name] = described(name, build, batch_norms.DIALECT, describe, event)
    for name, (build, event) in {**_transforms(), **_densities()}.items():
        dialect = {"StickBreakingTransform": SIMPLEX, "CorrCholeskyTransform": CHOLESKY}.get(
            name, TRANSFORM
        )
        if name in _densities():
            dialect = FLOW if name.startswith("TransformedDistribution") else DENSITY
        found[name] = described(name, build, dialect, describe, event)
    for name, build in _univariate().items():
        found[name] = described(name, build, UNIVARIATE, describe, ())
    return found


def _transforms() -> dict[str, tuple[Callable[..., Any], Shape | None]]:
    import torch
    import torch.distributions.transforms as tt

    def vector(features: int = 4) -> Any:
        return tt.AffineTransform(torch.randn(features), torch.rand(features) + 0.5, event_dim=1)

    def mixed(features: int = 4) -> Any:
        first = tt.AffineTransform(torch.zeros(features), torch.full((features,), 2.0))
        return tt.ComposeTransform(
            [
                first,
                tt.AffineTransform(
                    torch.zeros(features), torch.full((features,), 3.0), event_dim=1
                ),
            ]
        )

    def cat(features: int = 4) -> Any:
        lengths = [features - features // 2, features // 2]
        return tt.CatTransform([tt.ExpTransform(), tt.TanhTransform()], dim=-1, lengths=lengths)

    def stack() -> Any:
        affine = tt.AffineTransform(0.0, 3.0)
        return tt.StackTransform(
            [tt.ExpTransform(), tt.TanhTransform(), affine, tt.SigmoidTransform()], dim=-1
        )

    normal = torch.distributions.Normal
    return {
        "ExpTransform": (lambda features=4: tt.ExpTransform(), None),
        "PowerTransform": (
            lambda features=4, exponent=1.7: tt.PowerTransform(torch.tensor(exponent)),
            None,
        ),
        "SigmoidTransform": (lambda features=4: tt.SigmoidTransform(), None),
        "SoftplusTransform": (lambda features=4: tt.SoftplusTransform(), None),
        "TanhTransform": (lambda features=4: tt.TanhTransform(), None),
        "AffineTransform": (
            lambda features=4, loc=1.0, scale=-2.0: tt.AffineTransform(loc, scale),
            None,
        ),
        "AffineTransform[vec,event_dim=1]": (vector, None),
        "AffineTransform[float,event_dim=1]": (
            lambda features=4: tt.AffineTransform(0.0, 2.0, event_dim=1),
            None,
        ),
        "AffineTransform[0-d tensor,event_dim=1]": (
            lambda features=4: tt.AffineTransform(
                torch.tensor(0.0), torch.tensor(2.0), event_dim=1
            ),
            None,
        ),
        "CorrCholeskyTransform": (lambda: tt.CorrCholeskyTransform(), (6,)),
        "StickBreakingTransform": (lambda features=4: tt.StickBreakingTransform(), None),
        "ReshapeTransform": (
            lambda: tt.ReshapeTransform(torch.Size((4,)), torch.Size((2, 2))),
            (4,),
        ),
        "IndependentTransform": (
            lambda features=4: tt.IndependentTransform(tt.TanhTransform(), 1),
            None,
        ),
        "ComposeTransform": (
            lambda features=4: tt.ComposeTransform(
                [tt.AffineTransform(0.0, 2.0), tt.SigmoidTransform()]
            ),
            None,
        ),
        "ComposeTransform[mixed event dims]": (mixed, None),
        "CatTransform[dim=-1]": (cat, None),
        "StackTransform[dim=-1]": (stack, (4,)),
        "CumulativeDistributionTransform": (
            lambda features=4: tt.CumulativeDistributionTransform(
                normal(torch.tensor(0.0), torch.tensor(1.0))
            ),
            None,
        ),
    }


def _univariate() -> dict[str, Callable[..., Any]]:
    """Distributions of numbers that have quantiles."""
    import torch.distributions as td

    def distribution(name: str, *parameters: float) -> Callable[..., Any]:
        return lambda: getattr(td, name)(*parameters)

    given: dict[str, tuple[float, ...]] = {
        "Cauchy": (0.3, 1.2),
        "ContinuousBernoulli": (0.3,),
        "Exponential": (1.5,),
        "GeneralizedPareto": (0.0, 1.3, 0.2),
        "HalfCauchy": (1.2,),
        "HalfNormal": (1.2,),
        "Kumaraswamy": (2.0, 3.0),
        "Laplace": (0.3, 1.2),
        "Normal": (0.3, 1.2),
        "Pareto": (1.0, 3.0),
        "Uniform": (-1.0, 2.0),
        "Weibull": (1.2, 1.5),
    }
    return {f"distributions.{name}": distribution(name, *values) for name, values in given.items()}


def _densities() -> dict[str, tuple[Callable[..., Any], Shape | None]]:
    import torch
    import torch.distributions as td

    def over(*transforms: Any, features: int) -> Any:
        base = td.Independent(td.Normal(torch.zeros(features), torch.ones(features)), 1)
        return td.TransformedDistribution(base, list(transforms))

    def affine(features: int = 4) -> Any:
        first = td.AffineTransform(torch.randn(features), torch.rand(features) + 0.5, event_dim=1)
        return over(
            first,
            td.AffineTransform(torch.randn(features), -torch.rand(features) - 0.5),
            features=features,
        )

    return {
        "LogNormal": (
            lambda features=1: over(
                td.AffineTransform(0.3, 0.7), td.ExpTransform(), features=features
            ),
            None,
        ),
        "LogitNormal": (lambda features=2: over(td.SigmoidTransform(), features=features), None),
        "TransformedDistribution": (affine, None),
        "TransformedDistribution[features=2]": (lambda features=2: affine(features), None),
    }


# Constructions with defects that are confirmed.
FAULTY = ("AffineTransform[0-d tensor,event_dim=1]", "StackTransform[dim=-1]")


def healthy() -> tuple[str, ...]:
    return tuple(name for name in components() if name not in FAULTY)


ADAPTER = Adapter(
    healthy=healthy,
    name="torch",
    package="torch",
    title="torch.distributions",
    components=components,
    recognizes=recognizes,
    describe=describe,
)
