"""Why a law says nothing about a subject, and of which kind this silence is."""

from __future__ import annotations

from dataclasses import dataclass

# Of an object whose arrays may be parameters, which nothing tells.
UNMOVED = "its arrays are not moved, since nothing shows that they are parameters"


@dataclass(frozen=True)
class Silence:
    """Why a law says nothing.

    ``waits``: the law is about such subjects and was not put to the test, since something is
    missing or unknown; False where the subject plainly is nothing that the law is about (no squeeze,
    no density; a contract that is not promised). ``remedy``: what a user can say so that the law
    speaks; empty where nothing helps.
    """

    reason: str
    waits: bool = False
    remedy: str = ""
