"""torch: transforms, whose forward call maps latents to data in a density, distributions, and batch
normalizers.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.common import distribution_functions, torch_dialects
from flowref.adapters.common.normalizers import spellings
from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.common.onto_simplex import with_last, without_last
from flowref.adapters.torch_distributions import constructions
from flowref.adapters.torch_distributions.facts import describe, is_flow, onto_simplex
from flowref.model import Adapter, Component, Dialect


def chain(parts: Sequence[Any]) -> Any:
    from torch.distributions import ComposeTransform

    return ComposeTransform(list(parts))


def simplex_forward(obj: Any, x: Any, context: Any = None) -> Any:
    # The last coordinate is one minus the sum of others; without it the Jacobian is square.
    y = obj(x)
    return without_last(y), obj.log_abs_det_jacobian(x, y)


def simplex_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    import torch

    y = with_last(y, torch.cat)
    x = obj.inv(y)
    return x, obj.inv.log_abs_det_jacobian(y, x)


def cholesky_forward(obj: Any, x: Any, context: Any = None) -> Any:
    import torch

    # The strictly lower triangle determines the factor: rows have unit length and the diagonal is
    # positive.
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
OFFERED: dict[str, Any] = {
    "rsample": torch_dialects.rsample,
    "expanded": torch_dialects.expanded,
    "rescale": rescale,
    "stated": torch_dialects.distribution_moments,
}
DENSITY = replace(torch_dialects.DENSITY, **OFFERED)
UNIVARIATE = replace(DENSITY, cdf=cdf, icdf=icdf)
FLOW = replace(torch_dialects.FLOW, **OFFERED)
# Transforms whose range has fewer dimensions than coordinates.
SPECIAL = {"StickBreakingTransform": SIMPLEX, "CorrCholeskyTransform": CHOLESKY}


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a bijective transform, a distribution or a batch normalizer, or None."""
    from torch.distributions import Distribution, Transform

    if spellings.of_torch(obj):
        return spellings.DIALECT
    if isinstance(obj, Transform):
        names = lineage(obj)
        special = next((SPECIAL[name] for name in SPECIAL if name in names), None)
        if special is None and onto_simplex(obj):
            return SIMPLEX
        return special or (TRANSFORM if obj.bijective or undeclared(obj) else None)
    if not isinstance(obj, Distribution):
        return None
    dialect = _of_distribution(obj)
    if not draws(obj):
        return replace(dialect, sample=None, rsample=None)
    return dialect if obj.has_rsample else replace(dialect, rsample=None)


def undeclared(obj: Any) -> bool:
    """Whether a user's transform does not declare ``bijective``, which counts as False, but defines the
    map, its inverse and log-det, as densities need.
    """
    from torch.distributions import Transform

    own: set[str] = set()
    for base in type(obj).__mro__:
        if not base.__module__.startswith("torch."):
            own |= vars(base).keys()
    declared = "bijective" in own or "bijective" in vars(obj)
    return (
        not declared
        and own >= {"_call", "_inverse", "log_abs_det_jacobian"}
        and isinstance(obj, Transform)
    )


def draws(obj: Any) -> bool:
    """Whether a distribution can be sampled; the base class raises."""
    from torch.distributions import Distribution

    kind = type(obj)
    return kind.sample is not Distribution.sample or kind.rsample is not Distribution.rsample


def _of_distribution(obj: Any) -> Dialect:
    if is_flow(obj):
        return FLOW
    if len(obj.event_shape) or len(obj.batch_shape):
        return DENSITY
    dialect = replace(DENSITY, cdf=offered(obj, "cdf"), icdf=offered(obj, "icdf"))
    return with_distribution_functions(obj, dialect)


def with_distribution_functions(obj: Any, dialect: Dialect) -> Dialect:
    """The dialect of a univariate distribution with distribution functions of other names."""
    import torch

    half = torch.full((1,), 0.5, dtype=torch.float64)
    names = []
    for name in distribution_functions.functions_of(obj):
        # 0.5 is outside the support, or other arguments are needed
        with contextlib.suppress(Exception):
            if name != "cdf" and distribution_functions.function(obj, half, name).numel() == 1:
                names.append(name)
    if names and dialect.cdf is None:
        dialect = replace(dialect, cdf=partial(distribution_functions.function, name=names.pop(0)))
    if not names:
        return dialect
    return replace(dialect, functions=by_names(tuple(names)))


@functools.cache
def by_names(names: tuple[str, ...]) -> Any:
    """The distribution function by several methods; the same object for the same names, so that dialects
    compare equal.
    """
    return partial(distribution_functions.cdf_columns, names=names)


# Univariate distributions of torch with further methods for the distribution function.
TOLD_OTHERWISE = {"distributions.GeneralizedPareto": ("log_cdf", "log_survival_function")}


def _univariate_dialect(name: str) -> Dialect:
    names = TOLD_OTHERWISE.get(name)
    return UNIVARIATE if names is None else replace(UNIVARIATE, functions=by_names(names))


def offered(obj: Any, name: str) -> Any:
    """The distribution function or quantiles of a univariate distribution, or None."""
    import torch

    try:
        getattr(obj, name)(torch.tensor(0.5, dtype=torch.float64))
    except NotImplementedError:  # the base class raises for missing functions
        return None
    except ValueError:  # 0.5 is outside the support
        pass
    return cdf if name == "cdf" else icdf


def components() -> Mapping[str, Component]:
    """The bijective transforms, densities over them, and the batch normalizers of torch.nn."""
    return {
        **components_of(constructions.batch_norms(), spellings.DIALECT, describe),
        **components_of(
            constructions.transforms(), lambda name: SPECIAL.get(name, TRANSFORM), describe
        ),
        **components_of(constructions.densities(), _density_dialect, describe),
        **components_of(constructions.univariate(), _univariate_dialect, describe),
    }


def _density_dialect(name: str) -> Dialect:
    return FLOW if name.startswith("TransformedDistribution") else DENSITY


# Constructions with confirmed bugs.
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
