"""What is seen around calls of torch objects: parameters that are not registered, tensors that are given
again, what a constructor seeds, and what a call leaves behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref.backends import Blueprint
from flowref.backends.torch.present import present
from flowref.backends.torch.unregistered_parameters import unregistered
from flowref.model import Condition, Dialect, Facts, Subject, Unsupported
from flowref.model.steps import Construct, Eval, Learn, Modes, Nudge, Overwrite, Run, Train, Weights

X = np.array([[0.5, -1.0], [2.0, 0.25]])


class Map(nn.Module):
    """A scaling, with a change to its behavior."""

    def __init__(self, change: Callable[[Map, Any], Any] | None = None) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.change = change

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The scaling; what the change returns takes the place of its value."""
        value = x * self.scale
        if self.change is not None:
            other = self.change(self, x)
            value = value if other is None else other
        return value, torch.log(self.scale.abs()).sum().expand(len(x))


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    """How the map is called."""
    return obj(x)


def subject(build: Callable[[], Any]) -> Subject:
    """The subject of what is built."""
    made_of = Blueprint("m", build, Dialect(forward=forward), Facts((2,)))
    return present(made_of, Condition(history="fresh"))


def played(build: Callable[[], Any], steps: Sequence[Any]) -> Any:
    """A life of what is built."""
    flow = subject(build)
    assert flow.play is not None
    return flow.play(steps)


class Holder(nn.Module):
    """A module that holds a layer in one of many ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        layer: Any = nn.Linear(2, 2, bias=False)
        self.kept: Any = {
            "registered": layer,
            "list": [layer],
            "dictionary": {"a": (layer,)},
            "closure": lambda x: layer(x),
            "method": Bound(layer).call,
            "default": eval("lambda x, net=None: net(x)"),
            "tensor": torch.ones(2, requires_grad=True),
            "plain tensor": torch.ones(2),
        }[way]
        if way == "default":
            self.kept.__defaults__ = (layer,)


class Bound:
    """An object with a method."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def call(self, x: Any) -> Any:
        """The layer."""
        return self.layer(x)


@pytest.mark.parametrize(
    ("way", "path"),
    [
        ("registered", None),
        ("plain tensor", None),
        ("list", "kept[0].weight"),
        ("dictionary", "kept['a'][0].weight"),
        ("closure", "kept<layer>.weight"),
        ("method", "kept.__self__.layer.weight"),
        ("default", "kept<default>.weight"),
        ("tensor", "kept"),
    ],
)
def test_a_leaf_that_is_no_parameter_is_found_wherever_it_is_kept(
    way: str, path: str | None
) -> None:
    """What requires a gradient and is not among parameters() is named by how it is reached."""
    assert list(unregistered(Holder(way))) == ([] if path is None else [path])


def test_a_parameter_reached_by_another_way_too_is_registered() -> None:
    """A view of a parameter, and a list of registered layers, hide nothing."""
    module = Holder("registered")
    views: Any = [module.kept, module.kept.weight.view(-1)]
    module.again = views
    assert unregistered(module) == {}


def test_held_runs_are_given_the_same_tensor_until_it_is_overwritten() -> None:
    """The tensor is one object in all held runs, and takes new values in place; others are new."""
    seen: list[Any] = []

    def keep(module: Map, x: Any) -> None:
        seen.append((x, x.clone()))

    steps = [Run("forward", X, held=True), Run("forward", X, held=True)]
    played(
        lambda: Map(keep),
        [*steps, Overwrite(X, 2 * X), Run("forward", X, held=True), Run("forward", X)],
    )
    (first, _), (again, _), (third, values), (other, _) = seen
    assert first is again
    assert first is third
    assert other is not first
    assert np.array_equal(values.numpy(), 2 * X)


def test_a_documented_cache_is_not_given_the_same_tensor() -> None:
    """Transforms of torch.distributions with a cache say so, and are left alone."""
    cached = torch.distributions.ExpTransform(cache_size=1)
    with pytest.raises(Unsupported, match="keeps its last result"):
        played(lambda: cached, [Run("forward", X, held=True)])


def test_runs_start_in_the_random_state_that_they_name() -> None:
    """The same number is the same state, wherever a run stands; without one each has its own."""

    def noisy(module: Map, x: Any) -> Any:
        return x + torch.randn_like(x)

    runs = [
        Run("forward", X, draws=1),
        Run("forward", X),
        Run("forward", X),
        Run("forward", X, draws=1),
    ]
    first, own, another, again = (out.value for out in played(lambda: Map(noisy), runs))
    assert np.array_equal(first, again)
    assert not np.array_equal(own, another)


