"""The text of a program: filled templates, their names, and the last lines."""

from __future__ import annotations

import ast
import math
import re
from string import Template as Substitution

import numpy as np

from flowref.model import EXACT
from flowref.scripting.case import ReproductionCase
from flowref.scripting.names import Unwritable
from flowref.scripting.numbers import number_literal
from flowref.scripting.template import Template
from flowref.scripting.variants import Variant


def filled(template: Template, values: dict[str, str]) -> list[str]:
    """Return the lines of a template with its placeholders replaced. Raises: `Unwritable` if one
    has no value here.
    """
    try:
        lines = [Substitution(line).substitute(values) for line in template.lines]
    except KeyError as error:
        raise Unwritable(f"nothing is known of its {error.args[0]}") from None
    return [part for line in lines for part in (line.splitlines() if line else [])]


def used_in(text: str) -> set[str]:
    """The names that a program uses."""
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def stored_in(text: str) -> set[str]:
    """The names that a program assigns."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    return {node.id for node in nodes if isinstance(node.ctx, ast.Store)}


def asks_for_points(text: list[str]) -> bool:
    """Whether a template uses the recorded points, rather than its own or none."""
    first = next((line for line in text if re.search(r"\bx\b", line.partition("#")[0])), "")
    return bool(first) and not (first.startswith("x = ") and not re.search(r"\bx\b", first[3:]))


def ending(case: ReproductionCase, variant: Variant, measured: bool) -> list[str]:
    """The lines with the verdict, as text and exit code."""
    lines = []
    if measured:
        bound, why = threshold(case)
        lines += ['print(f"off by {off:.6g}")', f"wrong = not off <= {bound}{why}"]
    law = case.verdict.law
    return [*lines, f'print("VIOLATED {law}" if wrong else "holds")', "sys.exit(bool(wrong))"]


def threshold(case: ReproductionCase) -> tuple[str, str]:
    """Return a round number between explained rounding and the observed error, with a comment."""
    evidence = case.verdict.evidence
    if evidence is None:
        return "1e-9", ""
    if case.law.tolerance == EXACT or not np.isfinite(evidence.allowed) or evidence.allowed <= 0:
        return "0", ""
    allowed, seen = evidence.allowed, evidence.residual
    why = (
        f"  # generous: rounding explains {allowed:.1g}" if case.law.tolerance == "rounding" else ""
    )
    if not np.isfinite(seen) or seen > 1e3 * allowed:
        top = math.log10(seen) if np.isfinite(seen) else 0.0
        middle = (math.log10(allowed) + min(top, 0.0)) / 2
        return number_literal(10.0 ** math.floor(middle)), why
    return number_literal(math.sqrt(allowed * seen), 2), why
