"""Why a law was not applied to a subject."""

from __future__ import annotations

from dataclasses import dataclass

# For an object with arrays that may be parameters but are not listed as such.
UNMOVED = "its arrays are not moved, since they are not known to be parameters"


@dataclass(frozen=True)
class NotJudged:
    """Why a law was not applied.

    ``blocked``: the law is applicable, but untested, since something is missing or unknown; False if the
    subject is of another kind (no squeeze, no density; a contract that is not promised). ``remedy``: what a
    user can declare so that the law is tested; empty if nothing helps.
    """

    reason: str
    blocked: bool = False
    remedy: str = ""
