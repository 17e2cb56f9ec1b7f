"""Whether a random lower bound is a one-sample log-weight, or has closed-form terms or averages; read from
the source of its class.
"""

from __future__ import annotations

import ast
from typing import Any

from flowref.adapters.common.signatures import code_of

# Names of divergences, and averaging calls: exp of such a bound is a biased estimate of the
# density.
DIVERGENCES = ("kld", "divergence", "entropy")
CLOSED = ("kl_divergence", "kl", "kl_div", "entropy")
AVERAGES = ("mean", "nanmean", "average")


def expected(obj: Any) -> bool:
    """Whether the source of an object computes a divergence, an entropy or a mean; True if there is no
    source. A one-sample bound has none of them, and its exponential is unbiased.
    """
    parts = list(obj.modules()) if hasattr(obj, "modules") else [obj]
    kinds = {base for part in parts for base in type(part).__mro__}
    return any(_tells(kind) for kind in sorted(kinds, key=lambda one: one.__qualname__))


def _tells(kind: type) -> bool:
    if kind is object or kind.__module__.partition(".")[0] in ("torch", "abc", "typing"):
        return False
    tree = code_of(kind)
    if tree is None:  # compiled, or entered interactively
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
    return any(isinstance(one, ast.Attribute) and one.attr == "log_prob" for one in ast.walk(node))


def _divergence(name: str) -> bool:
    return name.lower() in DIVERGENCES or "kl" in name.lower().split("_")
