"""Declared structure of users' objects: by attributes, and as text in a spec."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from flowref.model import (
    KINDS,
    MASKS,
    ORDERS,
    Coupling,
    MultiScale,
    Preprocessing,
    Shape,
    Squeezing,
    TargetError,
    named_mask,
)


def coupling_of(obj: Any, shape: Shape) -> Coupling | None:
    """The coupling declared by the attributes ``kept``, a mask or its name, and ``coupling``, its kind;
    None without ``kept``.

    A module ``conditioner`` is its conditioner; ``masked = True`` declares that it returns parameters of
    kept entries as well.
    """
    mask = _mask(getattr(obj, "kept", None), shape)
    if mask is None or len(mask) != math.prod(shape) or not mask:
        return None
    kind = getattr(obj, "coupling", "joint")
    hooked = hasattr(getattr(obj, "conditioner", None), "register_forward_hook")
    return Coupling(
        mask,
        kind if kind in KINDS else "joint",
        conditioner="conditioner" if hooked else "",
        masked=getattr(obj, "masked", False) is True,
    )


def _mask(kept: Any, shape: Shape) -> tuple[float, ...] | None:
    if isinstance(kept, str):
        return mask_of(kept, shape)
    try:
        flat = kept.reshape(-1).tolist() if hasattr(kept, "reshape") else list(kept or ())
        return tuple(float(value) for value in flat)
    except (TypeError, ValueError):
        return None


def mask_of(text: str, shape: Shape) -> tuple[float, ...] | None:
    """The mask of a typed kept=: a name (see `MASKS`), with ``:1`` for the other parity, or indices of kept
    entries; None for anything else.
    """
    name, _, parity = text.partition(":")
    if name in MASKS and parity in ("", "0", "1"):
        return named_mask(name, int(parity or 0), shape)
    try:
        indices = {int(index) for index in text.split(",") if index.strip()}
    except ValueError:
        return None
    size = math.prod(shape)
    if not all(0 <= index < size for index in indices):
        return None
    return tuple(float(index in indices) for index in range(size))


def squeezing_of(text: str, name: str) -> Squeezing:
    """The squeeze of a typed squeeze=: an order, or "undeclared", with :factor if it is not 2. Raises
    `SpecError`.
    """
    order, _, factor = text.partition(":")
    if order not in (*ORDERS, "undeclared") or not (factor or "2").isdigit():
        raise TargetError(
            f"{name}: squeeze was given as {text!r}; expected undeclared or one of "
            f"{', '.join(ORDERS)}"
        )
    return Squeezing(factor=int(factor or 2), order="" if order == "undeclared" else order)


def levels_of(obj: Any) -> dict[str, Any]:
    """The squeeze and multi-scale map declared by attributes ``squeezing`` and ``multi_scale``,
    dictionaries of fields; only those declared.
    """
    declared = {
        "squeezing": _structure_attribute(obj, "squeezing", Squeezing),
        "multi_scale": _structure_attribute(obj, "multi_scale", MultiScale),
    }
    return {name: value for name, value in declared.items() if value is not None}


def _structure_attribute(obj: Any, name: str, kind: type[Squeezing] | type[MultiScale]) -> Any:
    attribute = getattr(obj, name, None)
    if not isinstance(attribute, Mapping):
        return attribute if isinstance(attribute, (Squeezing, MultiScale)) else None
    if not set(attribute) & {field.name for field in fields(kind)}:
        return None  # an unrelated attribute of that name
    try:
        return kind(**{key: _frozen(value) for key, value in attribute.items()})
    except TypeError as error:
        raise TargetError(f"{type(obj).__name__}.{name} is not understood: {error}") from error


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


def preprocessing_of(obj: Any) -> Preprocessing | None:
    """The logit declared by an attribute ``preprocessing``, a dictionary of fields; None if not declared."""
    attribute = getattr(obj, "preprocessing", None)
    if not isinstance(attribute, Mapping) or not attribute:
        return None
    names = {field.name for field in fields(Preprocessing)}
    return Preprocessing(**attribute) if set(attribute) <= names else None
