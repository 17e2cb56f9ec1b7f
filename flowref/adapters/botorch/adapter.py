"""BoTorch: transforms of inputs, and of outcomes, whose variances take the place of log-dets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.botorch import calls, constructions
from flowref.adapters.botorch.facts import describe, is_reversible, links
from flowref.adapters.common.object_components import components_of, lineage
from flowref.model import Adapter, Component, Dialect

INPUT = Dialect(forward=calls.forward, inverse=calls.inverse)
OUTCOME = Dialect(forward=calls.outcome_forward, inverse=calls.outcome_inverse)
INPUT_CHAIN, OUTCOME_CHAIN = (
    replace(INPUT, parts=calls.parts),
    replace(OUTCOME, parts=calls.parts),
)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of an invertible transform, or None."""
    names = lineage(obj)
    chained = len(links(obj)) > 1
    if "OutcomeTransform" in names:
        return OUTCOME_CHAIN if chained else OUTCOME
    if all(is_reversible(one) for one in links(obj)):
        return INPUT_CHAIN if chained else INPUT
    return None


def components() -> Mapping[str, Component]:
    """Transforms as in a fitted model."""
    return {
        **components_of(constructions.inputs(), _of_input, describe),
        **components_of(constructions.outcomes(), _of_outcome, describe),
    }


def _of_input(name: str) -> Dialect:
    return INPUT_CHAIN if name.startswith("Chained") else INPUT


def _of_outcome(name: str) -> Dialect:
    return OUTCOME_CHAIN if name.startswith("Chained") else OUTCOME


ADAPTER = Adapter(
    name="botorch",
    package="botorch",
    title="BoTorch",
    components=components,
    recognizes=recognizes,
    describe=describe,
    extra="apps",
    healthy=lambda: ("Normalize", "Standardize", "Warp"),
)
