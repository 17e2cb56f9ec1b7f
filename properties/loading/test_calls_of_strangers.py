"""Objects that nobody told anything are called as their signatures and calls show, and what follows
from calls that no one makes accuses nobody.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.loading import recipe_of
from flowref.model import Status
from flowref.registry import parse_target


class Scaling(nn.Module):
    """x -> x exp(s), of so many features; what differs is how it is called."""

    def __init__(self, features: int = 3) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.linspace(-0.5, 0.5, features) + 0.25)

    def onward(self, x: Any) -> Any:
        """Value and log-det."""
        return x * self.s.exp(), self.s.sum().expand(len(x))

    def back(self, z: Any) -> Any:
        """The same of the way back."""
        return z * (-self.s).exp(), -self.s.sum().expand(len(z))


class ContextAfterLogDet(Scaling):
    """A running log-det, and a context after it that it can do without."""

    def forward(self, x: Any, ldj: Any, context: Any, reverse: bool = False) -> Any:
        """Both ways."""
        value, ladj = self.back(x) if reverse else self.onward(x)
        return value, ldj + ladj

    def reverse(self, z: Any, ldj: Any, context: Any) -> Any:
        """The way back."""
        return self(z, ldj, context, reverse=True)


class FlagThatDoesNothing(ContextAfterLogDet):
    """Forward takes a flag, and only the method goes back."""

    def forward(self, x: Any, ldj: Any, context: Any, reverse: bool = False) -> Any:
        """Data to latents, whatever the flag."""
        value, ladj = self.onward(x)
        return value, ldj + ladj

    def reverse(self, z: Any, ldj: Any, context: Any) -> Any:
        """The way back."""
        value, ladj = self.back(z)
        return value, ldj + ladj


class LogDensityByKeyword(Scaling):
    """A running log-density that is asked for by its name."""

    def forward(self, x: Any, context: Any = None, logpx: Any = None, reverse: bool = False) -> Any:
        """Both ways, with a log-density where one is given."""
        value, ladj = self.back(x) if reverse else self.onward(x)
        return value if logpx is None else (value, logpx - ladj.unsqueeze(1))

    def _logdetgrad(self, x: Any, used_scale: Any) -> Any:
        """A helper that is handed something else than points and values."""
        return used_scale.log().sum(-1)


class KeywordThatIsForgotten(Scaling):
    """A keyword for a running log-det that no code reads."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def inverse(self, z: Any, y: Any = None, sum_log_abs_det_jacobians: Any = None) -> Any:
        """Latents to data."""
        return self.back(z)


class SingleOnTheWayBack(nn.Module):
    """A matrix whose inverse is computed in double precision and kept in single."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.eye(3) + 0.2 * torch.arange(9.0).reshape(3, 3).sin())

    def forward(self, x: Any, reverse: bool = False) -> Any:
        """Both ways."""
        ladj = torch.slogdet(self.w)[1].expand(len(x))
        if reverse:
            return x @ torch.inverse(self.w.double()).float(), -ladj
        return x @ self.w, ladj


class OptionalContext(Scaling):
    """A context without a default, of which only None is taken."""

    def forward(self, x: Any, cond: Any) -> Any:
        """Data to latents."""
        assert cond is None
        return self.onward(x)

    def inverse(self, z: Any, cond: Any) -> Any:
        """Latents to data."""
        assert cond is None
        return self.back(z)


class Channels(nn.Module):
    """One factor for each channel, stretched over the sides of an image, or over a sequence."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.linspace(-0.5, 0.5, math.prod(shape)).reshape(shape))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        if x.dim() != self.s.dim():
            raise ValueError("another number of axes")
        places = math.prod(x.shape[1:]) // self.s.numel()
        return x * self.s.exp(), (places * self.s.sum()).expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.s).exp(), -self(z)[1]


def image() -> nn.Module:
    """Three channels of images."""
    return Channels(1, 3, 1, 1)


def sequence() -> nn.Module:
    """Three channels of a sequence, which come last."""
    return Channels(1, 1, 3)


class ByDomain(nn.Module):
    """A batch norm for each of several domains, whose label is handed on."""

    def __init__(self) -> None:
        super().__init__()
        self.bns = nn.ModuleList([nn.BatchNorm2d(3) for _ in range(2)])

    def forward(self, x: Any, domain_label: Any) -> Any:
        """The layer of the first label."""
        return self.bns[domain_label[0]](x), domain_label


class InitializedBack(Scaling):
    """The first batch that goes back initializes it: data go in there."""

    seen: Any

    def __init__(self) -> None:
        super().__init__()
        self.t = nn.Parameter(torch.zeros(3))
        self.register_buffer("seen", torch.tensor(False))

    def forward(self, z: Any) -> Any:
        """Latents to data."""
        return z * self.s.exp() + self.t, self.s.sum().expand(len(z))

    def inverse(self, x: Any) -> Any:
        """Data to latents."""
        if not self.seen and len(x) > 1:
            with torch.no_grad():
                self.s.copy_(torch.log(x.std(0) + 1e-6))
                self.t.copy_(x.mean(0))
                self.seen.fill_(True)
        return (x - self.t) * (-self.s).exp(), -self.s.sum().expand(len(x))


