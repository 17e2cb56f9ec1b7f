"""The location of a violation in the user's source."""

from __future__ import annotations

import re

from flowref.model import Method, Recognized, Verdict, base_of, named_by
from flowref.reporting.text import clean

# (glob of laws, call, whether the last method of the call is at fault, as for a separate log-det method).
# The first match decides.
CALLS = (
    ("map/calls-work", "", False),
    ("map/finite-far-out[extremes]", "", False),
    ("map/finite-far-out[outside]", "", False),
    ("map/log-det*[inverse*]", "inverse", True),
    ("density/change-of-variables[levels]", "forward", True),
    ("*log-det*", "forward", True),
    ("map/promised-jacobian[constant]", "forward", True),
    ("map/singular-jacobian", "forward", True),
    ("map/finite[wide]", "forward", True),
    ("shape/one-number-per-point[one-feature]", "forward", True),
    ("density/stated[sample-moments]", "sample", False),
    ("density/score", "score", False),
    ("sampling/follows-density[estimate]", "log_prob", False),
    ("sampling/follows-density[ratios]", "log_prob", False),
    ("sampling/follows-bound", "log_prob", False),
    ("density/*", "log_prob", False),
    ("*[bound]", "log_prob", False),
    ("*[log-prob]", "log_prob", False),
    ("same/manner[expanded]", "log_prob", False),
    ("sampling/*", "sample", False),
    ("gradient/of-samples[]", "sample", False),
    ("*[samples]", "sample", False),
    ("random/rows-independent[]", "sample", False),
    ("random/rows-independent[duplicates]", "sample", False),
    ("*inverse*", "inverse", False),
    ("batch-norm/*", "forward", False),
    ("composition/*", "forward", False),
    ("coupling/*", "forward", False),
    ("dequantize/*", "forward", False),
    ("map/*", "forward", False),
    ("mode/*", "forward", False),
    ("multi-scale/*", "forward", False),
    ("same/rows", "forward", False),
    ("same/rows-in-train", "forward", False),
    ("same/train-mode", "forward", False),
    ("squeeze/*", "forward", False),
)
PART = re.compile(r"^part \d+ of \d+ \((.+)\)$")


def method_at_fault(verdict: Verdict, recognized: Recognized) -> Method | None:
    """Return the function that a violation is about; None if it is unknown."""
    law = base_of(verdict.law)
    call, last = next(
        ((call, last) for glob, call, last in CALLS if named_by(glob, law)), ("", False)
    )
    case = verdict.counterexample
    around = case is not None and case.condition.direction == "inverse"
    if call == "forward" and (around or "of inverse" in verdict.diagnosis):
        call = "inverse"
    part = PART.match(verdict.part)
    for owner in (part[1], "") if part else ("",):
        if found := [one for one in recognized.methods if (one.call, one.owner) == (call, owner)]:
            return found[-1 if last else 0]
    return None


def fault_location(verdict: Verdict, recognized: Recognized | None) -> tuple[str, int]:
    """Return file and line of the function at fault, or of the target; ``("", 0)`` if unknown."""
    if recognized is None or not recognized.path:
        return "", 0
    method = method_at_fault(verdict, recognized)
    return (method.path, method.line) if method else (recognized.path, recognized.line)


def fault(verdict: Verdict, recognized: Recognized | None) -> str:
    """The same as text, with the function's name: "flows.py:22 (def log_abs_det_jacobian)"."""
    path, line = fault_location(verdict, recognized)
    method = method_at_fault(verdict, recognized) if recognized and path else None
    name = f" (def {method.name})" if method else ""
    return clean(f"{path}:{line}{name}") if path else ""
