"""Rounding behavior of each operator, determined once: from tables for a few, from the schema for
views and for results without tensor inputs, and from calls for all others (`behavior`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from flowref.backends.torch.behavior import Behavior, behavior_of
from flowref.backends.torch.operators import (
    EXACT,
    INSIDE,
    LARGER_ERROR,
    NORMWISE,
    SOMETIMES_EXACT,
    SPECIAL,
    STATED,
    WRITTEN,
)


class Rule(NamedTuple):
    """The rounding behavior of an operator: where it rounds, whether it is exact for some
    operands, which arguments it writes to, and whether it returns the memory of one, as a view
    or written to. An operator that is not ``known`` is assumed to round, inside as well.
    ``sometimes_exact``: results are exact for some operands (`exact_where`); ``special``: a special
    function, whose error is several units; ``larger_error``: its error is not only relative to the
    result. ``func`` keeps the id valid.
    """

    func: Any
    name: str
    exact: bool
    inside: bool
    normwise: bool
    sometimes_exact: bool
    special: bool
    larger_error: bool
    written: tuple[int, ...]
    view: bool
    in_place: bool
    known: bool


# By the ids of operators, whose own hashes are computed in Python.
RULES: dict[int, Rule] = {}


def operator_rule(func: Any) -> Rule:
    """Returns the rule of an operator, cached."""
    return RULES.get(id(func)) or rule_of(func)


def rule_of(func: Any) -> Rule:
    """Determines the rule of an operator."""
    name = operator_name(func)
    behavior = _behavior_from_schema(func, name) or behavior_of(func)
    if behavior is None and torch.Tag.pointwise in func.tags:
        behavior = Behavior.POINTWISE
    normwise = name in NORMWISE
    exact = behavior is Behavior.EXACT
    written = [
        place
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    aliases = [result.alias_info for result in func._schema.returns]
    RULES[id(func)] = Rule(
        func,
        name,
        exact,
        not (exact or normwise or behavior is Behavior.POINTWISE),
        normwise,
        name in SOMETIMES_EXACT,
        name in SPECIAL,
        name in LARGER_ERROR,
        (*WRITTEN.get(name, ()), *written),
        any(alias is not None and not alias.is_write for alias in aliases),
        any(alias is not None for alias in aliases),
        behavior is not None,
    )
    return RULES[id(func)]


def operator_name(func: Any) -> str:
    """The name of an operator, without the underscore of an in-place one."""
    name = str(func.overloadpacket.__name__)
    return name if name.endswith("__") or name in EXACT else name.removesuffix("_")


def _behavior_from_schema(func: Any, name: str) -> Behavior | None:
    """The behavior according to tables and the schema, or None."""
    schema = func._schema
    aliases = [result.alias_info for result in schema.returns]
    views = any(alias is not None and not alias.is_write for alias in aliases)
    made = not any("Tensor" in str(one.type) for one in schema.arguments)
    plain = not any("Tensor" in str(one.type) for one in schema.returns)
    if views or made or plain:
        return Behavior.EXACT
    if func.namespace != "aten":
        return None
    if name in EXACT:
        return Behavior.EXACT
    if name in INSIDE or name in NORMWISE:
        return Behavior.MIXED
    return Behavior.POINTWISE if name in STATED else None
