"""A program for one recorded case, from a template and a variant."""

from __future__ import annotations

import re

from flowref.scripting.call_substitution import put_in
from flowref.scripting.case import ReproductionCase
from flowref.scripting.inlined_calls import Inliner
from flowref.scripting.jax.jax_call_lines import TAKES, calling
from flowref.scripting.jax.jax_object_lines import (
    construction_lines,
    moved_array_lines,
    random_points,
    seeds,
)
from flowref.scripting.jax.jax_template_values import filling
from flowref.scripting.layout import import_block, wrapped_line
from flowref.scripting.names import Names, Unwritable
from flowref.scripting.numbers import JAX, tensor
from flowref.scripting.program_docstring import heading
from flowref.scripting.text import asks_for_points, ending, filled, stored_in, used_in
from flowref.scripting.variants import Variant

# Names that templates may use -> their imports.
IMPORTS = {
    "np": "import numpy as np",
    "jnp": "import jax.numpy as jnp",
    "math": "import math",
}
TAKEN = {
    "flow", "x", "z", "n", "y", "v", "context", "off", "wrong", "key", "keys", "rng", "leaves", "tree",
    "leaf", "place",
}  # fmt: skip
# Number of random points that replace a batch too large to list.
PLAIN_ROWS = 8


def program(case: ReproductionCase, variant: Variant) -> list[str]:
    """Return the lines of the program. Raises: `Unwritable` if a part has no short form."""
    rows = 1 if variant.row is not None else len(case.x)
    text = filled(variant.template, filling(case, variant.which, rows))
    whole = "\n".join(text)
    inliner = Inliner(Names({*TAKEN, "sys", *TAKES, *IMPORTS, *stored_in(whole)}))
    before, build = construction_lines(case, inliner)
    functions = {which: calling(case, which, inliner) for which in TAKES if which in used_in(whole)}
    points = _input_lines(case, variant) if asks_for_points(text) else []
    body, functions = put_in(text, functions)
    steps = moved_array_lines(case)
    defined = [line for lines in functions.values() for line in ["", *lines]]
    defined += [""] if defined else []
    precise = ['jax.config.update("jax_enable_x64", True)'] * (case.condition.dtype == "float64")
    lines = [
        *precise,
        *before,
        *seeds(case),
        *build,
        *steps,
        *defined,
        *points,
        *body,
        *ending(case, variant, "off" in stored_in(whole)),
    ]
    used = used_in("\n".join(lines))
    imports = {"import sys", "import jax", *(IMPORTS[name] for name in used & {*IMPORTS})}
    imports |= {"import random"} if "random" in case.draws else set()
    imports |= inliner.names.imports
    lines = [*heading(case, ("jax", "jaxlib", "numpy")), "", *import_block(imports), "", *lines]
    flat = [
        part
        for line in lines
        for part in (wrapped_line(line) if not line.startswith(" " * 9) else [line])
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(flat)).splitlines()


def _input_lines(case: ReproductionCase, variant: Variant) -> list[str]:
    x, context = case.x, case.context
    if variant.row is not None:
        x = x[variant.row : variant.row + 1]
        context = None if context is None else context[variant.row : variant.row + 1]
    if variant.digits:
        given = [] if context is None else tensor("context", context, variant.digits, JAX)
        return [*tensor("x", x, variant.digits, JAX), *given]
    if context is not None:
        raise Unwritable("its contexts are too many to be listed")
    points = random_points(case.facts.domain, (min(len(x), PLAIN_ROWS), *x.shape[1:]))
    return [f"x = {points}"]
