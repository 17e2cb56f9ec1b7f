"""What cannot be audited as it is says which option or factory makes it a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref.loading import recipe_of
from flowref.model import TargetError
from flowref.registry import parse_target

CODE = """
import torch
from torch import nn


class Analysis(nn.Module):
    event_shape = (3,)

    def analyse(self, x):
        return 2 * x, torch.full((len(x),), 3 * 0.6931471805599453)

    def synthesise(self, z):
        return z / 2, torch.full((len(z),), -3 * 0.6931471805599453)


class Unheard(nn.Module):
    event_shape = (3,)

    def straighten(self, obs):
        return 2 * obs, torch.full((len(obs),), 3 * 0.6931471805599453)

    def bend(self, lat):
        return lat / 2, torch.full((len(lat),), -3 * 0.6931471805599453)


class OnlyCalled:
    event_shape = (3,)

    def __call__(self, obs):
        return -0.5 * (obs**2).sum(-1)


class Frozen:
    def logpdf(self, x):
        return -0.5 * (x**2).sum(-1)

    def rvs(self, size=1):
        return torch.randn(size, 3)


class Conditional(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 3)

    def forward(self, x, cond):
        return x + self.net(cond), x.new_zeros(len(x))

    def inverse(self, z, cond):
        return z - self.net(cond), z.new_zeros(len(z))


class Shifted(nn.Module):
    def forward(self, x, cond):
        return x + cond.mean(-1, keepdim=True), x.new_zeros(len(x))

    def inverse(self, z, cond):
        return z - cond.mean(-1, keepdim=True), z.new_zeros(len(z))


class Hungry(nn.Module):
    event_shape = (3,)

    def forward(self, x, recipe):
        return x * recipe["gain"], x.new_zeros(len(x))


class Transport(nn.Module):
    event_shape = (3,)

    def push_forward(self, u):
        return u + 1, u.new_zeros(len(u))

    def pull_back(self, y):
        return y - 1, y.new_zeros(len(y))

    def log_likelihood(self, u):
        return -0.5 * ((u + 1) ** 2).sum(-1) - 1.5 * 1.8378770664093453


class Messages(nn.Module):
    event_shape = (3,)

    def forward(self, x, edge_index):
        return x + torch.zeros_like(x).index_add(0, edge_index[0], x), x.new_zeros(len(x))
"""
SAYING = {
    "Unheard": "methods, straighten(), bend() take one argument",
    "OnlyCalled": "methods, __call__() takes one argument",
    "Shifted": "say ?event=2&context=2 or ?event=2&context=3 or",
    "Messages": "a subclass whose forward and inverse take points alone and pass it on",
    "Hungry": "asks for recipe besides points, and no context of the usual sizes was taken",
}
# Whose methods have names that leave one role alone -> the calls that are taken.
NAMED = {
    "Transport": {"forward", "inverse"},
    "Analysis": {"forward", "inverse"},
    "Frozen": {"log_prob", "sample"},
}
TAKEN = {
    "Transport": "forward=push_forward&inverse=pull_back&log_prob=log_likelihood",
    "Analysis": "forward=analyse&inverse=synthesise",
    "Unheard": "forward=straighten&inverse=bend",
    "Conditional": "",
    "Shifted": "event=3&context=2",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's file."""
    path = tmp_path_factory.mktemp("user") / "said.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("name", SAYING)
def test_a_refusal_says_what_to_type(name: str, file: Path) -> None:
    """The sentence names the methods that are there, and what to do with them."""
    with pytest.raises(TargetError) as refusal:
        recipe_of(parse_target(f"{file}:{name}"))
    assert SAYING[name] in str(refusal.value)


@pytest.mark.parametrize("name", NAMED)
def test_names_that_leave_one_role_alone_are_taken(name: str, file: Path) -> None:
    """A pair that goes there and back, and a log-density with its samples, need no option."""
    dialect = recipe_of(parse_target(f"{file}:{name}")).dialect
    calls = ("forward", "inverse", "log_prob", "sample")
    assert {call for call in calls if getattr(dialect, call) is not None} == NAMED[name]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("log_prob=log_likelihood", True),
        ("forward=push_forward&inverse=pull_back&log_prob=log_likelihood", False),
    ],
)
def test_a_map_that_nobody_named_beside_a_density_is_told(
    options: str, told: bool, file: Path
) -> None:
    """An untested method is reported, with the option that tests it."""
    hints = recipe_of(parse_target(f"{file}:Transport?{options}")).recognized.hints
    wanted = "push_forward() was not tested"
    assert any(wanted in one and "&inverse=pull_back" in one for one in hints) is told


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_refusal_says_works(name: str, file: Path) -> None:
    """With the option that the sentence names the same class is a target."""
    assert recipe_of(parse_target(f"{file}:{name}?{TAKEN[name]}".rstrip("?"))).facts.event_shape
