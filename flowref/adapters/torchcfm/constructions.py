"""Conditional flow matchers of torchcfm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

SIGMA = 0.3
# Left out: ExactOptimalTransportConditionalFlowMatcher, whose paths are those of ConditionalFlowMatcher.
MATCHERS = (
    "ConditionalFlowMatcher",
    "TargetConditionalFlowMatcher",
    "SchrodingerBridgeConditionalFlowMatcher",
    "VariancePreservingConditionalFlowMatcher",
)


def matcher(name: str) -> Callable[[], Any]:
    """Return a function that builds the class with sigma = `SIGMA`."""

    def make() -> Any:
        import torchcfm

        return getattr(torchcfm, name)(sigma=SIGMA)

    return make


def matchers() -> Constructions:
    """Return name -> (builder, event shape); events are times."""
    return {name: (matcher(name), (1,)) for name in MATCHERS}
