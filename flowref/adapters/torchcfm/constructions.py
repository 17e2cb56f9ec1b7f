"""Conditional flow matchers of torchcfm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

SIGMA = 0.3
# Left out: the matcher of exact optimal transport, which pairs other points and has the same path.
MATCHERS = (
    "ConditionalFlowMatcher",
    "TargetConditionalFlowMatcher",
    "SchrodingerBridgeConditionalFlowMatcher",
    "VariancePreservingConditionalFlowMatcher",
)


def matcher(name: str) -> Callable[[], Any]:
    """A builder of a matcher."""

    def make() -> Any:
        import torchcfm

        return getattr(torchcfm, name)(sigma=SIGMA)

    return make


def matchers() -> Constructions:
    """Name -> builder and the shape of an event, a time."""
    return {name: (matcher(name), (1,)) for name in MATCHERS}
