"""Layers that draw or forget speak in the forms in which bijections do, and are judged alike in each."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

import flowref
from flowref import check, registry
from flowref.checking import Settings
from flowref.loading.recipe import recipe_of
from flowref.model import Ambiguous, SpecError, Status

QUICK = Settings("quick")
INTEGRAL = "density/mass[contribution]"


class Absolute(nn.Module):
    """What the forms share: the absolute value of two numbers, and a factor of its contribution."""

    bijective: Any = False
    stochastic_forward, stochastic_inverse = False, True
    event_shape, codomain = (2,), "positive"

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.cost = -2 * factor * math.log(2)

    def told(self, x: Any) -> Any:
        """What each row contributes."""
        return x.new_full((len(x),), self.cost)

    def drawn(self, z: Any) -> Any:
        """Data with random signs."""
        return z * (2 * torch.bernoulli(torch.full_like(z, 0.5)) - 1)


class Added(Absolute):
    """A running log-det."""

    def forward(self, x: Any, logdet: Any) -> Any:
        """Data to latents."""
        return x.abs(), logdet + self.told(x)

    def inverse(self, z: Any, logdet: Any) -> Any:
        """Latents to data."""
        return self.drawn(z), logdet - self.told(z)


class Subtracted(Absolute):
    """A running log-density in columns, and a flag."""

    def forward(self, x: Any, logpx: Any = None, reverse: bool = False) -> Any:
        """Either way."""
        y = self.drawn(x) if reverse else x.abs()
        change = self.told(x)[:, None] * (-1 if reverse else 1)
        return y if logpx is None else (y, logpx - change)


class Named(Absolute):
    """Dictionaries."""

    def x_to_z(self, x: Any) -> Any:
        """Data to latents."""
        return {"z": x.abs(), "log-jac": self.told(x)[:, None]}

    def z_to_x(self, z: Any) -> Any:
        """Latents to data."""
        return {"x": self.drawn(z), "log-jac": -self.told(z)[:, None]}


class Constant(Absolute):
    """One number for all rows, and no word on whether it is a bijection."""

    bijective = None

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x.abs(), self.cost

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.drawn(z)


class Several(nn.Module):
    """Noise beside the data, as values of their own."""

    stochastic_forward, stochastic_inverse = True, False
    event_shape, codomain = (2,), "real"

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, *xs: Any, inverse: bool = False) -> Any:
        """Either way."""
        noise = xs[1] if inverse else torch.randn_like(xs[0][:, :1])
        cost = self.factor * (0.5 * noise.square() + 0.5 * math.log(2 * math.pi))
        return (xs[0], -cost) if inverse else (xs[0], noise, cost)


class Conditional(nn.Module):
    """Noise around a context."""

    stochastic_forward, stochastic_inverse = True, False
    event_shape, context_shape, codomain = (2,), (1,), "real"

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Any, context: Any) -> Any:
        """Data to latents."""
        noise = torch.randn_like(x[:, :1])
        cost = 0.5 * noise.square() + 0.5 * math.log(2 * math.pi)
        return torch.cat([x, context + noise], 1), self.factor * cost[:, 0]

    def inverse(self, z: Any, context: Any) -> Any:
        """Latents to data."""
        return z[:, :2]


FORMS = [Added, Subtracted, Named, Constant, Several, Conditional]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("factor", "status"), [(1.0, Status.HOLDS), (0.5, Status.VIOLATED)])
def test_each_form_is_read(form: Any, factor: float, status: Status) -> None:
    """With its contribution, and with half of it."""
    assert check(form(factor), INTEGRAL, QUICK).status is status


@pytest.mark.parametrize("form", [Added, Named, Several])
def test_each_form_goes_back(form: Any) -> None:
    """The direction that draws is undone by the one that does not, and so is what it contributes."""
    assert check(form(), "map/inverse[draws]", QUICK).status is Status.HOLDS


def test_what_both_directions_have_in_common_is_said_once() -> None:
    """That they take a running log-det."""
    report = flowref.audit(Added(), laws=[INTEGRAL], profile="quick")
    (recognized,) = report.recognized.values()
    assert sum("running log-det" in one for one in recognized.conventions) == 1


class Trainable(Absolute):
    """A parameter, that laws of training would move."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(2))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.scale.exp() * x.abs(), self.told(x) + self.scale.sum()


