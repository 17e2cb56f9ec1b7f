"""Labels of classes, which are whole numbers, stand for contexts of one number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref.checking import pair_verdict
from flowref.loading import recipe_of
from flowref.model import SpecError, Status
from flowref.registry import parse_target


class ByClass(nn.Module):
    """A normal density for each of five classes, by one table of its numbers."""

    event_shape = (2,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.table = bug, nn.Embedding(5, 4)

    def base(self, y: Any) -> Any:
        """The density of a class."""
        loc, scale = self.table(y).chunk(2, -1)
        return torch.distributions.Normal(loc, scale.exp())

    def log_prob(self, x: Any, y: Any) -> Any:
        """The density of each point in its class."""
        return self.base(y).log_prob(x).sum(-1)

    def sample(self, n: int, y: Any) -> Any:
        """A point for each label."""
        return self.base(torch.zeros_like(y) if self.bug == "sampler" else y).sample()


class MapByClass(nn.Module):
    """Scales and shifts by class, whose table of one-hot vectors knows three."""

    event_shape = (2,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.net = bug, nn.Linear(3, 4)

    def parts(self, label: Any) -> Any:
        """The logarithms of scales, and shifts."""
        return self.net(nn.functional.one_hot(label, 3).to(self.net.weight.dtype)).chunk(2, -1)

    def forward(self, x: Any, label: Any) -> Any:
        """Data to latents."""
        logs, shift = self.parts(label)
        return x * logs.exp() + shift, logs.sum(-1)

    def inverse(self, z: Any, label: Any) -> Any:
        """Latents to data."""
        logs, shift = self.parts(0 * label if self.bug == "inverse" else label)
        return (z - shift) * (-logs).exp()


class Stacked(nn.Module):
    """Two maps by class, one after the other, and back."""

    event_shape = (2,)
    maps: Any

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug, self.maps = bug, nn.ModuleList([MapByClass(), MapByClass()])

    def forward(self, x: Any, y: Any) -> Any:
        """Data to latents."""
        total: Any = 0.0
        for one in self.maps:
            x, logs = one(x, y)
            total = total + logs
        return x, logs if self.bug == "last" else total

    def reverse(self, z: Any, y: Any) -> Any:
        """Latents to data."""
        for one in reversed(self.maps):
            z = one.inverse(z, y if self.bug != "label" else 0 * y)
        return z


class ByClassOrNone(ByClass):
    """The same, where the class may be unknown."""

    def log_prob(self, x: Any, y: Any = None) -> Any:
        """The density of each point, of class 0 where none is given."""
        return super().log_prob(x, torch.zeros(len(x), dtype=torch.long) if y is None else y)

    def sample(self, n: int, y: Any = None) -> Any:
        """A point for each label, or so many."""
        return super().sample(n, torch.zeros(n, dtype=torch.long) if y is None else y)


class MapByClassOrNone(MapByClass):
    """A map whose label may be unknown."""

    def forward(self, x: Any, label: Any = None) -> Any:
        """Data to latents."""
        return super().forward(x, torch.zeros(len(x), dtype=torch.long) if label is None else label)

    def inverse(self, z: Any, label: Any = None) -> Any:
        """Latents to data."""
        return super().inverse(z, torch.zeros(len(z), dtype=torch.long) if label is None else label)


class Unlabeled(nn.Module):
    """A scaling by nobody's class."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.logs = nn.Parameter(torch.ones(2))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.logs.exp(), self.logs.sum().expand(len(x))


class ByLength(nn.Module):
    """Scales the entries before a length, which is no class."""

    event_shape = (4,)

    def __init__(self) -> None:
        super().__init__()
        self.logs = nn.Parameter(torch.ones(4))

    def forward(self, x: Any, lengths: Any) -> Any:
        """Data to latents, of what is there."""
        if lengths.dtype != torch.long:
            raise TypeError("lengths are whole numbers")
        there = (torch.arange(4) < lengths[:, None]).to(x.dtype)
        return x * self.logs.exp() * there, (self.logs * there).sum(-1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ByClass", "y: labels 0 to 4, to which contexts are rounded"),
        ("MapByClass", "label: labels 0 to 2, to which contexts are rounded"),
    ],
)
def test_labels_and_their_number_are_found(name: str, said: str) -> None:
    """A flow that takes whole numbers alone is given them, as many as it knows."""
    assert said in recipe_of(parse_target(f"{__file__}:{name}")).recognized.conventions


@pytest.mark.parametrize(
    ("name", "bug", "law"),
    [
        ("ByClass", "sampler", "sampling/follows-density[ratios]"),
        ("MapByClass", "inverse", "map/inverse"),
        ("Stacked", "label", "map/inverse"),
        ("Stacked", "last", "composition/parts"),
    ],
)
def test_a_call_that_forgets_its_label_is_seen(name: str, bug: str, law: str) -> None:
    """Labels differ from point to point, so that one call that reads none disagrees with the others; parts
    are given them, too.
    """
    assert pair_verdict(f"{__file__}:{name}", law).status is Status.HOLDS
    assert pair_verdict(f"{__file__}:{name}?bug={bug}", law).status is Status.VIOLATED


@pytest.mark.parametrize("law", ["gradient/context", "gradient/context-used[gradient]"])
def test_labels_have_no_gradients(law: str) -> None:
    """Laws of gradients that reach a context are about others."""
    assert pair_verdict(f"{__file__}:MapByClass", law).status is Status.NOT_APPLICABLE


def test_lengths_are_no_labels() -> None:
    """What is masked beyond a length is no bijection, and nobody is accused of that."""
    with pytest.raises(Exception, match="lengths"):
        recipe_of(parse_target(f"{__file__}:ByLength"))


@pytest.mark.parametrize(
    ("name", "bug", "law"),
    [
        ("ByClassOrNone", "sampler", "sampling/follows-density[ratios]"),
        ("MapByClassOrNone", "inverse", "map/inverse"),
    ],
)
def test_labels_that_may_be_none_are_said_and_can_be_judged(name: str, bug: str, law: str) -> None:
    """By default they are not given, which the line says with the option that gives them."""
    hints = recipe_of(parse_target(f"{__file__}:{name}")).recognized.hints
    assert any("say ?context=labels" in hint for hint in hints)
    assert pair_verdict(f"{__file__}:{name}?bug={bug}", law).status is Status.HOLDS
    assert pair_verdict(f"{__file__}:{name}?context=labels", law).status is Status.HOLDS
    buggy = pair_verdict(f"{__file__}:{name}?context=labels&bug={bug}", law)
    assert buggy.status is Status.VIOLATED


def test_labels_that_nothing_takes_are_no_option() -> None:
    """What asks for none cannot be told that it does."""
    with pytest.raises(SpecError, match="no call takes integers"):
        recipe_of(parse_target(f"{__file__}:Unlabeled?context=labels"))
