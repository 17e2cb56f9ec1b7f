"""A call is taken apart into the maps that it is made of, and only where these and what lies between
them are the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import loading, registry
from flowref.backends.torch.stages import MapCall, stage_of
from flowref.laws.bijection.at_size import LogDetVisitor, NoStructuredLogDet, log_det_at_points
from flowref.laws.common.structure import StructuredLogDet
from flowref.model import Condition, draw_points
from flowref.model.abilities import Differentiable, Walked, offers

FEATURES = 6


class DifferentiableWalked(Walked, Differentiable):
    """A map that is taken apart, and whose Jacobian the framework gives."""


class Half(nn.Module):
    """The first half of the entries moves the other."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(FEATURES // 2, FEATURES // 2))

    def forward(self, x: Any, shift: Any = 0.0) -> tuple[Any, Any]:
        """Value and log-det."""
        kept, moved = x.chunk(2, -1)
        scale = (kept @ self.weight).tanh()
        return torch.cat([kept, moved * scale.exp() + kept], -1) + shift, scale.sum(-1)


class Stack(nn.Module):
    """Two couplings, and something between them."""

    event_shape = (FEATURES,)

    def __init__(self, between: str) -> None:
        super().__init__()
        self.between = between
        self.first, self.second = Half(), Half()
        mixing = torch.linalg.qr(torch.randn(FEATURES, FEATURES))[0]
        self.register_buffer("mixing", mixing)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        x, one = self.first(x)
        more = torch.zeros(())
        if self.between == "mixing":
            x = x @ self.mixing
        elif self.between == "scaling":
            x, more = 2.0 * x.flip(-1), torch.tensor(2.0, dtype=x.dtype).log() * FEATURES
        elif self.between == "detached":
            x = x.detach()
        x, two = self.second(x, 0.3 * x.roll(1, -1) if self.between == "argument" else 0.0)
        return x, one + two + more


class Listed(nn.Module):
    """A module that takes a list of one tensor, and returns a tuple of one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, xs: Any) -> tuple[Any, Any]:
        """Value and log-det."""
        value, ladj = self.inner(xs[0])
        return (value,), ladj


class StackOfLists(nn.Module):
    """Two of them, with the entries turned around between."""

    event_shape = (FEATURES,)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Listed(Half()), Listed(Half())

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        (x,), one = self.first([x])
        (x,), two = self.second([x.flip(-1)])
        return x, one + two


def told(target: Any, which: str, scale: float = 0.0) -> tuple[Any, Any, StructuredLogDet]:
    """The subject of a target, points, and what is told of one of its calls."""
    flow = loading.load(target, Condition(scale=scale))
    assert offers(flow, Walked)
    x = draw_points(flow.domain, (2, *flow.event_shape), np.random.default_rng(3))
    x = x if which == "forward" else flow.forward(x, None).value
    return flow, x, flow.walk(which, x, None, LogDetVisitor())


@pytest.mark.parametrize("between", ["", "scaling", "mixing", "argument"])
def test_what_lies_between_modules_is_a_part(between: str) -> None:
    """What lies between the modules may move, scale or mix entries, or an argument may carry them past the
    points: the log-det is right in any case.
    """
    flow, x, found = told(loading.snapshot(Stack(between)), "forward")
    truth = np.linalg.slogdet(flow.jacobian("forward", x, None))[1]
    assert np.allclose(found.log_det, truth, rtol=1e-10)


def test_modules_of_lists_are_parts() -> None:
    """Modules that are handed a list of one tensor, and hand one back, are parts like others."""
    flow, x, found = told(loading.snapshot(StackOfLists()), "forward")
    assert "coupling" in found.how
    assert "entry by entry" not in found.how
    truth = np.linalg.slogdet(flow.jacobian("forward", x, None))[1]
    assert np.allclose(found.log_det, truth, rtol=1e-10)


@pytest.mark.parametrize("which", ["forward", "inverse"])
@pytest.mark.parametrize(
    "spec",
    [
        "reference:RealNVP",
        "reference:Chain",
        "nflows:CompositeTransform",
        "normflows:GlowBlock",
        "zuko:RealNVP",
        "FrEIA:GLOWCouplingBlock",
    ],
)
def test_the_parts_of_a_flow_tell_its_log_det(spec: str, which: str) -> None:
    """The log-det that parts tell is that of the Jacobian taken whole, in either direction, with
    weights that were moved.
    """
    target = registry.parse_target(spec)
    flow, x, _ = told(target, which, 0.3)
    found = log_det_at_points(flow, which, x, None)
    truth = np.linalg.slogdet(flow.jacobian(which, x, None))[1]
    assert found.known.all()
    assert np.allclose(found.log_det, truth, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [[0], [0, 1]])
def test_each_point_keeps_its_context(rows: list[int]) -> None:
    """Where a visitor asks for the first points alone, and for all."""
    torch.manual_seed(5)
    half, x, context = Half().double(), torch.randn(2, FEATURES), torch.randn(2, FEATURES)
    x, context = x.double(), context.double()
    stage = stage_of(MapCall(half, context), x, 8)
    assert stage.value is not None
    expected = half(x, context)[0].detach().numpy()[rows]
    assert np.allclose(stage.value(x.numpy()[rows]), expected)


def test_a_walk_leaves_the_object_as_it_was() -> None:
    """Modules answer as before after a walk, and their parameters are trained."""
    flow, x, _ = told(loading.snapshot(Stack("")), "forward")
    before = flow.forward(x, None)
    flow.walk("forward", x, None, LogDetVisitor())
    assert (flow.forward(x + 0.0, None).value == before.value).all()
    assert flow.trainable


def test_a_cut_in_the_graph_is_no_part() -> None:
    """Where autograd does not lead from one module to the next, no log-det is told of them."""
    with pytest.raises(NoStructuredLogDet):
        told(loading.snapshot(Stack("detached")), "forward")
