"""Documented deviations of a class from what is usual."""

from __future__ import annotations

import re
from typing import Any

# Division by standard deviation plus eps, rather than by sqrt(variance + eps).
BESIDE_THE_ROOT = (
    r"\b(\w*std|sd|sigma|\u03c3|deviation|sqrt\(\s*\w+\s*\))\s*\+\s*(self\.)?(eps|\u03b5|epsilon)"
)
# A log-det with the opposite sign, except where one is subtracted from a log-density.
NEGATED = (
    r"(\b(is|are|returns?|gives?)|[(,])\W*(the\W+)?(minus|negative|negated)\W+(of\W+)?(the\W+)?(sum\W+of\W+)?(log|absolute)"
    r"|(\breturns?|[(,:>])\s*[-\u2212]\s*log\s*\|?\s*(abs\s*)?det"
)
# A stochastic lower bound of a log-density.
BOUND = r"\b(lower bound|elbo|iwae)\b|importance[- ](weight|sampl)"
# Clipped outputs.
CLIPPED = r"\bclip|\bclamp|\btruncat"


def documents(obj: Any, pattern: str, *methods: str) -> bool:
    """Whether the docstring of a class, or of a method, matches a pattern."""
    kind = type(obj)
    texts = [
        kind.__doc__,
        *(getattr(getattr(kind, name, None), "__doc__", None) for name in methods),
    ]
    return any(re.search(pattern, text, re.IGNORECASE) for text in texts if text)
