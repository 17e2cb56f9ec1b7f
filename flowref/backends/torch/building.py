"""What building an object does to the process: settings that stay changed, and generators that a
constructor seeds.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.sandbox import GENERATORS, random_state, sandbox, settings
from flowref.backends.torch.scenario import Action, Stage
from flowref.model import Unsupported, derive, steps

# What seeds each of `GENERATORS`: functions of Python by their code, built-in ones by themselves.
SEEDING = {
    "torch": (torch.manual_seed, torch.random.manual_seed, torch.seed, torch.random.seed),
    "numpy": (np.random.seed, np.random.set_state),
    "random": (random.seed, random.setstate),
}


def construct(stage: Stage, step: steps.Construct) -> steps.Construction:
    """Build twice from other random states: a generator that ends in the same one was seeded."""
    build = stage.live.build
    if build is None:
        raise Unsupported("it is a part, and built with the whole")
    changed: tuple[str, ...] = ()
    ends = []
    for seed in (17, 23):
        with sandbox(derive(stage.live.seed, seed), stage.live.dtype):
            began, before = random_state(), settings()
            build()
            after = settings()
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


def constructors(stage: Stage, build: Callable[[], Any]) -> set[str]:
    """The generators that are seeded by a constructor: a factory that seeds is how its author runs
    an experiment, and an object that seeds does so to everybody who makes one.
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
        if name is None:
            return
        above: FrameType | None = frame
        while above is not None:
            if above.f_code.co_name == "__init__":
                found.add(name)
                return
            above = above.f_back

    with sandbox(derive(stage.live.seed, 17), stage.live.dtype):
        former = sys.getprofile()
        sys.setprofile(watch)
        try:
            build()
        finally:
            sys.setprofile(former)
    return found


BUILDING: dict[type, Action] = {steps.Construct: construct}
