"""Option names reserved by flowref; all others go to the builder or factory."""

from __future__ import annotations

from flowref.model import CONVENTIONS

RESERVED = (
    "event",
    "latent",
    "domain",
    "codomain",
    "support",
    "squeeze",
    "context",
    "promises",
    "ladj",
    "kept",
    "perturb",
    "kind",
    "preprocessing",
    "dtype",
    "mutant",
    "override",
)
# A file of weights, and a part of an object; a user's factory may have parameters of these names.
WEIGHTS, PART = "weights", "part"
# The argument that masks padding.
PADDED = "padded"
OURS = (*RESERVED, *CONVENTIONS, WEIGHTS, PART)
