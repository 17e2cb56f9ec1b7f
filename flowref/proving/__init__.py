"""Proofs of statements for all inputs and all weights, as identities of traced computations."""

from flowref.proving.certificates import Certificate
from flowref.proving.patches import patch
from flowref.proving.prover import certified, clause, repairs_of
from flowref.proving.sameness import compare_targets
from flowref.proving.statements import STATEMENTS, provable

__all__ = [
    "STATEMENTS",
    "Certificate",
    "certified",
    "clause",
    "compare_targets",
    "patch",
    "provable",
    "repairs_of",
]
