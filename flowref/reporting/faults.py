"""Where in a user's source a violation is to be looked for."""

from __future__ import annotations

import re

from flowref.model import Method, Recognized, Verdict, base_of, named_by
from flowref.reporting.text import clean

# Globs of laws, the call that they are about, and whether what it runs last is at fault, as where a
# log-det is a method of its own.
CALLS = (
    ("*inverse-log-det*", "inverse", True),
    ("*log-det*", "forward", True),
    ("map/promised-jacobian[constant]", "forward", True),
    ("map/singular-jacobian", "forward", True),
    ("density/*", "log_prob", False),
    ("sampling/*", "sample", False),
    ("*inverse*", "inverse", False),
    ("*roundtrip", "inverse", False),
    ("composition/*", "forward", False),
    ("coupling/*", "forward", False),
    ("squeeze/*", "forward", False),
    ("conduct/*", "", False),
    ("continuous/*", "", False),
    ("contribution/*", "", False),
    ("sample-norm/*", "", False),
    ("state/*", "", False),
    ("*", "forward", False),
)
PART = re.compile(r"^part \d+ of \d+ \((.+)\)$")


def method_at_fault(verdict: Verdict, recognized: Recognized) -> Method | None:
    """The function that a violation is about, as far as it is known."""
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


def place(verdict: Verdict, recognized: Recognized | None) -> tuple[str, int]:
    """The file and the line of what is at fault, or of the target; "" and 0 where neither is known."""
    if recognized is None or not recognized.path:
        return "", 0
    method = method_at_fault(verdict, recognized)
    return (method.path, method.line) if method else (recognized.path, recognized.line)


def fault(verdict: Verdict, recognized: Recognized | None) -> str:
    """The same for a reader, with the name of the function: "flows.py:22 in log_abs_det_jacobian"."""
    path, line = place(verdict, recognized)
    method = method_at_fault(verdict, recognized) if recognized and path else None
    name = f" in {method.name}" if method else ""
    return clean(f"{path}:{line}{name}") if path else ""
