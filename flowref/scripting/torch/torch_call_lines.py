"""The calls of a program, as functions that follow the object's calling convention."""

from __future__ import annotations

from typing import Any

import torch

from flowref.backends.torch.live import DTYPES
from flowref.backends.torch.sandbox import torch_sandbox
from flowref.backends.torch.state import duplicate
from flowref.scripting.case import ReproductionCase
from flowref.scripting.inlined_calls import Inliner
from flowref.scripting.layout import unparsed
from flowref.scripting.names import Unwritable
from flowref.scripting.operands import Operand, variable_operand

# Call -> its parameter, after the object.
TAKES = {
    "forward": "x", "inverse": "z", "push": "x", "log_prob": "x", "base_log_prob": "z", "sample": "n", "base_sample": "n",
    "rsample": "n", "sample_log_prob": "n", "cdf": "x", "icdf": "u", "bits_per_dim": "x", "loss": "x", "score": "x", "bound": "x",
}  # fmt: skip
WITHOUT_CONTEXT = ("cdf", "icdf")


def calling(
    case: ReproductionCase, which: str, inliner: Inliner, several: bool = False
) -> list[str]:
    """Return the function of one call. ``several``: it is also called with other contexts. Raises:
    `Unwritable` if there is no such call.
    """
    function, taken = getattr(case.dialect, which), TAKES[which]
    if function is None:
        raise Unwritable(f"it offers no {which}")
    context = Operand(None)
    if case.context is not None:
        context = variable_operand(
            "context", torch.from_numpy(case.context).to(DTYPES[case.condition.dtype])
        )
    # With an example, conditions on returned values are decided as in the audit.
    for argument in (_example_argument(case, which), None):
        given = {"obj": variable_operand("flow", _copy(case)), "taken": _operand(taken, argument)}
        if which not in WITHOUT_CONTEXT:
            given["context"] = context
        parameters = f"{taken}, context=context" if several and case.context is not None else taken
        names = inliner.names.within({"flow", "context", taken})
        inner = Inliner(names, perform=argument is not None)
        try:
            with torch_sandbox(0, DTYPES[case.condition.dtype]):
                definition = inner.define(function, which, given, parameters)
        except Exception:
            if argument is None:
                raise
            continue
        lines = unparsed([*inner.definitions, definition])
        return (
            lines
            if case.facts.promises.get("ladj") != "inverse"
            else _opposite_log_det_lines(lines, which)
        )
    return []


def _operand(name: str, value: Any) -> Operand:
    return variable_operand(name) if value is None else variable_operand(name, value)


def _copy(case: ReproductionCase) -> Any:
    try:
        return duplicate(case.obj)
    except Exception:
        return case.obj


def _example_argument(case: ReproductionCase, which: str) -> Any:
    """An argument for a trial call; None if there is none."""
    if TAKES[which] == "n":
        return 2
    x = torch.from_numpy(case.x).to(DTYPES[case.condition.dtype])
    if TAKES[which] != "z" or case.dialect.forward is None:
        return x
    try:
        with torch_sandbox(0, DTYPES[case.condition.dtype]), torch.no_grad():
            context = None if case.context is None else torch.from_numpy(case.context).to(x.dtype)
            return case.dialect.forward(_copy(case), x, context)[0].detach()
    except Exception:  # the program will show what forward raises
        return None


def example(case: ReproductionCase, which: str, all_rows: bool = False) -> Any:
    """Return the result of a call for the first recorded point, or for all; None if it raises or
    does not exist.
    """
    function, dtype = getattr(case.dialect, which), DTYPES[case.condition.dtype]
    argument = _example_argument(case, which)
    if function is None or argument is None:
        return None
    rows = slice(None) if all_rows else slice(1)
    context = None if case.context is None else torch.from_numpy(case.context[rows]).to(dtype)
    try:
        with torch_sandbox(0, dtype):
            return function(_copy(case), argument[rows], context)
    except Exception:  # the program will show what it raises
        return None


def _opposite_log_det_lines(lines: list[str], which: str) -> list[str]:
    """The function of a map that is declared to return the log-det of its opposite."""
    if which not in ("forward", "inverse"):
        return lines
    value = lines[-1].removeprefix("    return ")
    return [
        *lines[:-1],
        f"    value, opposite = {value}",
        "    return value, -opposite  # it is declared to be that of the opposite map",
    ]
