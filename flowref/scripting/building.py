"""How a program builds its object: as the audit did, in the condition that was recorded."""

from __future__ import annotations

import functools

from flowref import registry
from flowref.backends.torch.live import derive
from flowref.backends.torch.present import warm
from flowref.backends.torch.sandbox import sandbox
from flowref.backends.torch.state import cast, duplicate, modules, move, set_mode
from flowref.model import REAL, USER, draw
from flowref.scripting.cases import Case
from flowref.scripting.gathering import Gathering


def building(case: Case, gathering: Gathering, fresh: bool) -> list[str]:
    """The functions that build the object: as it comes, and in the recorded condition."""
    plan, condition = case.plan, case.condition
    maker, before = _maker(case, gathering)
    caster, mode = gathering.express(cast), gathering.express(set_mode)
    box, seeds = gathering.express(sandbox), gathering.express(derive)
    lines = [*before]
    head = f"    with {box}({seeds}(OBJECT_SEED, 3), DTYPE):"
    made = f"        obj = {caster}({maker}, DTYPE)"
    if fresh:
        lines += [
            "",
            "def fresh():",
            '    """The object as it is built, in eval mode."""',
            head,
            made,
        ]
        lines += [f"        {mode}(obj, False)", "        return obj", ""]
    lines += ["", "def build():", f'    """{_condition(case)}"""', head, made]
    if condition.history != "fresh" and modules(case.live.pristine):
        lines += _warming(case, gathering) or [f"        {mode}(obj, True)"]
    if condition.scale and not plan.facts.promises.get("fixed"):
        lines.append(
            f"        {gathering.express(move)}(obj, {condition.scale!r}, {seeds}(OBJECT_SEED, 5))"
        )
        if plan.dialect.repair is not None:
            lines += [
                "        with torch.no_grad():",
                f"            {gathering.express(plan.dialect.repair)}(obj)",
            ]
    lines += [f"        {mode}(obj, {condition.history == 'train'})", "        return obj"]
    return lines


def _condition(case: Case) -> str:
    condition = case.condition
    history = "as built" if condition.history == "fresh" else "after two train-mode batches"
    moved = f", its parameters moved by {condition.scale:g}" if condition.scale else ""
    return f"The object {history}{moved}, in {'train' if condition.history == 'train' else 'eval'} mode."


def _warming(case: Case, gathering: Gathering) -> list[str]:
    """The call that passes two batches through the object in train mode; none where it has no such
    call.
    """
    dialect, facts = case.plan.dialect, case.plan.facts
    which = (
        dialect.normalizing
        if dialect.inverse is not None or dialect.normalizing == "forward"
        else "forward"
    )
    speak = getattr(dialect, which) or dialect.log_prob
    if speak is None:
        return []
    support = facts.domain if which == "forward" else (facts.codomain or REAL)
    shape = facts.event_shape if which == "forward" else (facts.latent_shape or facts.event_shape)
    domain = (
        "None"
        if gathering.express(draw) and gathering.stands_in(draw)
        else gathering.express(support)
    )
    given = [
        gathering.express(warm),
        gathering.express(speak),
        domain,
        repr(tuple(shape)),
        repr(facts.context_shape),
    ]
    return [f"        {given[0]}(obj, {', '.join(given[1:])}, DTYPE, OBJECT_SEED)"]


def _maker(case: Case, gathering: Gathering) -> tuple[str, list[str]]:
    """The expression that builds the object, and the lines that come before it."""
    build = case.plan.build
    if case.target.adapter != USER:
        component = registry.find_component(case.target)
        options = registry.builder_options(case.target)
        listed = ", ".join(f"{key}={value!r}" for key, value in options.items())
        return f"{gathering.express(component.build, 'build')}({listed})", []
    place, _, name = case.target.component.rpartition(":")
    assert isinstance(build, functools.partial)
    instance = build.func is duplicate
    options = registry.builder_options(case.target)
    listed = ", ".join(f"{key}={value!r}" for key, value in options.items())
    if place.partition(".")[0] == "flowref":
        return f"{gathering.express(build.func)}({listed})", []
    if place.endswith(".py"):
        gathering.imports |= {"import importlib.util", "import os"}
        lines = [
            "",
            "def imported(path):",
            '    """The module in a file."""',
            "    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))",
            "    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)",
            "    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)",
            "    spec.loader.exec_module(module)",
            "    return module",
            "",
            "",
            f"audited = imported({place!r})",
            "",
        ]
    else:
        gathering.imports |= {"import importlib", "import os"}
        lines = [
            "sys.path.insert(0, os.getcwd())",
            f"audited = importlib.import_module({place!r})",
            "",
        ]
    if instance:
        gathering.imports.add("import copy")
        return f"copy.deepcopy(audited.{name})", lines
    return f"audited.{name}({listed})", lines
