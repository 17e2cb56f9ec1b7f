"""Adapters of packages of scientists on torch: what they state of objects, the bugs that are known in these, and
their correct neighbours.
"""

from __future__ import annotations

import importlib.util
import warnings

import pytest
import torch

from flowref import checking, registry
from flowref.model import Component, Facts, Law, Status

PACKAGES = ("sbi", "gpytorch", "botorch", "nessai")
INSTALLED = [name for name in PACKAGES if importlib.util.find_spec(name)]
if not INSTALLED:
    pytest.skip("they are checked where they are installed", allow_module_level=True)
SAMPLES = "density/change-of-variables[samples]"
# A construction, a law, and what it says: of each bug beside something alike that has none.
KNOWN = [
    ("sbi:maf", SAMPLES, Status.VIOLATED),
    ("sbi:zuko_maf", SAMPLES, Status.HOLDS),
    ("sbi:maf", "shape/one-number-per-point[log-prob]", Status.HOLDS),
    ("sbi:made", "sampling/follows-density[balance]", Status.VIOLATED),
    ("sbi:maf", "sampling/follows-density[balance]", Status.HOLDS),
    ("sbi:mdn", "sampling/follows-density[balance]", Status.VIOLATED),
    ("gpytorch:HorseshoePrior", "density/mass", Status.VIOLATED),
    ("gpytorch:HalfCauchyPrior", "density/mass", Status.HOLDS),
    ("gpytorch:LogNormalPrior", "dtype/follows[device]", Status.VIOLATED),
    ("gpytorch:NormalPrior", "dtype/follows[device]", Status.HOLDS),
    ("botorch:InputStandardize", "state/degenerate-batch", Status.VIOLATED),
    ("botorch:Standardize", "state/degenerate-batch", Status.HOLDS),
    ("botorch:InputStandardize", "effects/graphs", Status.HOLDS),
    ("botorch:InputStandardize", "effects/graphs[one-call]", Status.ADVICE),
    ("botorch:Warp", "map/inverse", Status.HOLDS),
    ("nessai:RealNVP", "same/saved[restore]", Status.VIOLATED),
    ("nessai:RealNVP", "map/log-det", Status.HOLDS),
]


def built(component: Component) -> object:
    """What a construction builds, from one seed."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        made: object = component.build()
    return made


@pytest.mark.parametrize("library", INSTALLED)
def test_a_construction_is_recognized_as_what_it_is(library: str) -> None:
    """Whether named in a spec or handed over as an object, the same object is called the same way, and its facts
    are those of its adapter.
    """
    adapter = registry.adapters()[library]
    for component in registry.components(library).values():
        made = built(component)
        assert adapter.recognizes(made) == component.dialect
        assert not isinstance(component.facts, Facts)
        stated = component.facts()
        assert adapter.describe(made, stated.event_shape).event_shape == stated.event_shape


@pytest.mark.parametrize(
    ("spec", "law", "status"), [row for row in KNOWN if row[0].partition(":")[0] in INSTALLED]
)
def test_what_is_known_is_found(spec: str, law: str, status: Status) -> None:
    """The law of a known bug is violated by what has it, and holds of what is alike and has none."""
    found: Law = registry.find_law(law)
    verdict = checking.pair_verdict(
        registry.parse_target(spec), found, checking.Settings("quick"), written=False
    )
    assert verdict.status is status


@pytest.mark.skipif("sbi" not in INSTALLED, reason="sbi is not installed")
@pytest.mark.parametrize("name", ["zuko_nsf[bounded]", "mdn[bounded]"])
def test_a_bounded_prior_is_the_support(name: str) -> None:
    """Each parameter lies between the ends of its own prior."""
    component = registry.components("sbi")[name]
    assert not isinstance(component.facts, Facts)
    intervals = component.facts().domain.coordinates
    assert [(one.low, one.high) for one in intervals] == [(-1, 1), (0, 4), (2, 3)]
