"""No planted defect is proved away: what is proved for all inputs and weights is not violated."""

from __future__ import annotations

import contextlib

import pytest

from flowref import checking, registry
from flowref.checking import Settings
from flowref.model import PROVED_WHOLE, Status, TargetError
from flowref.proving import certified, clause, provable

# Defects of specimens, by the module of the specimen, with the statements that one of them is to violate.
DEFECTS: dict[str, list[tuple[str, str]]] = {}
for specimen, defects in registry.specimens().items():
    for spec, laws in defects.items():
        DEFECTS.setdefault(specimen.partition(":")[0].rpartition(".")[2], []).extend(
            (spec, law) for law in laws if provable(registry.find_law(law))
        )
MODULES = sorted(module for module, pairs in DEFECTS.items() if pairs)


@pytest.mark.parametrize(
    "module",
    [pytest.param(one, marks=pytest.mark.deep) if at else one for at, one in enumerate(MODULES)],
)
def test_what_is_violated_is_not_proved(module: str) -> None:
    """Nor is what is proved under conditions told without them."""
    for spec, law in DEFECTS[module]:
        with contextlib.suppress(TargetError):  # a map that is none is refused
            if clause(registry.parse_target(spec), registry.find_law(law)) == PROVED_WHOLE:
                status = checking.pair_verdict(spec, law, Settings("quick")).status
                assert status is not Status.VIOLATED, (spec, law)


HEALTHY: dict[str, list[str]] = {}
for twin in registry.specimens():
    HEALTHY.setdefault(twin.partition(":")[0].rpartition(".")[2], []).append(twin)


@pytest.mark.parametrize(
    "module",
    [pytest.param(one, marks=pytest.mark.deep) if at else one for at, one in enumerate(HEALTHY)],
)
def test_no_healthy_flow_is_refuted(module: str) -> None:
    """On no box is the log-det of a healthy specimen told to be wrong."""
    law = registry.find_law("map/log-det")
    for spec in HEALTHY[module]:
        with contextlib.suppress(TargetError):  # a map that is none is refused
            (claim,) = certified(registry.parse_target(spec), [law])
            assert claim.refutation is None, claim.text()
