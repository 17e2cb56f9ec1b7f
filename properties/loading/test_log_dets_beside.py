"""Log-dets that a method beside the map computes, or that come back for each member of a set."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check, loading
from flowref.checking import Settings
from flowref.model import Ambiguous, SpecError, Status, TargetError
from flowref.registry import parse_target

QUICK = Settings("quick")


class Computed(nn.Module):
    """A monotone map of each entry, whose log-slopes another method computes."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.tensor([0.5, -0.2, 0.1]))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.rates.exp() + torch.tanh(x)

    def compute_log_jac(self, x: Any) -> Any:
        """Per entry."""
        return torch.log(self.rates.exp() + 1 - torch.tanh(x) ** 2)


class ComputedWrong(Computed):
    """The square of the derivative of tanh is left out."""

    def compute_log_jac(self, x: Any) -> Any:
        """Per entry."""
        return torch.log(self.rates.exp() + 1 - torch.tanh(x).abs())


@pytest.mark.parametrize(
    ("name", "status"), [("Computed", Status.HOLDS), ("ComputedWrong", Status.VIOLATED)]
)
def test_a_method_that_computes_a_log_det_tells_it(name: str, status: Status) -> None:
    """Whatever verb its name begins with; it is held to autograd."""
    verdict = check(f"{__file__}:{name}", "map/log-det", QUICK)
    assert verdict.status is status, verdict.reason


class Cloud(nn.Module):
    """An affine map of each point of a cloud, with a log-det for each; the other is told once."""

    event_shape = (5, 3)

    def __init__(self, each: bool = True, factor: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, -0.2, 0.4]))
        self.each, self.factor = each, factor

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        told = self.factor * self.scale.sum()
        return x * self.scale.exp(), told.expand(x.shape[:2] if self.each else x.shape[:1])

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        told = -self.factor * self.scale.sum()
        return z * (-self.scale).exp(), told.expand(z.shape[:2] if self.each else z.shape[:1])


@pytest.mark.parametrize(
    ("options", "law", "status"),
    [
        ("", "shape/one-number-per-point[log-det]", Status.VIOLATED),
        ("ladj_form=members", "shape/one-number-per-point[log-det]", Status.HOLDS),
        ("ladj_form=members", "map/log-det", Status.HOLDS),
        ("each=false&ladj_form=members", "map/log-det[inverse]", Status.HOLDS),
        ("factor=0.5&ladj_form=members", "map/log-det", Status.VIOLATED),
    ],
)
def test_log_dets_of_members_of_a_set(options: str, law: str, status: Status) -> None:
    """They add up where someone says so; a forgotten axis looks the same, and the verdict says how."""
    verdict = check(f"{__file__}:Cloud?{options}", law, QUICK)
    assert verdict.status is status, verdict.reason
    assert ("say ?ladj_form=members" in str(verdict)) == (not options)


class Renamed(nn.Module):
    """A linear map whose methods have names of their own."""

    event_shape = (3,)

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.rates = nn.Parameter(torch.tensor([0.5, -0.2, 0.1]))
        self.factor = factor

    def analyze(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.rates.exp()

    def synthesize(self, z: Any) -> Any:
        """Latents to data."""
        return z / self.rates.exp()


class OfTheInput(Renamed):
    """With a log-det of the input, as the map calls it."""

    def log_abs_det(self, x: Any) -> Any:
        """For each point."""
        return (self.factor * self.rates.sum()).expand(len(x))


class OfInputAndValue(Renamed):
    """With a log-det as transforms of torch have it."""

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """For each point."""
        return (self.factor * self.rates.sum()).expand(len(x))


@pytest.mark.parametrize("name", ["OfTheInput", "OfInputAndValue"])
@pytest.mark.parametrize("law", ["map/log-det", "map/log-det[inverse]"])
@pytest.mark.parametrize(("factor", "status"), [(1.0, "HOLDS"), (1 / 3, "VIOLATED")])
def test_a_log_det_beside_a_map_that_was_named(
    name: str, law: str, factor: float, status: str
) -> None:
    """It is read whatever the map is called, and held to autograd: a mean over entries is found."""
    options = f"forward=analyze&inverse=synthesize&factor={factor!r}"
    verdict = check(f"{__file__}:{name}?{options}", law, QUICK)
    assert verdict.status == status, verdict.reason


class OfEither(Renamed):
    """With a log-det whose argument has another name than those of the map."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.analyze(x)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.synthesize(z)

    def log_jac_det(self, y: Any) -> Any:
        """Of the way back."""
        return (-self.factor * self.rates.sum()).expand(len(y))


class VolumeChange(OfEither):
    """The same, of the map, under a name that nobody knows."""

    log_jac_det = None  # type: ignore[assignment]  # there is none of that name

    def grows_given(self, y: Any, condition: Any) -> Any:
        """Under a condition."""
        return self.grows(y) + 0 * condition.sum()

    def grows(self, y: Any) -> Any:
        """Of the map."""
        return (self.factor * self.rates.sum()).expand(len(y))


OF_BACK, OF_MAP = "inverse_log_det=log_jac_det", "log_det=grows"


@pytest.mark.parametrize(
    ("name", "options", "law", "status"),
    [
        ("OfEither", OF_BACK, "map/log-det[inverse]", "HOLDS"),
        ("OfEither", f"{OF_BACK}&factor=0.5", "map/log-det[inverse]", "VIOLATED"),
        ("OfEither", "log_det=log_jac_det", "map/log-det", "VIOLATED"),
        ("OfEither", "log_det=none", "map/log-det", "NOT_APPLICABLE"),
        ("VolumeChange", OF_MAP, "map/log-det", "HOLDS"),
        ("VolumeChange", f"{OF_MAP}&factor=0.5", "map/log-det", "VIOLATED"),
        ("VolumeChange", OF_MAP, "map/log-det[inverse]", "HOLDS"),
    ],
)
def test_an_option_says_whose_log_det_it_is(name: str, options: str, law: str, status: str) -> None:
    """That of the map, of the way back, or none; under any name."""
    verdict = check(f"{__file__}:{name}?{options}", law, QUICK)
    assert verdict.status == status, verdict.reason


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        (
            "OfEither",
            Ambiguous,
            r"say \?log_det=log_jac_det .* \?inverse_log_det=log_jac_det .* \?log_det=none",
        ),
        (
            "OfEither?log_det=log_jac",
            SpecError,
            r"'log_jac', which is no method or attribute .*did you mean log_jac_det",
        ),
        (
            "VolumeChange?log_det=grows_given",
            TargetError,
            r"asks for condition besides the input",
        ),
        (
            "OfEither?log_det=rates",
            TargetError,
            r"gives .* for . points; expected a number for each",
        ),
    ],
)
def test_a_log_det_that_was_not_read_is_asked_for(
    spec: str, error: type[Exception], said: str
) -> None:
    """A method that is named after a log-det is no silence, and an option names one that tells it."""
    with pytest.raises(error, match=said):
        loading.load(parse_target(f"{__file__}:{spec}"))