class Iterated(Scaling):
    """A power iteration of a matrix of rank one, which is done in a step: its first call in train mode
    moves what it starts from, and no other does.
    """

    u: Any

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.outer(torch.tensor([2.0, 0.0, 0.0]), torch.ones(3)))
        self.register_buffer("u", torch.ones(3) / 3**0.5)

    def scale(self) -> Any:
        """Its norm, by the vector that is kept."""
        v = nn.functional.normalize(self.u @ self.weight, dim=0)
        if self.training:
            with torch.no_grad():
                self.u.copy_(nn.functional.normalize(self.weight @ v, dim=0))
        return self.s - torch.log(self.u @ self.weight @ v)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        s = self.scale()
        return x * s.exp(), s.sum().expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        s = self.scale()
        return z * (-s).exp(), -s.sum().expand(len(z))


class OneWay(nn.Module):
    """The same without a way back."""

    def __init__(self, features: int = 3) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.linspace(-0.5, 0.5, features) + 0.25)

    def forward(self, x: Any) -> Any:
        """Value and log-det."""
        return x * self.s.exp(), self.s.sum().expand(len(x))


class TwoWays(OneWay):
    """The same with one."""

    def inverse(self, z: Any) -> Any:
        """Of the value alone."""
        return z * (-self.s).exp()


class IteratedBack(Iterated):
    """The same, which moves on its way back alone."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        training = self.training
        self.eval()
        out = super().forward(x)
        self.train(training)
        return out


class MovingBatchNorm(nn.Module):
    """Normalizes by the averages of earlier batches, in train mode too."""

    running_mean: Any
    running_var: Any

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
        self.register_buffer("running_mean", torch.zeros(3))
        self.register_buffer("running_var", torch.ones(3))

    def forward(self, x: Any, reverse: bool = False) -> Any:
        """Both ways."""
        mean, var = self.running_mean.clone(), self.running_var.clone() + 1e-4
        ladj = (self.weight - 0.5 * var.log()).sum().expand(len(x))
        if reverse:
            return (x - self.bias) * (-self.weight).exp() * var.sqrt() + mean, -ladj
        if self.training and len(x) > 1:
            self.running_mean += 0.1 * (x.detach().mean(0) - mean)
            self.running_var += 0.1 * (x.detach().var(0) - var)
        return (x - mean) / var.sqrt() * self.weight.exp() + self.bias, ladj


class Logit(nn.Module):
    """A map of (0, 1) that does not say so, without a way back."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x.log() - (1 - x).log(), -(x.log() + (1 - x).log()).sum(-1)


