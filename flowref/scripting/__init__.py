"""Stand-alone programs that show a recorded violation without flowref."""

from __future__ import annotations

from flowref.model import Verdict


def script(verdict: Verdict) -> str:
    """A Python program that measures a recorded case again; it needs the audited code, torch and
    numpy, and never flowref.

    Raises: `FlowrefError` in one sentence where there is no case, or none that another process can
    build.
    """
    from flowref.scripting.cases import case_of
    from flowref.scripting.writing import program

    return program(case_of(verdict))
