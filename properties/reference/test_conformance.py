"""The reference held to the laws by its own plugin, as a project holds a flow of its own to them."""

from __future__ import annotations

import flowref
from flowref.pytest import Pair

# One of each kind; all of them are audited by `flowref audit 'reference:*'`.
CONSTRUCTIONS = [
    "reference:BatchNorm",
    "reference:InvertibleBatchNorm",
    "reference:AffineCoupling[halves]",
    "reference:Squeeze[real_nvp]",
    "reference:Flow[VectorRealNVP]",
    "reference:Dequantize",
]


@flowref.pytest.conformance(CONSTRUCTIONS, profile="quick")
def test_the_reference_conforms(pair: Pair) -> None:
    """No law is violated."""
    pair.check()