class Refusing(Scaling):
    """An inverse that asserts what holds of images up to 2 alone."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        assert bool((z.abs() < 2).all())
        return self.back(z)


class Drawing(nn.Module):
    """A normal distribution whose samples come with their log-densities."""

    def __init__(self, wrong: bool = False) -> None:
        super().__init__()
        self.wrong, self.s = wrong, nn.Parameter(torch.tensor([0.3, -0.4, 0.2]))

    def log_prob(self, x: Any) -> Any:
        """The log-density."""
        z = x * (-self.s).exp()
        return -0.5 * (z * z).sum(-1) - 1.5 * math.log(2 * math.pi) - self.s.sum()

    def sample_and_log_prob(self, count: int) -> Any:
        """Points and log-densities; with a bug the scale is counted the other way."""
        z = torch.randn(count, 3, dtype=self.s.dtype)
        base = -0.5 * (z * z).sum(-1) - 1.5 * math.log(2 * math.pi)
        return z * self.s.exp(), base + (self.s.sum() if self.wrong else -self.s.sum())


def drawing_wrong() -> nn.Module:
    """The sign is turned."""
    return Drawing(wrong=True)


class Mixing(nn.Module):
    """Takes away a part of the mean of each sample: no bijection, and nothing says that it is one."""

    def __init__(self) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Any) -> Any:
        """Standardized, halfway."""
        scale = self.share * x.var(-1, keepdim=True) + (1 - self.share)
        return (x - self.share * x.mean(-1, keepdim=True)) / scale


def listing() -> Any:
    """Functions that share a scale, and list it for an optimizer: no module, and no buffers."""
    flow = Scaling()
    return SimpleNamespace(
        event_shape=(3,),
        forward=flow.onward,
        inverse=flow.back,
        parameters=lambda: list(flow.parameters()),
    )


def recognized(name: str, options: str = "") -> Any:
    """What a class or a factory of this file is taken for."""
    return recipe_of(parse_target(f"{__file__}:{name}{options}")).recognized


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ContextAfterLogDet", "running log-det, added (ldj); context: None"),
        ("FlagThatDoesNothing", "inverse: reverse()"),
        ("LogDensityByKeyword", "running log-det, subtracted (logpx)"),
        ("SingleOnTheWayBack", "inverse: reverse=True"),
        ("OptionalContext", "cond: None"),
        ("ByDomain", "domain_label: 1 for all points"),
        ("InitializedBack", "initialized by its first batch, by inverse: that takes data to latents"),
    ],
)  # fmt: skip
def test_what_calls_show_is_said(name: str, said: str) -> None:
    """Each object is called as it wants to be, and its line says how."""
    assert said in recognized(name).conventions


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("OneWay", "and forward takes"),
        ("TwoWays", "and a round trip takes"),
        ("TwoWays?features=65&event=65", "inverse, of more than 64 entries, is not counted"),
    ],
)
def test_what_was_counted_is_said(name: str, said: str) -> None:
    """An inverse of many entries is not called to count what it takes."""
    assert any(said in why for why in recognized(name).why)


@pytest.mark.parametrize("name", ["Iterated", "IteratedBack"])
def test_what_comes_of_weights_alone_is_no_first_batch(name: str) -> None:
    """A power iteration that is done in a step is left as it is by the next, as by another batch."""
    assert "initialized by its first batch" not in " ".join(recognized(name).conventions)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ContextAfterLogDet", "bijection with inverse"),
        ("FlagThatDoesNothing", "bijection with inverse"),
        ("LogDensityByKeyword", "bijection with inverse"),
        ("KeywordThatIsForgotten", "bijection with inverse"),
        ("SingleOnTheWayBack", "bijection with inverse"),
        ("OptionalContext", "bijection with inverse"),
        ("MovingBatchNorm", "bijection with inverse"),
        ("ByDomain", "batch norm"),
        ("listing", "bijection with inverse"),
    ],
)
def test_what_it_is_shows(name: str, kind: str) -> None:
    """Nothing is lost, and a layer that standardizes no batch is no batch norm by its name."""
    assert recognized(name).kind == kind


@pytest.mark.parametrize(("name", "shape"), [("image", (3, 4, 6)), ("sequence", (4, 3))])
def test_channels_are_counted_where_numbers_are_stretched(
    name: str, shape: tuple[int, ...]
) -> None:
    """An event has as many channels as an array has numbers that is stretched over all else."""
    assert recognized(name).event_shape == shape


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("ContextAfterLogDet", "map/log-det[inverse]"),
        ("LogDensityByKeyword", "map/log-det[inverse]"),
        ("SingleOnTheWayBack", "map/inverse"),
        ("InitializedBack", "effects/state[eval]"),
        ("InitializedBack", "same/rows"),
        ("InitializedBack", "effects/state[parameters]"),
        ("MovingBatchNorm", "map/log-det"),
        ("MovingBatchNorm", "effects/state[eval]"),
        ("listing", "map/log-det"),
    ],
)
def test_what_is_right_holds(name: str, law: str) -> None:
    """The laws are measured, and hold."""
    verdict = check(f"{__file__}:{name}", law, Settings("quick"))
    assert verdict.status is Status.HOLDS, verdict.reason


@pytest.mark.parametrize(
    ("name", "law", "status"),
    [
        ("Refusing", "map/finite", Status.VIOLATED),
        ("KeywordThatIsForgotten", "map/finite", Status.HOLDS),
        ("Drawing", "density/change-of-variables[samples]", Status.HOLDS),
        ("drawing_wrong", "density/change-of-variables[samples]", Status.VIOLATED),
    ],
)
def test_what_is_wrong_is_seen_beside_what_is_right(name: str, law: str, status: Status) -> None:
    """An inverse that refuses images of points near zero is violated, and log-densities beside
    samples are those of the samples.
    """
    assert check(f"{__file__}:{name}", law, Settings("standard")).status is status


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("Logit", "state/degenerate-batch"),
        ("Logit", "map/one-to-one[orientation]"),
        ("Mixing", "map/one-to-one[orientation]"),
    ],
)
def test_where_nothing_is_claimed_nothing_is_violated(name: str, law: str) -> None:
    """Points outside a domain that nobody declared come back not finite, before any degenerate batch
    and whatever autograd says of them; and what has neither inverse nor log-det may fold.
    """
    verdict = check(f"{__file__}:{name}", law, Settings("standard"))
    assert verdict.status is not Status.VIOLATED, verdict.evidence


def test_folders_without_a_word_are_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that imports relatively from above its outermost package is named from the folder of
    the command.
    """
    for folder in ("lib", "lib/parts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lib/parts/__init__.py").touch()
    (tmp_path / "lib/base.py").write_text("from torch.nn import Identity as Base\n")
    code = "from ..base import Base\n\n\nclass Flow(Base):\n    event_shape = (2,)\n"
    (tmp_path / "lib/parts/flow.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    assert recipe_of(parse_target("lib/parts/flow.py:Flow")).recognized.event_shape == (2,)
