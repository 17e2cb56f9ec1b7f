"""Processes that take data to noise, in the forms in which they are written: which are read, and what laws say of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from flowref import check
from flowref.adapters.user.adapter import recognizes
from flowref.model import Status, TargetError
from laws import process_forms
from laws.process_forms import Form


class Columns:
    """Rates whose columns sum to zero, at a time that is a number."""

    def __init__(self, wrong: bool = False) -> None:
        self.n_states, self.wrong = 3, wrong

    def Q(self, t: float) -> Any:
        """The rates."""
        rates = torch.tensor([[0.0, 0.3, 0.2], [0.7, 0.0, 0.4], [0.1, 0.6, 0.0]])
        rates = rates - torch.diag(rates.sum(0))
        if self.wrong:
            rates[0, 1] = -rates[0, 1]
        return (1 + math.exp(-t)) * rates


class Table:
    """Transition matrices that are kept for each step, in single precision."""

    def __init__(self, wrong: bool = False) -> None:
        self.num_classes = 4
        shares = torch.linspace(0.02, 0.3, 20)[:, None, None]
        one = (1 - shares) * torch.eye(4) + (1.2 if wrong else 1.0) * shares / 4
        self.q_onestep_mats = one.to(torch.float32)


class ByStep:
    """Transition matrices of numpy, at a number of a step."""

    def __init__(self, wrong: bool = False) -> None:
        self.K, self.timesteps, self.wrong = 3, 50, wrong
        self.shares = np.linspace(1e-3, 0.2, 50)

    def transition_matrix(self, t: int) -> Any:
        """The probabilities of jumps in one step."""
        share = self.shares[t]
        return (1 - share * (not self.wrong)) * np.eye(3) + share / 3


class Ornstein:
    """A process that comes back to a mean, until a time of its own."""

    t_end = 3.0

    def __init__(self, wrong: bool = False) -> None:
        self.wrong = wrong

    def sde(self, x: Any, t: Any) -> Any:
        """Drift and diffusion."""
        return 1.3 * (0.7 - x), torch.full_like(t, 0.9)

    def marginal_prob(self, x: Any, t: Any) -> Any:
        """Mean and deviation."""
        mean = 0.7 + (x - 0.7) * torch.exp(-1.3 * t)[:, None]
        power = 1.3 if self.wrong else 2.6
        return mean, (0.81 / 2.6 * (1 - torch.exp(-power * t))).sqrt()


class Exploding:
    """Noise that grows, of images."""

    T = 1

    def __init__(self, wrong: bool = False) -> None:
        self.wrong = wrong

    def sigma(self, t: Any) -> Any:
        """The deviation of the noise."""
        return 0.01 * 5000.0**t

    def sde(self, x: Any, t: Any) -> Any:
        """Drift and diffusion."""
        growth = math.log(5000.0) * (1 if self.wrong else 2)
        return torch.zeros_like(x), self.sigma(t)[:, None, None, None] * math.sqrt(growth)

    def marginal_prob(self, x: Any, t: Any) -> Any:
        """Mean and deviation."""
        return x, self.sigma(t)[:, None, None, None]


class Clipped:
    """A cosine schedule whose last variance is clipped, beside what is left without that."""

    def __init__(self, wrong: bool = False) -> None:
        turn = torch.linspace(0, 1, 101, dtype=torch.float64) * math.pi / 2
        left = torch.cos(turn).square()
        self.betas = (1 - left[1:] / left[:-1]).clamp(max=0.999)
        self.alphas = 1 - self.betas
        self.alphas_cumprod = left[:-1] if wrong else left[1:]


FORMS = (
    (Columns, "process/rates"),
    (Table, "process/transitions"),
    (ByStep, "process/transitions"),
    (Ornstein, "process/moments"),
    (Exploding, "process/moments"),
    (Clipped, "process/schedule"),
)


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize(("kind", "law"), FORMS + process_forms.FORMS)
def test_a_process_is_read_and_judged(kind: Any, law: str, wrong: bool) -> None:
    """The form in which it is written is found by calls; what is right holds, and what is wrong is not."""
    assert check(kind(wrong), law).status is (Status.VIOLATED if wrong else Status.HOLDS)


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _ in process_forms.FORMS))
def test_functions_of_time_are_no_map(kind: Any) -> None:
    """Functions of time, and methods of data and a time, are not read as a bijection or its inverse."""
    dialect = recognizes(kind())
    assert dialect is not None
    assert dialect.is_process


@pytest.mark.parametrize(("kind", "law", "status"), process_forms.UNRELATED)
def test_what_is_unrelated_is_not_compared(kind: Any, law: str, status: str) -> None:
    """A step of an Euler scheme has no rates that change it, a volatility is no deviation, and a diffusion that
    depends on the data has other moments.
    """
    assert check(kind(), law).status is Status[status]


class Counting(Form):
    """A schedule with methods that do something at a step."""

    saved = 0

    def alpha(self, t: Any) -> Any:
        """The share of data."""
        return 1 - t

    def sigma(self, t: Any) -> Any:
        """The share of noise."""
        return t

    def save(self, step: Any) -> Any:
        """Writes something."""
        self.saved += 1
        return step

    def anneal(self, t: Any) -> Any:
        """Changes something."""
        self.saved += 1
        return t


class Sampling(Counting):
    """A schedule whose interpolation samples, at a time that is drawn unless it is given."""

    def interpolate(self, x1: Any, x2: Any, t: Any = None, lam: float = 0.5) -> Any:
        """Points between two, after many steps."""
        self.saved += 1
        return x1 + lam * (x2 - x1)

    def velocity_from_score(self, x: Any, score: Any, t: Any) -> Any:
        """The velocity."""
        return x + score


def test_a_mixture_needs_its_time() -> None:
    """A method whose time may be missing may do anything without it, and is no mixture of two points."""
    schedule = Sampling()
    recognizes(schedule)
    assert not schedule.saved


def test_methods_with_other_names_are_not_called() -> None:
    """A method of a time may do anything; only those whose names mean a quantity are called."""
    schedule = Counting()
    recognizes(schedule)
    assert not schedule.saved


class Shifted(Clipped):
    """What is left after all steps is moved on purpose, and the variances of steps are used no more."""

    def __init__(self) -> None:
        super().__init__()
        self.alphas_cumprod = self.alphas_cumprod / (3 - 2 * self.alphas_cumprod)

    def add_noise(self, x: Any, t: Any, noise: Any) -> Any:
        """Data with noise."""
        left = self.alphas_cumprod[t]
        return left.sqrt() * x + (1 - left).sqrt() * noise


def test_variances_that_nothing_reads_are_not_judged() -> None:
    """A schedule whose methods read what is left alone may have moved it after the variances were made."""
    assert check(Shifted(), "process/schedule").status is Status.HOLDS


class States:
    """A linear system, whose transition matrix has nothing of probabilities."""

    state_dim = 2

    def transition_matrix(self, t: Any) -> Any:
        """Position and velocity after a time."""
        return torch.tensor([[1.0, float(t)], [0.0, 1.0]])


class Poisson:
    """A rate that is a number."""

    num_states = 3

    def rate(self, t: Any) -> Any:
        """How often something happens."""
        return 1 + t


@pytest.mark.parametrize("kind", [States, Poisson, process_forms.AddedDrift])
def test_what_means_something_else_is_no_process(kind: Any) -> None:
    """Matrices of what counts no tokens, and rates that are no matrices, are not read."""
    with pytest.raises(TargetError, match="no bijection"):
        check(kind(), "process/rates")
