"""A program for one recorded case, from a template and a variant."""

from __future__ import annotations

import re

import torch

from flowref.model import REAL, Array, seed_of
from flowref.scripting.call_substitution import put_in
from flowref.scripting.case import ReproductionCase
from flowref.scripting.inlined_calls import Inliner
from flowref.scripting.layout import import_block, wrapped_line
from flowref.scripting.names import Names
from flowref.scripting.numbers import tensor
from flowref.scripting.program_docstring import heading
from flowref.scripting.text import asks_for_points, ending, filled, stored_in, used_in
from flowref.scripting.torch.torch_call_lines import TAKES, calling, example
from flowref.scripting.torch.torch_object_lines import (
    construction_lines,
    eval_mode_lines,
    moving,
    random_points,
    repair_lines,
    seeds,
    warming,
)
from flowref.scripting.torch.torch_template_values import again, filling
from flowref.scripting.variants import Variant

# Names that templates may use -> their imports.
IMPORTS = {
    "np": "import numpy as np", "math": "import math", "copy": "import copy", "io": "import io",
    "pickle": "import pickle", "contextlib": "import contextlib", "nn": "from torch import nn",
}  # fmt: skip
TAKEN = {
    "flow", "x", "z", "n", "u", "y", "v", "context", "off", "wrong", "parameter", "generator", "build",
}  # fmt: skip
# Number of random points that replace a batch too large to list.
PLAIN_ROWS = 8
# The line by which templates use images, and the most numbers that are listed instead.
IMAGES = "z = forward(x)[0].detach().clone()"
FEW = 16


def program(case: ReproductionCase, variant: Variant) -> list[str]:
    """Return the lines of the program. Raises: `Unwritable` if a part has no short form."""
    rows = 1 if variant.row is not None else len(case.x)
    values = filling(case, variant.which, rows)
    text = filled(variant.template, values)
    used = used_in("\n".join(text))
    inliner = Inliner(Names({*TAKEN, "sys", *TAKES, *IMPORTS, *stored_in("\n".join(text))}))
    before, build = construction_lines(case, inliner)
    several = variant.warm or "context[" in "\n".join(text)
    imports = {"import sys", "import torch", *(IMPORTS[name] for name in used & {*IMPORTS})}
    imports |= {"import numpy as np"} if "numpy" in case.draws else set()
    imports |= {"import random"} if "random" in case.draws else set()
    warm = _warmed(case) if variant.warm else []
    needed = [which for which in TAKES if which in used or any(f"{which}(" in w for w in warm)]
    functions = {which: calling(case, which, inliner, several) for which in needed}
    text, points = _template_and_point_lines(case, variant, text)
    used = used_in("\n".join(text))
    body, functions = put_in([*warm, *text], functions)
    moved, evaluated = moving(case), eval_mode_lines(case)
    moved += repair_lines(case, inliner) if variant.repaired else []
    imports |= inliner.names.imports
    if case.condition.dtype == "float64":
        before += ["", "torch.set_default_dtype(torch.float64)"]
    if "build" in used:
        made = [*(seeds(case) if again(case) else []), *build, *evaluated, "return flow"]
        if made[-2].startswith("flow = ") and made.count(made[-2]) == 1:
            made[-2:] = [f"return {made[-2].removeprefix('flow = ')}"]
        building = ["", "def build():", *(f"    {line}" for line in made), ""]
        building += [*([] if again(case) else seeds(case)), "flow = build()"]
    else:
        building = [*seeds(case), *build, *evaluated]
    defined = [line for lines in functions.values() for line in ["", *lines]]
    defined += [""] if defined else []
    count = len(warm)
    lines = [
        *heading(case),
        "",
        *import_block(imports),
        *before,
        *building,
        *([] if not warm else [*defined, *body[:count]]),
        *moved,
        *([] if warm else defined),
        *([] if case.condition.grad else ["torch.set_grad_enabled(False)"]),
        *points,
        *body[count:],
        *ending(case, variant, "off" in stored_in("\n".join(text))),
    ]
    flat = [
        part
        for line in lines
        for part in (wrapped_line(line) if not line.startswith(" " * 9) else [line])
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(flat)).splitlines()


def _template_and_point_lines(
    case: ReproductionCase, variant: Variant, text: list[str]
) -> tuple[list[str], list[str]]:
    """The lines of a template, and the lines of its points: the recorded ones, or their images if
    forward is used for nothing else.
    """
    rest = [line for line in text if line not in ("z = x", IMAGES)]
    if "z = x" in text:
        return rest, _input_lines(case, variant, "z", case.x)
    if IMAGES in text and not any(re.search(r"\bx\b|\bforward\b", line) for line in rest):
        made = example(case, "forward", all_rows=True)
        image = made[0] if isinstance(made, (tuple, list)) else None
        if isinstance(image, torch.Tensor) and image.numel() <= FEW and variant.digits:
            return rest, _input_lines(case, variant, "z", image.detach().double().numpy())
    return text, _input_lines(case, variant, "x", case.x) if asks_for_points(text) else []


def _warmed(case: ReproductionCase) -> list[str]:
    facts, dialect = case.facts, case.dialect
    forwards = dialect.inverse is None or dialect.normalizing == "forward"
    if forwards:
        return warming(case, facts.domain, facts.event_shape)
    return warming(case, facts.codomain or REAL, facts.latent_shape or facts.event_shape)


def _input_lines(case: ReproductionCase, variant: Variant, name: str, x: Array) -> list[str]:
    context = case.context
    if variant.row is not None:
        x = x[variant.row : variant.row + 1]
        context = None if context is None else context[variant.row : variant.row + 1]
    lines = []
    if not variant.digits:
        # A law about many rows needs many.
        rows = len(x) if case.law.rows else min(len(x), PLAIN_ROWS)
        shape = (rows, *x.shape[1:])
        lines += (
            [] if "torch" in case.draws else [f"torch.manual_seed({seed_of(case.law.key) % 1000})"]
        )
        lines.append(f"{name} = {random_points(case.facts.domain, shape)}")
        if context is not None:
            lines.append(
                f"context = torch.randn({', '.join(map(str, (len(x), *context.shape[1:])))})"
            )
        return lines
    lines += tensor(name, x, variant.digits)
    return lines + ([] if context is None else tensor("context", context, variant.digits))
