"""What is known of each operator, found out once: where it rounds, and how."""

from __future__ import annotations

from typing import Any, NamedTuple

from flowref.backends.torch.operators import (
    BOUNDED,
    EXACT,
    INSIDE,
    NORMWISE,
    PRODUCTS,
    QUOTIENTS,
    SPECIAL,
    SUMS,
)

# Operators that are exact for some operands, and those whose error is more than that of a product.
SOMETIMES = SUMS | PRODUCTS | QUOTIENTS | {"sum"}
MORE = {*BOUNDED, "softplus", "softplus_backward", "_log_softmax", "log_sigmoid_forward"}


class Rule(NamedTuple):
    """What is known of an operator: where it rounds, and whether it is exact for some operands.
    ``func`` is kept so that its id stays its own.
    """

    func: Any
    name: str
    exact: bool
    inside: bool
    normwise: bool
    sometimes: bool
    special: bool
    more: bool


# By the ids of operators, whose own hashes are computed in Python.
RULES: dict[int, Rule] = {}


def rule_of(func: Any) -> Rule:
    """What is known of an operator, found out once."""
    name = func.overloadpacket.__name__
    views = any(
        result.alias_info is not None and not result.alias_info.is_write
        for result in func._schema.returns
    )
    exact, inside = name in EXACT or views, name in INSIDE
    normwise = name in NORMWISE and not inside
    RULES[id(func)] = Rule(
        func, name, exact, inside, normwise, name in SOMETIMES, name in SPECIAL, name in MORE
    )
    return RULES[id(func)]
