"""Facts of NumPyro classes: shapes, supports by constraints, and promises."""

from __future__ import annotations

import contextlib
import math
from itertools import pairwise
from typing import Any

from flowref.adapters.common.jax_events import array_shapes, first_fitting_event, taking
from flowref.adapters.common.object_components import lineage
from flowref.adapters.common.promises import CONSTANT, ELEMENTWISE, VOLUME, class_promises
from flowref.adapters.common.shapes import unknown_shape
from flowref.adapters.common.torch_dialects import forward
from flowref.adapters.common.torch_supports import interval
from flowref.adapters.numpyro.calls import simplex_forward
from flowref.model import REAL, Facts, Shape, Support

NAMED = {"_Simplex": "simplex", "_OrderedVector": "ordered"}
# Tried lengths of vectors.
SIZES = range(1, 17)
WHOLE = frozenset({"_Real", "_RealVector", "_RealMatrix"})
PROMISES: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("ExpTransform", "SigmoidTransform", "SoftplusTransform"), ELEMENTWISE | {"batch-dims"}
    ),
    "IdentityTransform": VOLUME | CONSTANT | ELEMENTWISE,
    "AffineTransform": CONSTANT | {"elementwise"},
    "PowerTransform": frozenset({"elementwise"}),
    **dict.fromkeys(
        ("PermuteTransform", "HaarTransform", "DiscreteCosineTransform"), VOLUME | CONSTANT
    ),
    "LowerCholeskyAffine": CONSTANT,
    # `_clamp_preserve_gradients` of the log-scale: clamped, with gradients passed on purpose.
    "InverseAutoregressiveTransform": frozenset({"straight-through"}),
    "RecursiveLinearTransform": VOLUME | CONSTANT,
}


def constraint_support(constraint: Any) -> Support | None:
    """The support of a constraint, or None."""
    import numpy as np

    kind = type(constraint).__name__
    if kind == "_IndependentConstraint":
        return constraint_support(constraint.base_constraint)
    if kind in WHOLE:
        return REAL
    if kind in NAMED:
        return Support.parse(NAMED[kind])
    if not lineage(constraint) & {"_GreaterThan", "_LessThan", "_Interval"}:
        return None
    ends = []
    for name, other in (("lower_bound", -math.inf), ("upper_bound", math.inf)):
        values = np.unique(np.asarray(getattr(constraint, name, other), dtype=float))
        if len(values) != 1:
            return None
        ends.append(float(values[0]))
    return interval(*ends)


def ends_of(obj: Any) -> tuple[Support | None, Support | None]:
    """Domain and codomain of a transform. A composition has its last codomain only if each codomain is the
    next domain.
    """
    if "ComposeTransform" not in lineage(obj):
        return constraint_support(obj.domain), constraint_support(obj.codomain)
    ends = [ends_of(part) for part in obj.parts]
    onto = all(first[1] == second[0] for first, second in pairwise(ends))
    return (ends[0][0], ends[-1][1] if onto else None) if ends else (REAL, REAL)


def onto_simplex(obj: Any) -> bool:
    """Whether a transform maps vectors onto a simplex, with one coordinate more."""
    if ends_of(obj) != (REAL, Support.parse("simplex")) or obj.domain.event_dim != 1:
        return False
    for size in SIZES:
        with contextlib.suppress(ValueError):  # it takes others
            if tuple(obj.forward_shape((size,))) == (size + 1,):
                return True
    return False


def is_flow(obj: Any) -> bool:
    """Whether a distribution is a base transformed event by event by given transforms, rather than a named
    distribution of the library.
    """
    if type(obj).__name__ != "TransformedDistribution" or obj.batch_shape:
        return False
    return tuple(obj.event_shape) == tuple(obj.base_dist.event_shape)


def flow_facts(obj: Any, event: Shape) -> Facts:
    """The facts of a distribution as a map from latents to data."""
    from numpyro.distributions.transforms import ComposeTransform

    stages = list(obj.transforms)
    domain, codomain = ends_of(ComposeTransform(stages))
    through = any("straight-through" in class_promises(PROMISES, lineage(one)) for one in stages)
    return Facts(
        event,
        latent_shape=event,
        domain=domain or REAL,
        codomain=codomain,
        declared=domain is not None,
        promises={"fixed": True, "samples-from-base": True}
        | ({"straight-through": True} if through else {}),
    )


def transform_event(obj: Any) -> tuple[Shape, tuple[Shape, ...]]:
    """The event shape of a transform, and other accepted ones: that of its widest array for scalars, else
    one found by calls.
    """
    rank, support = obj.domain.event_dim, ends_of(obj)[0] or REAL
    mapped = simplex_forward if onto_simplex(obj) else forward

    def call(x: Any) -> Any:
        # Exceptions here say more about shapes than those of the call
        obj.forward_shape(x.shape[1:])
        return mapped(obj, x)

    widest = max(array_shapes(obj), key=len, default=())
    if not rank and taking(call, widest, support) is False:
        return widest, ()
    found = first_fitting_event(obj, call, support, max(1, rank))
    if found is None:
        raise unknown_shape(obj)
    return found


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a transform or a distribution."""
    if is_flow(obj):
        return flow_facts(obj, tuple(obj.event_shape))
    if "Distribution" in lineage(obj):
        event = tuple(obj.event_shape) if event_shape is None else event_shape
        known = constraint_support(obj.support)
        fixed = {"fixed": True}
        return Facts(event, domain=known or REAL, declared=known is not None, promises=fixed)
    event_shape, guessed = (event_shape, ()) if event_shape is not None else transform_event(obj)
    if onto_simplex(obj):  # the range without the last coordinate has no name
        return Facts(event_shape, latent_shape=event_shape, declared=True, guessed=guessed)
    latent = tuple(int(size) for size in obj.forward_shape(event_shape))
    domain, codomain = ends_of(obj)
    elementwise = obj.codomain.event_dim == obj.domain.event_dim
    kept = latent[: len(latent) - obj.codomain.event_dim] if elementwise else ()
    # Arrays are given directly, without a trainable parametrization: moved scales may become
    # negative, triangles full.
    promises = dict.fromkeys(sorted({*class_promises(PROMISES, lineage(obj)), "fixed"}), True)
    return Facts(
        event_shape,
        latent_shape=latent,
        domain=domain or REAL,
        codomain=codomain,
        declared=domain is not None,
        ladj_event=kept,
        promises=promises,
        guessed=guessed,
    )
