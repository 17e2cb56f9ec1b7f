"""BoTorch: transforms of inputs, and of outcomes with variances, without log-dets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.botorch import constructions
from flowref.adapters.botorch.facts import describe, links
from flowref.adapters.common.object_components import components_of, lineage
from flowref.model import Adapter, Component, Dialect


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj(x), None


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return obj.untransform(y), None


def parts(obj: Any) -> Any:
    return list(obj.items())


def outcome_forward(obj: Any, x: Any, context: Any = None) -> Any:
    return obj(x)[0], None


def outcome_inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return obj.untransform(y)[0], None


INPUT = Dialect(forward=forward, inverse=inverse)
OUTCOME = Dialect(forward=outcome_forward, inverse=outcome_inverse)
INPUT_CHAIN, OUTCOME_CHAIN = replace(INPUT, parts=parts), replace(OUTCOME, parts=parts)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of an invertible transform, or None."""
    names = lineage(obj)
    chained = len(links(obj)) > 1
    if "OutcomeTransform" in names:
        return OUTCOME_CHAIN if chained else OUTCOME
    if all("ReversibleInputTransform" in lineage(one) for one in links(obj)):
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
