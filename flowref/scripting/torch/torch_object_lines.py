"""Lines that build a torch object in the recorded condition."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from flowref.backends.torch.plain_tensors import loose
from flowref.backends.torch.state import modules, trainable
from flowref.backends.torch.weights import weight_candidate
from flowref.loading import recipe_of
from flowref.loading.estimators import LINE, POSITIVE, UNIT
from flowref.loading.source import fits_itself
from flowref.loading.weights import Weights
from flowref.model import REAL, USER, Support, derive
from flowref.scripting.case import ReproductionCase
from flowref.scripting.construction_lines import constructed
from flowref.scripting.inlined_calls import Inliner
from flowref.scripting.layout import WIDTH, requoted, unparsed
from flowref.scripting.names import Unwritable
from flowref.scripting.operands import Operand, variable_operand
from flowref.scripting.random_points import drawn_from

ROWS = 16
# The lines that fit a flow, as `loading.estimators.correlated` does.
FITTING = (
    "sample = np.random.default_rng(0).standard_normal((256, {size})) @ np.triu(np.ones(({size}, {size})))",
    "flow.fit(torch.from_numpy(sample))",
)
# The same for an estimator, by the kind of its data, as `loading.estimators.drawn` does.
ESTIMATING: dict[str, tuple[str, ...]] = {
    f"fitted to {words}": (FITTING[0].replace("sample", "normal"), f"flow.fit({expression})")
    for words, expression in (
        (LINE, "normal + np.exp(normal / 2)"),
        (POSITIVE, "np.exp(normal / 2)"),
        (UNIT, "1 / (1 + np.exp(-normal))"),
    )
}


def seeds(case: ReproductionCase) -> list[str]:
    """The lines that seed the generators of the builder."""
    seed = derive(case.condition.seed, 3)
    lines = {
        "torch": f"torch.manual_seed({seed})",
        "numpy": f"np.random.seed({seed % 2**32})",
        "random": f"random.seed({seed})",
    }
    return [lines[generator] for generator in case.draws]


def construction_lines(case: ReproductionCase, inliner: Inliner) -> tuple[list[str], list[str]]:
    """Return the lines before, which import and define, and those that assign ``flow`` in the
    case's dtype.
    """
    before, lines = constructed(case, inliner)
    wanted = getattr(torch, case.condition.dtype)
    floats = [one for one in _parameters_and_buffers(case.as_built) if one.is_floating_point()]
    if isinstance(case.as_built, nn.Module):
        narrow = any(one.dtype != wanted for one in floats) or case.weights is not None
        calls = [f"to({wanted})"] * narrow
        if case.as_built.training is not in_train_mode(case):
            calls.append("train()" if in_train_mode(case) else "eval()")
        called = "".join(f".{call}" for call in calls)
        own = type(case.as_built)
        usual = own.eval is nn.Module.eval and own.train is nn.Module.train  # returns the module
        short = lines[-1].startswith("flow = ") and len(lines[-1] + called) <= WIDTH
        if calls and short and usual and not case.copied:
            lines[-1] += called
        elif calls:
            lines.append(f"flow{called}")
    if not case.copied and case.target.adapter == USER:
        size = math.prod(case.facts.event_shape)
        itself: tuple[str, ...] = FITTING if fits_itself(case.as_built) else ()
        fitted = recipe_of(case.target).source.fitted
        if added := [requoted(line.format(size=size)) for line in ESTIMATING.get(fitted, itself)]:
            lines += added
            inliner.names.imports.add("import numpy as np")
    if case.weights is not None:
        lines += restoring(case, case.weights, inliner)
    defined = [["", *unparsed([one]), ""] for one in inliner.definitions]
    return [*before, *(line for group in defined for line in group)], lines


def in_train_mode(case: ReproductionCase) -> bool:
    """Whether the calls were made in train mode."""
    return case.condition.mode == "train"


def restoring(case: ReproductionCase, weights: Weights, inliner: Inliner) -> list[str]:
    """The lines that load the weights of a file."""
    owner = paths(case.as_built)[0][0]
    where = weight_candidate(case.as_built, weights.path, weights.key)
    path = weights.path.as_posix()
    if weights.path.suffix == ".safetensors":
        inliner.names.imports.add("from safetensors.torch import load_file")
        read = f"load_file({path!r})"
    else:
        read = f"torch.load({path!r}, weights_only=True)"
    read += "".join(f"[{key!r}]" for key in where.keys)
    if not where.prefix:
        return [requoted(f"{owner}.load_state_dict({read})")]
    start = f"if name.startswith({where.prefix!r})"
    named = f"name.removeprefix({where.prefix!r}): value"
    kept = f"{{{named} for name, value in saved.items() {start}}}"
    return [requoted(f"saved = {read}"), requoted(f"{owner}.load_state_dict({kept})")]


def eval_mode_lines(case: ReproductionCase) -> list[str]:
    """The lines that switch the modules of a non-module object to eval mode."""
    if isinstance(case.as_built, nn.Module) or in_train_mode(case):
        return []
    return [
        f"{path}.eval()"
        for path, part in paths(case.as_built)
        if any(one.training and _behaves_by_mode(one) for one in part.modules())
    ]


def _behaves_by_mode(module: nn.Module) -> bool:
    """Whether a module without parts may behave differently in train mode: it has buffers or
    dropout.
    """
    return bool(dict(module.named_buffers(recurse=False))) or "Dropout" in type(module).__name__


def moving(case: ReproductionCase) -> list[str]:
    """The lines that perturb the parameters as in the case."""
    scale, fixed = case.condition.scale, case.facts.promises.get("fixed")
    if not scale or fixed or not trainable(case.as_built):
        return []
    owners = [f"*{path}.parameters()" for path, _ in paths(case.as_built)]
    others = [] if isinstance(case.as_built, nn.Module) else loose(case.as_built)
    owners += [f"flow{'' if name[0] == '[' else '.'}{name}" for name, _ in others]
    several = f"[{', '.join(owners)}]" if others or len(owners) > 1 else owners[0][1:]
    frozen = sum(len(list(part.parameters())) for part in modules(case.as_built)) + len(others)
    condition = len(trainable(case.as_built)) < frozen
    step = "torch.randn(parameter.shape, generator=generator, dtype=torch.float64)"
    if case.condition.dtype == "float64":
        step = step.replace(", dtype=torch.float64", "")
    factor = "" if scale == 1 else f"{scale!r} * "
    return [
        f"generator = torch.Generator().manual_seed({derive(case.condition.seed, 5)})",
        f"for parameter in {several}:",
        *(["    if parameter.requires_grad:"] if condition else []),
        f"    {'    ' if condition else ''}parameter.data += {factor}{step}",
    ]


def repair_lines(case: ReproductionCase, inliner: Inliner) -> list[str]:
    """The lines by which the library restores perturbed parameters to their valid set."""
    repair = case.dialect.repair
    if repair is None:
        return []
    outer, inliner.lines = inliner.lines, []
    inliner.called(Operand(repair), [variable_operand("flow", case.obj)], {})
    inner, inliner.lines = inliner.lines, outer
    return ["with torch.no_grad():", *(f"    {line}" for line in unparsed(inner))] if inner else []


def warming(case: ReproductionCase, support: Support | None, shape: tuple[int, ...]) -> list[str]:
    """The lines that pass two batches through the object in train mode."""
    if not isinstance(case.obj, nn.Module):
        raise Unwritable("it holds modules and is none")
    which = case.dialect.normalizing if case.dialect.inverse is not None else "forward"
    given = random_points(support or REAL, (ROWS, *shape))
    if case.context is not None:
        given += f", torch.randn({ROWS}, {', '.join(map(str, case.context.shape[1:]))})"
    call = which if case.dialect.forward is not None else "log_prob"
    return [
        "flow.train()",
        "for _ in range(2):  # as in training",
        f"    {call}({given})",
        *([] if in_train_mode(case) else ["flow.eval()"]),
    ]


def random_points(support: Support, shape: tuple[int, ...]) -> str:
    """An expression for random points of a set. Raises: `Unwritable` for sets without a simple one."""
    sizes = ", ".join(map(str, shape))
    return drawn_from(support, f"torch.randn({sizes})", f"torch.rand({sizes})")


def _parameters_and_buffers(obj: Any) -> list[torch.Tensor]:
    state = [[*part.parameters(), *part.buffers()] for part in modules(obj)]
    return [tensor for tensors in state for tensor in tensors]


def paths(obj: Any) -> list[tuple[str, nn.Module]]:
    """Return the path and module of the outermost modules of an object, in the order of `modules`."""
    if isinstance(obj, nn.Module):
        return [("flow", obj)]
    places: dict[int, str] = {}
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("flow", obj)]
    while stack:
        path, item = stack.pop(0)
        if id(item) in seen or isinstance(item, (str, bytes, int, float, torch.Tensor, type)):
            continue
        seen.add(id(item))
        places.setdefault(id(item), path)
        if isinstance(item, (list, tuple)):
            stack += [(f"{path}[{index}]", entry) for index, entry in enumerate(item)]
        elif isinstance(item, dict):
            stack += [(f"{path}[{key!r}]", entry) for key, entry in item.items()]
        elif hasattr(item, "__dict__") and not isinstance(item, nn.Module):
            stack += [(f"{path}.{name}", entry) for name, entry in vars(item).items()]
    return [(places[id(part)], part) for part in modules(obj) if id(part) in places]