def test_a_layer_has_no_likelihood_of_its_own() -> None:
    """Laws of what training does say so, and not that it has no forward."""
    verdict = check(Trainable(), "gradient/finite", QUICK)
    assert verdict.status is Status.NOT_APPLICABLE
    assert "no likelihood of its own" in verdict.reason


class Silent(nn.Module):
    """A layer that does not say that it draws."""

    event_shape, codomain = (2,), "positive"

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x.abs(), x.new_full((len(x),), -2 * math.log(2))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (2 * torch.bernoulli(torch.full_like(z, 0.5)) - 1)


def make() -> nn.Module:
    """A layer of which the target says that it draws."""
    return Silent()


def test_a_target_says_what_a_layer_does_not() -> None:
    """By ?draws=."""
    target = f"{__name__}:make?draws=inverse"
    assert check(target, INTEGRAL, QUICK).status is Status.HOLDS


def test_other_words_are_refused() -> None:
    """With those that are known."""
    with pytest.raises(SpecError, match="both, forward, inverse, neither"):
        check(f"{__name__}:make?draws=sideways", INTEGRAL, QUICK)


class Level(nn.Module):
    """One whole number below three, as the place of the largest of three."""

    stochastic_forward, stochastic_inverse = True, False
    event_shape, codomain, domain = (1,), "real", (0, 3)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        level = x.long()
        u = torch.randn(len(x), 3, dtype=x.dtype)
        largest = u.gather(1, level)
        chosen = nn.functional.one_hot(level[:, 0], 3).bool()
        gap = largest - u
        z = torch.where(chosen, u, largest - nn.functional.softplus(gap))
        told = 0.5 * u.square() + 0.5 * math.log(2 * math.pi)
        slope = torch.where(chosen, torch.zeros_like(u), nn.functional.logsigmoid(gap))
        return z, (told + slope).sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z.argmax(1, keepdim=True)


def test_whole_numbers_between_ends_are_no_reals() -> None:
    """One of them comes back as what it is, where a batch holds no other."""
    assert check(Level(), "map/inverse[draws]").status is Status.HOLDS


class Totalled(Absolute):
    """A switch for one number of the batch, which counts signs of which one is likelier."""

    def forward(self, x: Any, return_log_likelihood: bool = False) -> Any:
        """Data to latents."""
        likely = torch.where(x > 0, math.log(0.7), math.log(0.3)).sum()
        return (
            (x.abs(), likely * (self.cost / (-2 * math.log(2))))
            if return_log_likelihood
            else x.abs()
        )

    def backward(self, z: Any) -> Any:
        """Latents to data."""
        return z * (2 * torch.bernoulli(torch.full_like(z, 0.7)) - 1)


SWITCHED = "forward=return_log_likelihood:true&draws=inverse"


@pytest.mark.parametrize(("factor", "status"), [(1.0, Status.HOLDS), (1.1, Status.VIOLATED)])
def test_one_contribution_for_a_batch_is_asked_point_by_point(
    factor: float, status: Status
) -> None:
    """Where that is said; without it what calls show is asked about."""
    spec = f"{__file__}:Totalled?factor={factor}&{SWITCHED}"
    assert check(f"{spec}&ladj_form=batch", INTEGRAL, QUICK).status is status
    with pytest.raises(Ambiguous, match=r"say \?ladj_form=batch"):
        recipe_of(registry.parse_target(spec))


def test_a_keyword_that_forward_does_not_take_is_refused() -> None:
    """By its name, with what was expected."""
    with pytest.raises(SpecError, match="'told' is no keyword of it"):
        recipe_of(registry.parse_target(f"{__file__}:Totalled?forward=told:true"))
