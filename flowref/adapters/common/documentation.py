"""What the documentation of a class says on purpose, where it is not what everybody does."""

from __future__ import annotations

import re
from typing import Any

# Division by a deviation plus eps, and not by the root of a variance plus eps.
BESIDE_THE_ROOT = (
    r"\b(\w*std|sd|sigma|\u03c3|deviation|sqrt\(\s*\w+\s*\))\s*\+\s*(self\.)?(eps|\u03b5|epsilon)"
)
# A log-det that is returned with the other sign, and none that is taken from a log-density.
NEGATED = (
    r"(\b(is|are|returns?|gives?)|[(,])\W*(the\W+)?(minus|negative|negated)\W+(of\W+)?(the\W+)?(sum\W+of\W+)?(log|absolute)"
    r"|(\breturns?|[(,:>])\s*[-\u2212]\s*log\s*\|?\s*(abs\s*)?det"
)
# A log-density that is bounded from below, by draws.
BOUND = r"\b(lower bound|elbo|iwae)\b|importance[- ](weight|sampl)"
# Outputs that are cut off.
CLIPPED = r"\bclip|\bclamp|\btruncat"


def documents(obj: Any, pattern: str, *methods: str) -> bool:
    """Whether the documentation of a class, or of a method of it, says something."""
    kind = type(obj)
    texts = [
        kind.__doc__,
        *(getattr(getattr(kind, name, None), "__doc__", None) for name in methods),
    ]
    return any(re.search(pattern, text, re.IGNORECASE) for text in texts if text)
