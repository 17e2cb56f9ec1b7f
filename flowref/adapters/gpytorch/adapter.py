"""GPyTorch: priors, which are both torch distributions and modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common import torch_dialects
from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.common.torch_transforms import distribution_facts
from flowref.adapters.gpytorch import constructions
from flowref.model import Adapter, Component, Dialect

PRIOR = replace(
    torch_dialects.DENSITY,
    expanded=torch_dialects.expanded,
    stated=torch_dialects.distribution_moments,
)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a prior, or None."""
    return PRIOR if "Prior" in lineage(obj) else None


def components() -> Mapping[str, Component]:
    """The priors of numbers and of vectors."""
    return components_of(constructions.priors(), PRIOR, distribution_facts)


ADAPTER = Adapter(
    name="gpytorch",
    package="gpytorch",
    title="GPyTorch",
    components=components,
    recognizes=recognizes,
    describe=distribution_facts,
    extra="apps",
    healthy=lambda: ("NormalPrior", "GammaPrior", "HalfCauchyPrior"),
)
