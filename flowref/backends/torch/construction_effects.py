"""Side effects of construction on the process: changed settings, and generators that a constructor
seeds.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import torch

from flowref.backends.lives import Action
from flowref.backends.process import standing_in
from flowref.backends.torch.sandbox import GENERATORS, random_state, torch_sandbox, torch_settings
from flowref.backends.torch.scenario import TorchScenarioObject
from flowref.model import Unsupported, derive, steps

# Functions that seed each of `GENERATORS`: Python functions by their code, built-in ones
# themselves; numpy's are invisible to profilers, so stand-ins replace them.
SEEDING = {
    "torch": (torch.manual_seed, torch.random.manual_seed, torch.seed, torch.random.seed),
    "numpy": (np.random.seed, np.random.set_state),
    "random": (random.seed, random.setstate),
}


def construct(stage: TorchScenarioObject, step: steps.Construct) -> steps.Construction:
    """Builds twice from different random states: a generator that ends in the same state was
    seeded.
    """
    build = stage.live.build
    if build is None:
        raise Unsupported("it is a part, and built with the whole")
    changed: tuple[str, ...] = ()
    ends = []
    for seed in (17, 23):
        with torch_sandbox(derive(stage.live.seed, seed), stage.live.dtype):
            began, before = random_state(), torch_settings()
            build()
            after = torch_settings()
            changed = tuple(name for name, value in after.items() if value != before[name])
            ends.append([one != other for one, other in zip(began, random_state(), strict=True)])
            ends[-1] = [*zip(ends[-1], random_state(), strict=True)]
    alike = [
        name
        for name, (moved, one), (_, other) in zip(GENERATORS, *ends, strict=True)
        if moved and one == other
    ]
    seeded = tuple(name for name in alike if name in constructors(stage, build))
    return steps.Construction(changed, seeded)


def constructors(stage: TorchScenarioObject, build: Callable[[], Any]) -> set[str]:
    """The generators that are seeded within a constructor: a factory may seed, as in an
    experiment, but a constructor that seeds affects everybody who makes an object.
    """
    codes: dict[Any, str] = {}
    for name, functions in SEEDING.items():
        for function in functions:
            codes[getattr(getattr(function, "__func__", function), "__code__", function)] = name
    found: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "c_call"):
            return
        called = frame.f_code if event == "call" else argument
        try:
            name = codes.get(called)
        except TypeError:
            return
        if name is not None and _constructing(frame):
            found.add(name)

    def seeding(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        if _constructing(sys._getframe(1)):
            found.add("numpy")
        return function(*args, **keywords)

    watched = {name: partial(seeding, getattr(np.random, name)) for name in ("seed", "set_state")}
    with torch_sandbox(derive(stage.live.seed, 17), stage.live.dtype):
        former = sys.getprofile()
        sys.setprofile(watch)
        try:
            with standing_in(np.random, **watched):
                build()
        finally:
            sys.setprofile(former)
    return found


def _constructing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__init__":
            return True
        frame = frame.f_back
    return False


def inherited(stage: TorchScenarioObject, step: steps.Inherited) -> list[str]:
    """Paths of trained modules and tensors that belong to a class, found by identity in a newly
    built object: a copy would have its own.
    """
    build = stage.live.build
    if build is None:
        raise Unsupported("it is a part, and built with the whole")
    with torch_sandbox(derive(stage.live.seed, 17), stage.live.dtype):
        built = build()
    if not isinstance(built, torch.nn.Module):
        raise Unsupported("it is no module")
    found = []
    for path, module in built.named_modules():
        kept: dict[str, Any] = {**module._modules, **module._parameters}
        for where, value in class_level_values(type(module)):
            names = [name for name, own in kept.items() if own is value]
            found += [f"{path}.{name}".lstrip(".") + f" is {where}" for name in names]
    return found


def class_level_values(kind: type) -> list[tuple[str, Any]]:
    """(description, value) of class attributes and defaults, which all objects of a class share."""
    values: list[tuple[str, Any]] = []
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "torch":
            continue
        values += [
            (f"the attribute {name} of {base.__name__}", v) for name, v in vars(base).items()
        ]
        made = vars(base).get("__init__")
        for value in (
            *(getattr(made, "__defaults__", None) or ()),
            *(getattr(made, "__kwdefaults__", None) or {}).values(),
        ):
            values.append((f"a default of the constructor of {base.__name__}", value))
    return [(where, value) for where, value in values if _is_trainable(value)]


def _is_trainable(value: Any) -> bool:
    """Whether a value is trainable: constants may belong to a class."""
    if isinstance(value, torch.nn.Module):
        return any(parameter.requires_grad for parameter in value.parameters())
    return isinstance(value, torch.Tensor) and value.requires_grad


BUILDING: dict[type, Action] = {steps.Construct: construct, steps.Inherited: inherited}
