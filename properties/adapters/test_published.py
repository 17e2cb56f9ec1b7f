"""Models of published size: named apart, built as their sources say, and recognized as what they are."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch

from flowref import checking, registry
from flowref.adapters.common import published_models
from flowref.model import PUBLISHED, SpecError, Status, Target
from rows import one_of_each

MODELS = registry.expand("published")
# Its levels have latents of several shapes, which flowref flattens for its own construction alone.
UNRECOGNIZED = "normflows:published.glow-cifar10"


def library_and_kind(target: Target) -> tuple[str, str]:
    """The library and the first word of the model: the same on other data differs in its sizes."""
    return target.adapter, target.component.partition("-")[0]


def built(target: Target) -> Any:
    """The object."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return registry.find_component(target).build()


def parameters(obj: Any) -> int:
    """The number of its parameters."""
    return sum(one.numel() for one in obj.parameters())


def test_published_models_are_named_one_by_one_or_by_that_word() -> None:
    """They are no construction of their libraries, so that the audit of all libraries has none of
    them; a glob that begins as their names do finds those of a library.
    """
    assert {target.adapter for target in MODELS} >= {"nflows", "zuko", "normflows", "FrEIA"}
    for target in MODELS:
        assert target.component.startswith(PUBLISHED)
        assert target not in registry.expand(target.adapter)
        assert target in registry.expand(f"{target.adapter}:{PUBLISHED}*")
        assert registry.expand(str(target)) == [target]


def test_a_model_that_is_none_is_refused_with_the_nearest() -> None:
    """The refusal names the nearest model and the way to audit all of them."""
    with pytest.raises(
        SpecError, match=r"no model 'published\.maf-mnits'.*maf-mnist.*published\.\*"
    ):
        registry.expand("zuko:published.maf-mnits")


@pytest.mark.parametrize(
    "target",
    one_of_each([one for one in MODELS if str(one) != UNRECOGNIZED], library_and_kind),
    ids=str,
)
def test_a_published_model_is_recognized_as_what_it_is(target: Target) -> None:
    """It is built, it names its source, its events have the shape that is told, and it is called as
    the same object of a user's would be.
    """
    component = registry.find_component(target)
    obj = built(target)
    assert registry.adapters()[target.adapter].recognizes(obj) == component.dialect
    assert component.source
    facts = component.facts
    assert callable(facts)
    shape = facts().event_shape
    wanted = {"mnist": (784,), "cifar10": (3, 32, 32), "2d": (2,)}
    data = target.component.removesuffix("-density").rpartition("-")[2]
    features = {name: (one.features,) for name, one in published_models.COUPLED_SPLINES.items()}
    assert shape == {**features, **wanted}[data]


def dense(features: int, hidden: int, outputs: int) -> int:
    """Of a network with two hidden layers."""
    return (features + 1) * hidden + (hidden + 1) * hidden + (hidden + 1) * outputs


def masked_flow(data: str) -> int:
    """Of a masked autoregressive flow: a shift and a log-scale of each feature."""
    size = published_models.DENSE[data]
    return size.steps * dense(size.features, size.hidden, 2 * size.features)


def residual_net(inputs: int, hidden: int, blocks: int, outputs: int) -> int:
    """Of a network whose blocks have two layers each."""
    within = 2 * blocks * (hidden + 1) * hidden
    return (inputs + 1) * hidden + within + (hidden + 1) * outputs


def coupled_splines(data: str) -> int:
    """Of a spline flow of couplings, which transform the features that they keep by splines of
    their own, with triangular linear layers before, between and after them.
    """
    size = published_models.COUPLED_SPLINES[data]
    per_feature = 3 * size.bins - 1
    total = (size.steps + 1) * (size.features**2 + size.features)
    for index in range(size.steps):
        moved = (size.features + (index + 1) % 2) // 2
        kept = size.features - moved
        total += kept * per_feature
        total += residual_net(kept, size.hidden, size.blocks, moved * per_feature)
    return total


def glow() -> int:
    """Of Glow: an activation norm, a 1x1 convolution and a coupling of three convolutions a step.

    A 1x1 convolution is two triangles, which take all of two squares here, and a diagonal.
    """
    levels, steps, hidden = published_models.GLOW_SIZE
    total, channels = 0, published_models.CIFAR[0]
    for _ in range(levels):
        channels *= 4
        first = 9 * (channels // 2) * hidden + hidden
        second = hidden * hidden + hidden
        last = 9 * hidden * channels + channels
        total += steps * (first + second + last + 2 * channels + 2 * channels**2 + channels)
        channels //= 2
    return total + 2 * math.prod(published_models.CIFAR)


NUMBERS = {
    **{f"zuko:published.maf-{data}": masked_flow(data) for data in published_models.DENSE},
    **{
        f"nflows:published.maf-{data}": masked_flow(data) + 2 * size.steps * size.features
        for data, size in published_models.DENSE.items()
    },
    **{
        f"nflows:published.nsf-c-{data}": coupled_splines(data)
        for data in published_models.COUPLED_SPLINES
    },
    "normflows:published.glow-cifar10": glow(),
}


@pytest.mark.parametrize("spec", NUMBERS)
def test_a_published_model_has_as_many_parameters_as_its_source_implies(spec: str) -> None:
    """Layers, widths, bins and levels are those of the source: the parameters that they take, counted
    by hand, are those of the object.
    """
    obj = built(registry.parse_target(spec))
    assert parameters(obj) == NUMBERS[spec]


def test_glow_has_the_published_number_of_parameters() -> None:
    """About 44 million, as comparisons with it state."""
    assert glow() / 44.2e6 == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    "law", ["map/inverse[latents]", "map/inverse", "map/one-to-one[orientation]"]
)
def test_an_integrated_flow_is_not_held_to_more_than_its_solver_does(law: str) -> None:
    """torchflows integrates by one step of a method of fourth order: its round trips are off by what
    such a step is, and moved parameters are none of its own.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (
            checking.pair_verdict("torchflows:published.ffjord-2d", law).status
            is not Status.VIOLATED
        )
