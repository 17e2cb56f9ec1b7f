"""The calls of a program, as functions that follow the object's calling convention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flowref.backends.jax.sandbox import jax_sandbox
from flowref.scripting.case import ReproductionCase
from flowref.scripting.inlined_calls import Inliner
from flowref.scripting.jax.jax_user_calls import user_call_source
from flowref.scripting.layout import unparsed
from flowref.scripting.names import Unwritable
from flowref.scripting.operands import Operand, variable_operand

# Call -> its parameter, after the object.
TAKES = {
    "forward": "x", "inverse": "z", "log_prob": "x", "score": "x", "base_log_prob": "z", "sample": "n", "base_sample": "n",
    "sample_log_prob": "n", "bits_per_dim": "x",
}  # fmt: skip


def calling(case: ReproductionCase, which: str, inliner: Inliner) -> list[str]:
    """Return the function of one call; one that samples also takes a key. Raises: `Unwritable` if
    there is no such call.
    """
    function, taken = getattr(case.dialect, which), TAKES[which]
    if function is None:
        raise Unwritable(f"it offers no {which}")
    if (lines := user_call_source(function, which, taken, case.context is not None)) is not None:
        return lines
    context = Operand(None)
    with jax_sandbox(0, case.condition.dtype):
        if case.context is not None:
            context = variable_operand("context", jnp.asarray(case.context, case.condition.dtype))
        # With an example, conditions on returned values are decided as in the audit.
        for argument in (_example_argument(case, which), None):
            given = {"obj": variable_operand("flow", case.obj), "taken": _operand(taken, argument)}
            given["context"] = context
            drawing = taken == "n"
            if drawing:
                given["key"] = _operand("key", None if argument is None else jax.random.key(0))
            parameters = f"{taken}, key" if drawing else taken
            names = inliner.names.within({"flow", "context", taken, "key"})
            inner = Inliner(names, perform=argument is not None)
            try:
                definition = inner.define(function, which, given, parameters)
            except Exception:
                if argument is None:
                    raise
                continue
            return unparsed([*inner.definitions, definition])
    return []


def _operand(name: str, value: Any) -> Operand:
    return variable_operand(name) if value is None else variable_operand(name, value)


def _example_argument(case: ReproductionCase, which: str) -> Any:
    """An argument for a trial call; None if there is none."""
    if TAKES[which] == "n":
        return 2
    x = jnp.asarray(case.x, case.condition.dtype)
    if TAKES[which] != "z" or case.dialect.forward is None:
        return x
    context = None if case.context is None else jnp.asarray(case.context, x.dtype)
    try:
        return case.dialect.forward(case.obj, x, context)[0]
    except Exception:  # the program will show what forward raises
        return None
