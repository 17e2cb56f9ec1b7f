"""Names of options of a spec that speak to flowref; all others go to the builder or factory."""

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
# Names a file of weights, and the part of an object that is meant; a user's factory may have words of its own
# under these names.
WEIGHTS, PART = "weights", "part"
# The argument that masks out the padding of sequences.
PADDED = "padded"
OURS = (*RESERVED, *CONVENTIONS, WEIGHTS, PART)
