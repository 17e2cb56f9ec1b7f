"""Programs that reproduce a recorded violation without flowref, for a maintainer."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import TYPE_CHECKING

from flowref.model import FlowrefError, Verdict

if TYPE_CHECKING:
    from flowref.scripting.trial_run import Run

# The most lines of a program.
LONGEST = 40
# Framework -> the package that writes its programs.
ROOMS = {"torch": "flowref.scripting.torch", "jax": "flowref.scripting.jax"}


def script(verdict: Verdict, run: Run | None = None) -> str:
    """Return a Python program of 15 to 40 lines that needs the audited code, its framework and
    numpy: it exits with 1 as long as the law is violated.

    The simplest program is returned that shows the violation when it is run, with a number of the
    recorded size. ``run``: runs a program; by default in a process where flowref cannot be
    imported.

    Raises: `FlowrefError` in one sentence if there is no case, no other process can build the
    object, the law has no template, or no short program shows the violation.
    """
    from flowref import registry
    from flowref.loading.recipe import ON_THE_HOST, recipe_of
    from flowref.scripting.case import target_of
    from flowref.scripting.names import Unwritable
    from flowref.scripting.trial_run import run_standalone, shows

    replay = f"measure it with flowref replay {verdict.id}"
    target, law = target_of(verdict), registry.find_law(verdict.law)
    verdict, recipe = replace(verdict, law=law.id), recipe_of(target)
    if (wider := law.measured_on(target, recipe.facts.promises)) not in (None, target):
        target, recipe = wider, recipe_of(wider)
    framework = recipe.backend.name
    if framework not in ROOMS:
        raise FlowrefError(f"there are no programs for {framework}; {replay}")
    room = importlib.import_module(ROOMS[framework])
    if law.base not in room.TEMPLATES:
        raise FlowrefError(f"there is no short program for {law.id} in {framework}; {replay}")
    reason, long = "none that was tried shows it", 0
    for write, within in room.programs(verdict, law, target, recipe):
        try:
            lines = write()
        except Unwritable as error:
            reason = str(error)
            continue
        if len(lines) > LONGEST:
            long = min(long or len(lines), len(lines))
            continue
        text = "\n".join([*lines, ""])
        if shows((run or run_standalone)(text), verdict, within):
            return text
    if ON_THE_HOST in recipe.recognized.conventions:
        reason = "its code asks for a GPU, and programs call it as it is"
    elif long:
        reason = f"it would take {long} lines"
    raise FlowrefError(f"no short program shows {law.id} in {verdict.target} ({reason}); {replay}")
