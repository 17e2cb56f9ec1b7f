"""Facts from attributes of a user's object: shapes, supports, knots, promises and structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.common.bases import base_promises
from flowref.adapters.common.normalizers import spellings
from flowref.adapters.common.torch_supports import declared_support
from flowref.adapters.user import contributions
from flowref.adapters.user.calls import base_name
from flowref.adapters.user.conventions.signatures import attribute
from flowref.adapters.user.structure import levels_of, preprocessing_of
from flowref.model import PROMISES, REAL, Facts, Shape, Support

# Parts of names of numbers at which a formula may change.
BOUNDS = (
    "bound", "limit", "threshold", "tail", "clip", "clamp", "low", "high", "left", "right", "cutoff", "knot",
)  # fmt: skip

# Attributes with the shape or size of a context.
CONTEXTS = ("context_shape", "condition_shape", "cond_shape")


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts stated by an object's attributes. Raises `TargetError` if a stated fact is not understood."""
    shape = event_shape or getattr(obj, "event_shape", None)
    stated = attribute(obj, "domain")
    domain = support_stated(attribute(obj, "support") if stated is None else stated)
    contexts = (getattr(obj, name, None) for name in CONTEXTS)
    context = next((one for one in contexts if isinstance(one, int | tuple | list)), None)
    context = (context,) if isinstance(context, int) else context
    normalizer, coupled = (
        spellings.normalizer_of(obj) if spellings.is_normalizer(obj) else (None, {})
    )
    drawn = {"lower-bound": True} if contributions.has_lower_bound_density(obj) else {}
    promises = {**coupled, **_base_facts(obj), **drawn, **_promises(obj)}
    return Facts(
        event_shape=_sizes(shape),
        kernel=contributions.facts(obj),
        domain=domain or REAL,
        codomain=support_stated(getattr(obj, "codomain", None)),
        declared=domain is not None,
        context_shape=None if context is None else tuple(context),
        knots=knots(obj),
        promises={key: value for key, value in promises.items() if value is not False},
        normalizer=normalizer,
        preprocessing=preprocessing_of(obj),
        **levels_of(obj),
    )


def _sizes(shape: Any) -> Shape:
    if isinstance(shape, int):
        return (shape,)
    return tuple(int(size) for size in shape or ())


def _promises(obj: Any) -> dict[str, Any]:
    promises: dict[str, Any] = {}
    for name, promise in PROMISES.items():
        value = getattr(obj, name.replace("-", "_"), None) if promise.attribute else None
        if value is not None and promise.fits(value):  # otherwise an unrelated attribute
            promises[name] = value
    return {**promises, **promises_of(obj), "direction": "either"}


def promises_of(obj: Any) -> dict[str, Any]:
    """The promises under ``promises``: a dictionary, or names of flags."""
    more = getattr(obj, "promises", ())
    if isinstance(more, Mapping):
        return {str(name): value for name, value in more.items()}
    named = isinstance(more, tuple | list | set | frozenset)
    return (
        dict.fromkeys(more, True) if named and all(isinstance(name, str) for name in more) else {}
    )


def _base_facts(obj: Any) -> dict[str, Any]:
    """Promises about the base of a density. A prior or distribution may be something else than the base of
    the flow.
    """
    name = base_name(obj)
    return base_promises(getattr(obj, name)) if name.startswith("base") or name == "q0" else {}


def support_stated(value: Any) -> Support | None:
    """The support that a value states, by `Support.parse` or as a constraint of torch.distributions; None
    if it is neither.
    """
    if isinstance(value, (str, tuple, list, Support)):
        parts = (
            [support_stated(part) or part for part in value]
            if isinstance(value, tuple | list)
            else value
        )
        return Support.parse(tuple(parts) if isinstance(parts, list) else parts)
    if any(base.__name__ == "Constraint" for base in type(value).__mro__):
        return declared_support(value)
    return None


def knots(obj: Any) -> tuple[float, ...]:
    """Numbers under names of bounds, at which the formula may change."""
    numbers: set[float] = set()
    for part in list(obj.modules()) if hasattr(obj, "modules") else [obj]:
        for name, value in getattr(part, "__dict__", {}).items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if number and (name in ("B", "bounds") or any(word in name.lower() for word in BOUNDS)):
                numbers.add(abs(float(value)))
    return tuple(sorted(number for number in numbers if 0 < number < 1e6))[:4]
