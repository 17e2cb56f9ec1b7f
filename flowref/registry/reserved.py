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
# Names a file of weights; a user's factory may have a word of its own under this name.
WEIGHTS = "weights"
OURS = (*RESERVED, *CONVENTIONS, WEIGHTS)
