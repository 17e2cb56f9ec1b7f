"""Broken abilities: what raises whatever it is given is told once, and the rest is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

import flowref
from flowref import loading, registry
from flowref.loading import recipe_of
from flowref.model import Status, TargetError
from flowref.registry import parse_target

FLOW = "flowref_zoo.specimens.misspelt:scaled_normal"
ABILITIES = {"inverse": "inverse", "log-prob": "log_prob", "sample": "sample"}
LAWS = "map/*,map/calls-work,same/history[repeat],same/saved[reload]"


@pytest.mark.parametrize("ability", ABILITIES)
def test_a_broken_ability_is_told_once(ability: str) -> None:
    """One law names what the ability raises; no other errs, or is undecided, for it."""
    report = flowref.audit(f"{FLOW}?defect={ability}", laws=LAWS, profile="quick", jobs=0)
    accusing = {v.law: v for v in report.verdicts if v.status not in QUIET}
    assert set(accusing) == {"map/calls-work"}
    reason = accusing["map/calls-work"].reason
    assert reason.startswith(f"{ABILITIES[ability]} raises AttributeError")


def test_what_needs_a_broken_ability_says_so() -> None:
    """A law that needs it waits, for the reason that the ability gives."""
    verdict = flowref.check(f"{FLOW}?defect=inverse", "map/inverse")
    assert verdict.status is Status.NOT_APPLICABLE
    assert verdict.blocked and "its inverse raises AttributeError" in verdict.reason


def test_the_rest_is_judged_without_it() -> None:
    """A wrong log-det is accused though the inverse raises."""
    assert (
        flowref.check(f"{FLOW}?defect=inverse-and-log-det", "map/log-det").status is Status.VIOLATED
    )


QUIET = (Status.HOLDS, Status.NOT_APPLICABLE)


SCALAR = """
import torch

class Laplace:
    event_shape = ()

    def log_prob(self, x):
        return -x.abs() - torch.log(torch.tensor(2.0, dtype=x.dtype))

    def sample(self, n):
        return torch.distributions.Laplace(0.0, 1.0).sample((n,))

class Unsaid(Laplace):
    event_shape = None
"""


@pytest.mark.parametrize("name", ["Laplace", "Unsaid"])
def test_events_have_the_shape_of_samples(tmp_path: Path, name: str) -> None:
    """A density of numbers is one, though it takes points of one feature as well: it says so, or its
    samples do.
    """
    (tmp_path / "densities.py").write_text(SCALAR)
    subject = loading.load(registry.parse_target(f"{tmp_path / 'densities.py'}:{name}"))
    assert subject.event_shape == ()


IMAGES = """
import math
import torch

class Pixels(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(1, 3, 1, 1))

    def log_prob(self, x):
        return (-0.5 * (x - self.mean) ** 2 - 0.5 * math.log(2 * math.pi)).flatten(1).sum(1)

    def sample(self, n):
        return self.mean + torch.randn(n, 3, 10, 12, dtype=self.mean.dtype)
"""


def test_images_have_the_size_of_samples(tmp_path: Path) -> None:
    """Of all images that a log-density takes those are its events that are sampled."""
    (tmp_path / "images.py").write_text(IMAGES)
    subject = loading.load(registry.parse_target(f"{tmp_path / 'images.py'}:Pixels"))
    assert subject.event_shape == (3, 10, 12)


REFUSES = """
import torch

class Map(torch.nn.Module):
    event_shape = (2,)

    def forward(self, x):
        return 2 * x, x.new_full((len(x),), 2 * 0.6931471805599453)

    def inverse(self, z):
        return z / 2

    def log_prob(self, x):
        raise {error}("it has no base")

    def sample(self, n):
        raise {error}("it has no base")
"""


@pytest.mark.parametrize(
    ("error", "status"),
    [("NotImplementedError", Status.HOLDS), ("RuntimeError", Status.VIOLATED)],
)
def test_what_is_not_implemented_is_not_offered(tmp_path: Path, error: str, status: Status) -> None:
    """As an abstract base class leaves it; any other error is a broken ability."""
    (tmp_path / "flows.py").write_text(REFUSES.format(error=error))
    spec = f"{tmp_path / 'flows.py'}:Map"
    assert flowref.check(spec, "map/calls-work").status is status


OF_LENGTHS = """
import torch


class Sequences(torch.nn.Module):
    event_shape = (3,)

    def forward(self, x):
        return 2 * x, torch.full((len(x),), 3 * 0.6931471805599453)

    def log_prob(self, x):
        return -(4 * x**2).sum(-1) / 2 + 3 * (0.6931471805599453 - 0.9189385332046727)

    def sample(self, {name}):
        return torch.randn(int({name}.max()), 3) / 2
"""


@pytest.mark.parametrize(
    ("name", "status"),
    [("lengths", Status.HOLDS), ("n", Status.VIOLATED), ("sample_shape", Status.VIOLATED)],
)
def test_a_sampler_of_something_else_is_not_asked(
    tmp_path: Path, name: str, status: Status
) -> None:
    """What asks for lengths is not broken because a number is none; what asks for a number is."""
    (tmp_path / "flow.py").write_text(OF_LENGTHS.format(name=name))
    verdict = flowref.check(f"{tmp_path}/flow.py:Sequences", "map/calls-work")
    assert verdict.status is status


ENCODER = """
import torch


class Encoder(torch.nn.Module):
    event_shape = (3,)

    def forward(self, x, eps=None):
        return x + {noise}, torch.zeros(len(x))
"""


@pytest.mark.parametrize(
    ("noise", "refused"), [("(torch.randn_like(x) if eps is None else eps)", True), ("1.5", False)]
)
def test_what_draws_its_noise_is_no_map(tmp_path: Path, noise: str, refused: bool) -> None:
    """An encoder that takes noise, and draws it where none is given, is refused with what to do."""
    (tmp_path / "encoder.py").write_text(ENCODER.format(noise=noise))
    target = parse_target(f"{tmp_path}/encoder.py:Encoder")
    if not refused:
        assert recipe_of(target).facts.event_shape == (3,)
        return
    with pytest.raises(TargetError, match="forward draws eps unless it is given"):
        recipe_of(target)
