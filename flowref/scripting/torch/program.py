"""A program for one recorded case, from a template and a choice of how near to the record it is."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from string import Template as Substitution

import numpy as np
import torch

from flowref.model import EXACT, REAL, Array, seed_of
from flowref.scripting.case import Case
from flowref.scripting.heading import heading
from flowref.scripting.inlining import Inliner
from flowref.scripting.layout import import_block, wrapped
from flowref.scripting.names import Names, Unwritable
from flowref.scripting.template import Template
from flowref.scripting.torch.building import (
    construction,
    evaluation,
    mending,
    moving,
    random_points,
    seeds,
    warming,
)
from flowref.scripting.torch.calling import TAKES, calling, example
from flowref.scripting.torch.filling import again, filling
from flowref.scripting.torch.numbers import number, tensor
from flowref.scripting.torch.putting import put_in

# What templates may use without saying so.
IMPORTS = {
    "np": "import numpy as np", "math": "import math", "copy": "import copy", "io": "import io",
    "pickle": "import pickle", "contextlib": "import contextlib", "nn": "from torch import nn",
}  # fmt: skip
TAKEN = {
    "flow", "x", "z", "n", "u", "y", "v", "context", "off", "wrong", "parameter", "generator", "build",
}  # fmt: skip
# Points of a batch that is too large to be listed.
PLAIN_ROWS = 8
# How templates ask for images, and up to how many numbers they are written down instead.
IMAGES = "z = forward(x)[0].detach().clone()"
FEW = 16


@dataclass(frozen=True)
class Variant:
    """How near to the record a program is: the simplest that shows the bug is the one to forward.

    ``digits``: of the recorded points; 0 for random ones in their place. ``row``: the point that is
    taken, None for the batch. ``warm``: after two batches in train mode. ``mended``: the library puts
    moved parameters back into their valid set. ``which``: the call that a template is
    about that speaks of one.
    """

    template: Template
    digits: int = 17
    row: int | None = 0
    warm: bool = False
    mended: bool = False
    which: str = "forward"

    @property
    def within(self) -> float:
        """How many times larger or smaller than recorded the number may be; two batches in train
        mode are never the same two.
        """
        return self.template.within * (100 if self.warm else 1)


def program(case: Case, variant: Variant) -> list[str]:
    """The lines of the program. Raises `Unwritable` where a part of it has no short form."""
    rows = 1 if variant.row is not None else len(case.x)
    values = filling(case, variant.which, rows)
    text = filled(variant.template, values)
    used = _used("\n".join(text))
    inliner = Inliner(Names({*TAKEN, "sys", *TAKES, *IMPORTS, *_stored("\n".join(text))}))
    before, build = construction(case, inliner)
    several = variant.warm or "context[" in "\n".join(text)
    imports = {"import sys", "import torch", *(IMPORTS[name] for name in used & {*IMPORTS})}
    imports |= {"import numpy as np"} if "numpy" in case.draws else set()
    imports |= {"import random"} if "random" in case.draws else set()
    warm = _warmed(case) if variant.warm else []
    needed = [which for which in TAKES if which in used or any(f"{which}(" in w for w in warm)]
    functions = {which: calling(case, which, inliner, several) for which in needed}
    text, points = _pointed(case, variant, text)
    used = _used("\n".join(text))
    body, functions = put_in([*warm, *text], functions)
    moved, evaluated = moving(case), evaluation(case)
    moved += mending(case, inliner) if variant.mended else []
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
        *points,
        *body[count:],
        *ending(case, variant, "off" in _stored("\n".join(text))),
    ]
    flat = [
        part
        for line in lines
        for part in (wrapped(line) if not line.startswith(" " * 9) else [line])
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(flat)).splitlines()


def filled(template: Template, values: dict[str, str]) -> list[str]:
    """The lines of a template with its names put in. Raises `Unwritable` where one means nothing
    here.
    """
    try:
        lines = [Substitution(line).substitute(values) for line in template.lines]
    except KeyError as error:
        raise Unwritable(f"nothing is known of its {error.args[0]}") from None
    return [part for line in lines for part in (line.splitlines() if line else [])]


def _used(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _pointed(case: Case, variant: Variant, text: list[str]) -> tuple[list[str], list[str]]:
    """The lines of a template, and before them those of its points: the recorded ones, or what
    forward made of them where nothing else is asked of it.
    """
    rest = [line for line in text if line not in ("z = x", IMAGES)]
    if "z = x" in text:
        return rest, _points(case, variant, "z", case.x)
    if IMAGES in text and not any(re.search(r"\bx\b|\bforward\b", line) for line in rest):
        made = example(case, "forward", all_rows=True)
        image = made[0] if isinstance(made, (tuple, list)) else None
        if isinstance(image, torch.Tensor) and image.numel() <= FEW and variant.digits:
            return rest, _points(case, variant, "z", image.detach().double().numpy())
    return text, _points(case, variant, "x", case.x) if _asked(text) else []


def _asked(text: list[str]) -> bool:
    """Whether a template takes the recorded points, rather than points of its own or none."""
    first = next((line for line in text if re.search(r"\bx\b", line.partition("#")[0])), "")
    return bool(first) and not (first.startswith("x = ") and not re.search(r"\bx\b", first[3:]))


def _stored(text: str) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    return {node.id for node in nodes if isinstance(node.ctx, ast.Store)}


def _warmed(case: Case) -> list[str]:
    facts, dialect = case.facts, case.dialect
    forwards = dialect.inverse is None or dialect.normalizing == "forward"
    if forwards:
        return warming(case, facts.domain, facts.event_shape)
    return warming(case, facts.codomain or REAL, facts.latent_shape or facts.event_shape)


def _points(case: Case, variant: Variant, name: str, x: Array) -> list[str]:
    """The lines that give the points and contexts."""
    context = case.context
    if variant.row is not None:
        x = x[variant.row : variant.row + 1]
        context = None if context is None else context[variant.row : variant.row + 1]
    lines = []
    if not variant.digits:
        shape = (min(len(x), PLAIN_ROWS), *x.shape[1:])
        lines += (
            [] if "torch" in case.draws else [f"torch.manual_seed({seed_of(case.law.id) % 1000})"]
        )
        lines.append(f"{name} = {random_points(case.facts.domain, shape)}")
        if context is not None:
            lines.append(
                f"context = torch.randn({', '.join(map(str, (len(x), *context.shape[1:])))})"
            )
        return lines
    lines += tensor(name, x, variant.digits)
    return lines + ([] if context is None else tensor("context", context, variant.digits))


def ending(case: Case, variant: Variant, measured: bool) -> list[str]:
    """The verdict, in words and as the exit code."""
    lines = []
    if measured:
        bound, why = threshold(case)
        lines += ['print(f"off by {off:.6g}")', f"wrong = not off <= {bound}{why}"]
    law = case.verdict.law
    return [*lines, f'print("VIOLATED {law}" if wrong else "holds")', "sys.exit(bool(wrong))"]


def threshold(case: Case) -> tuple[str, str]:
    """A round number between what rounding explains and what was seen, and why it is that."""
    evidence = case.verdict.evidence
    if evidence is None:
        return "1e-9", ""
    if case.law.tolerance == EXACT or not np.isfinite(evidence.allowed) or evidence.allowed <= 0:
        return "0", ""
    allowed, seen = evidence.allowed, evidence.residual
    why = f"  # rounding explains {allowed:.1g}" if case.law.tolerance == "rounding" else ""
    if not np.isfinite(seen) or seen > 1e3 * allowed:
        top = math.log10(seen) if np.isfinite(seen) else 0.0
        middle = (math.log10(allowed) + min(top, 0.0)) / 2
        return number(10.0 ** math.floor(middle)), why
    return number(math.sqrt(allowed * seen), 2), why