def test_modes_and_weights_are_told_by_name() -> None:
    """Every module's flag, and every parameter that is trained."""
    _, training, _, evaluating, before, _, after = played(
        Map, [Train(), Modes(), Eval(), Modes(), Weights(), Nudge(0, 1.0), Weights()]
    )
    assert (training, evaluating) == ({"": True}, {"": False})
    assert list(before) == ["scale"]
    assert not np.array_equal(before["scale"], after["scale"])


class Seeding(Map):
    """A map whose constructor seeds."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__()


class Forking(Map):
    """A map whose constructor seeds, and puts the state back."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)


def seeded() -> nn.Module:
    """A factory that seeds, as an experiment does."""
    torch.manual_seed(0)
    return Map()


def setting() -> nn.Module:
    """A factory that sets the default dtype."""
    torch.set_default_dtype(torch.float16)
    return Map()


@pytest.mark.parametrize(
    ("build", "changed", "generators"),
    [
        (Map, (), ()),
        (Seeding, (), ("torch",)),
        (Forking, (), ()),
        (seeded, (), ()),
        (setting, ("torch default dtype",), ()),
    ],
)
def test_construction_tells_constructors_that_seed_from_factories(
    build: Callable[[], Any], changed: tuple[str, ...], generators: tuple[str, ...]
) -> None:
    """Settings that stay changed are named; a seed counts where a constructor sets it for good."""
    (built,) = played(build, [Construct()])
    assert (built.globals, built.seeded) == (changed, generators)
    assert torch.get_default_dtype() is torch.float32


def require(module: Map, x: Any) -> None:
    """Make the input require a gradient."""
    x.requires_grad_(True)


def backward(module: Map, x: Any) -> None:
    """Leave a gradient on the parameter."""
    (module.scale.sum() * 2).backward()


def filtering(module: Map, x: Any) -> None:
    """Silence warnings for everybody."""
    warnings.simplefilter("ignore")


def warning(module: Map, x: Any) -> None:
    """Warn."""
    warnings.warn("take care", stacklevel=1)


def printing(module: Map, x: Any) -> None:
    """Print in train mode."""
    if module.training:
        print("loss")


@pytest.mark.parametrize(
    ("change", "field", "seen", "in_training"),
    [
        (None, "globals", (), ()),
        (require, "mutated", ("requires_grad of x",), ("requires_grad of x",)),
        (backward, "graded", ("scale",), ("scale",)),
        (filtering, "globals", ("warnings filters",), ("warnings filters",)),
        (warning, "globals", (), ()),
        (warning, "printed", "", ""),
        (printing, "printed", "", "loss\n"),
    ],
)
def test_what_a_call_leaves_behind_is_seen_in_either_mode(
    change: Callable[[Map, Any], Any] | None, field: str, seen: Any, in_training: Any
) -> None:
    """Inputs, gradients, filters of warnings and output, in the mode in which it happens."""
    call = subject(lambda: Map(change)).calls["forward"]
    assert getattr(call.observe(X, None), field) == seen
    assert getattr(call.observe(X, None, training=True), field) == in_training


def test_what_differentiates_on_its_way_is_checkpointed_at_no_great_cost() -> None:
    """A call of ten derivatives is made three times at most, and gives what it gives plainly."""
    made: list[int] = []

    def integrated(own: Map, x: Any) -> Any:
        made.append(1)
        with torch.enable_grad():
            z = x if x.requires_grad else x.detach().requires_grad_(True)
            for _ in range(10):
                v = torch.tanh(z * own.scale)
                slope = torch.autograd.grad(v.sum(), z, create_graph=True)[0]
                z = z + 0.1 * v * slope
        return z

    flow = subject(lambda: Map(integrated))
    plain = flow.calls["forward"](X, None)
    made.clear()
    other = flow.calls["forward"].under(X, None, how="checkpoint")
    assert len(made) <= 3
    assert np.array_equal(plain.value, other.value)


@pytest.mark.parametrize("rate", [1e-2, 1e-6])
def test_a_step_of_training_is_as_long_as_it_was_asked_for(rate: float) -> None:
    """Along the gradient, by the rate."""
    first, second = played(Map, [Train(), Learn(X, rate=rate), Learn(X, rate=rate)])[1:]
    expected = 1 - rate * first.gradients["scale"]
    gradient = (X**2).mean(0) * expected - 1 / expected
    np.testing.assert_allclose(second.gradients["scale"], gradient, rtol=1e-9)
