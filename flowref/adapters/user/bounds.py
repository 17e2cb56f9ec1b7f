"""Whether a random lower bound is one sample of a log-weight, or has terms in closed form or averages,
read off the code of its class.
"""

from __future__ import annotations

import ast
from typing import Any

from flowref.adapters.common.signatures import code_of

# Names of divergences, and calls that average: e to such a bound is no unbiased estimate of a density.
DIVERGENCES = ("kld", "divergence", "entropy")
CLOSED = ("kl_divergence", "kl", "kl_div", "entropy")
AVERAGES = ("mean", "nanmean", "average")


def expected(obj: Any) -> bool:
    """Whether the code of an object names a divergence or an entropy, or takes a mean; also where there
    is no code to read. A bound that is one sample has neither, and may be held to more.
    """
    parts = list(obj.modules()) if hasattr(obj, "modules") else [obj]
    kinds = {base for part in parts for base in type(part).__mro__}
    return any(_tells(kind) for kind in sorted(kinds, key=lambda one: one.__qualname__))


def _tells(kind: type) -> bool:
    if kind is object or kind.__module__.partition(".")[0] in ("torch", "abc", "typing"):
        return False
    tree = code_of(kind)
    if tree is None:  # compiled, or typed into a prompt
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in AVERAGES or name in CLOSED:
                return True
        if isinstance(node, ast.FunctionDef) and _divergence(node.name) and not _sampled(node):
            return True
        if (
            isinstance(node, ast.Assign)
            and not _sampled(node)
            and any(map(_assigns_divergence, node.targets))
        ):
            return True
    return False


def _assigns_divergence(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and _divergence(target.id)


def _sampled(node: ast.AST) -> bool:
    """Whether a divergence is the difference of two log-densities at what was drawn."""
    return any(isinstance(one, ast.Attribute) and one.attr == "log_prob" for one in ast.walk(node))


def _divergence(name: str) -> bool:
    return name.lower() in DIVERGENCES or "kl" in name.lower().split("_")
