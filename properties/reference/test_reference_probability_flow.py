"""Diffusion and flow matching of the reference, by closed forms: normal data, Markov chains of few tokens."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from flowref import reference as ref
from flowref.reference.schedule import Prediction, Schedule, converted

DOUBLE = torch.float64
MEAN = torch.tensor([0.7, -0.4], dtype=DOUBLE)
COVARIANCE = torch.tensor([[0.8, 0.3], [0.3, 0.5]], dtype=DOUBLE)
PREDICTIONS: tuple[Prediction, ...] = ("x0", "epsilon", "v", "score", "velocity")
SCHEDULES: dict[str, Schedule] = {
    "vp": ref.VariancePreserving(),
    "ve": ref.VarianceExploding(),
    "line": ref.StraightLine(),
    "cosine": ref.Cosine(),
}
schedules = pytest.mark.parametrize("name", SCHEDULES)


def normal(*shape: int, seed: int = 1) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def time(value: float) -> Tensor:
    """A time without axes."""
    return torch.tensor(value, dtype=DOUBLE)


def path(schedule: Schedule, prediction: Prediction = "velocity") -> ref.NormalPath:
    """Normal data on their way to noise."""
    return ref.NormalPath(MEAN, COVARIANCE, schedule, prediction)


@schedules
def test_rates_are_derivatives_of_the_schedule(name: str) -> None:
    """alpha' and sigma' are what autograd finds of alpha and sigma."""
    schedule = SCHEDULES[name]
    t = torch.linspace(0.05, 0.95, 7, dtype=DOUBLE, requires_grad=True)
    amounts = schedule.at(t)
    for value, rate in ((amounts.alpha, amounts.alpha_rate), (amounts.sigma, amounts.sigma_rate)):
        (slope,) = torch.autograd.grad((value + 0 * t).sum(), t, retain_graph=True)
        torch.testing.assert_close(rate.detach(), slope, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["vp", "cosine"])
def test_variance_is_preserved(name: str) -> None:
    """alpha^2 + sigma^2 = 1, and the diffusion of the linear schedule is beta."""
    schedule, t = SCHEDULES[name], torch.linspace(0.01, 0.9, 5, dtype=DOUBLE)
    amounts = schedule.at(t)
    one = torch.ones(5, dtype=DOUBLE)
    torch.testing.assert_close(amounts.alpha**2 + amounts.sigma**2, one)
    if isinstance(schedule, ref.VariancePreserving):
        torch.testing.assert_close(amounts.diffusion, 0.1 + 19.9 * t)
    torch.testing.assert_close(amounts.drift, -amounts.diffusion / 2)


@schedules
@pytest.mark.parametrize("to", PREDICTIONS)
@pytest.mark.parametrize("of", PREDICTIONS)
def test_predictions_are_interchangeable(name: str, of: Prediction, to: Prediction) -> None:
    """Each prediction of normal data is what any other is converted to, and so is the way back."""
    schedule, t, x = SCHEDULES[name], time(0.4), normal(5, 2)
    one, other = path(schedule, of)(t, x), path(schedule, to)(t, x)
    torch.testing.assert_close(converted(one, x, t, schedule, of, to), other, rtol=1e-9, atol=1e-9)


@schedules
def test_the_velocity_is_drift_less_half_of_the_score(name: str) -> None:
    """The probability flow of Song et al.: f x - g^2 s / 2."""
    schedule, t, x = SCHEDULES[name], time(0.3), normal(5, 2)
    amounts = schedule.at(t)
    expected = amounts.drift * x - amounts.diffusion / 2 * path(schedule, "score")(t, x)
    torch.testing.assert_close(path(schedule)(t, x), expected, rtol=1e-9, atol=1e-9)


@schedules
def test_the_score_is_the_gradient_of_the_log_density(name: str) -> None:
    """At each time, for normal data."""
    score, x = path(SCHEDULES[name], "score"), normal(5, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(score.log_prob(time(0.6), x).sum(), x)
    torch.testing.assert_close(score(time(0.6), x), gradient)


@schedules
@pytest.mark.parametrize("prediction", ["velocity", "v", "score"])
def test_normal_data_have_their_likelihood(name: str, prediction: Prediction) -> None:
    """log N(alpha m, alpha^2 S + sigma^2) at the start is that at the end plus the log-det on the way."""
    schedule = SCHEDULES[name]
    if prediction != "velocity" and name == "line":
        pytest.skip("of a straight line the velocity alone is finite at both ends")
    if prediction == "score" and name == "cosine":
        pytest.skip("the score is infinite without noise")
    model, x = path(schedule, prediction), normal(6, 2)
    start, end = time(schedule.start), time(schedule.end)
    z, ladj = ref.ProbabilityFlow(model, schedule, prediction, tolerance=1e-9)(x)
    torch.testing.assert_close(
        model.log_prob(end, z) + ladj, model.log_prob(start, x), rtol=0, atol=1e-6
    )


def test_noise_of_another_size_counts() -> None:
    """The density of normal data whose noise has the deviation 3000 is theirs, but for what the data are in it."""
    schedule = ref.VarianceExploding(most=3000.0)
    flow = ref.noise_flow(ref.ProbabilityFlow(path(schedule), schedule), 2).double()
    x = normal(5, 2)
    expected = path(schedule).log_prob(time(0.0), x)
    torch.testing.assert_close(flow.log_prob(x), expected, rtol=0, atol=1e-3)


def test_an_estimate_of_the_divergence_has_its_mean() -> None:
    """The mean of the log-dets over all signs is the exact one."""
    schedule, x = ref.StraightLine(), normal(3, 2)
    signs = [torch.tensor(s, dtype=DOUBLE).expand(3, 2) for s in ((1.0, 1.0), (1.0, -1.0))]
    estimate = ref.ProbabilityFlow(path(schedule), schedule, trace="hutchinson")
    mean = sum(estimate(x, noise=(one,))[1] for one in signs) / 2
    torch.testing.assert_close(
        mean, ref.ProbabilityFlow(path(schedule), schedule)(x)[1], rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("name", ["vp", "line"])
def test_losses_are_least_at_the_right_model(name: str) -> None:
    """What matching and score matching pull a scaled model towards is the one in closed form."""
    schedule, rows = SCHEDULES[name], 20_000
    factor = torch.linalg.cholesky(COVARIANCE)
    x, noise = MEAN + normal(rows, 2) @ factor.mT, normal(rows, 2, seed=2)
    t = time(0.4).expand(rows, 1)
    for prediction, loss in (
        ("velocity", ref.flow_matching_loss),
        ("score", ref.score_matching_loss),
    ):
        model = path(schedule, prediction)  # type: ignore[arg-type]  # two of the words
        slopes: list[Tensor] = []
        for start in (0.0, 1.0):
            scale = torch.tensor(start, dtype=DOUBLE, requires_grad=True)
            value = loss(lambda t, x: scale * model(t[0, 0], x), schedule, x, t, noise)  # noqa: B023
            slopes += torch.autograd.grad(value, scale)
        assert abs(slopes[1]) < 0.03 * abs(slopes[0])


RATES = torch.tensor([[-1.0, 0.7, 0.3], [0.2, -0.5, 0.3], [0.4, 0.4, -0.8]], dtype=DOUBLE)


def chain(steps: int = 3, length: int = 2) -> ref.TokenDiffusion:
    """Three tokens, in sequences of two, with learned numbers that were moved."""
    made = ref.TokenDiffusion(RATES, length, steps)
    with torch.no_grad():
        for index, parameter in enumerate(made.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=index))
    return made


def sequences(model: ref.TokenDiffusion) -> Tensor:
    """All of them."""
    numbers = torch.arange(model.tokens, dtype=DOUBLE)
    return torch.cartesian_prod(*[numbers] * model.length)


def test_probabilities_of_sequences_add_up_to_one() -> None:
    """The exact likelihood is a distribution."""
    model = chain()
    torch.testing.assert_close(model.log_prob(sequences(model)).exp().sum(), time(1.0))


def test_the_bound_lies_below_and_meets_the_likelihood_of_a_reversal() -> None:
    """Below for any model; for the reversal of data both come to their probabilities, in more and more steps."""
    model = chain()
    x = sequences(model)
    assert bool((model.lower_bound(x) < model.log_prob(x)).all())
    data = normal(9).softmax(0)
    off = []
    for steps in (8, 16):
        model = chain(steps)
        model.reverse_of(data)
        off.append(
            [(one(x) - data.log()).abs().max() for one in (model.log_prob, model.lower_bound)]
        )
        assert bool((model.lower_bound(x) < model.log_prob(x)).all())
    for coarse, fine in zip(*off, strict=True):
        assert 3 * fine < coarse < 0.05


def test_tokens_jump_by_themselves() -> None:
    """The kernel of sequences is the exponential of their rates, whose rows sum to zero."""
    model = chain()
    jumps = model._jumps()
    torch.testing.assert_close(jumps.sum(1), torch.zeros(9, dtype=DOUBLE))
    torch.testing.assert_close(model.noising(0.7), torch.linalg.matrix_exp(0.7 * jumps))


def test_samples_have_their_probabilities() -> None:
    """Shares of 20,000 sequences are within five standard errors."""
    model = chain()
    drawn = model.state(model.sample(20_000, torch.Generator().manual_seed(0)))
    share = drawn.bincount(minlength=9) / 20_000
    p = model.log_prob(sequences(model)).exp()
    assert bool(((share - p).abs() < 5 * (p * (1 - p) / 20_000).sqrt()).all())


def test_bad_arguments_are_refused() -> None:
    """Rates of no chain, tokens that are none, and a prediction that is none."""
    for rates in (RATES + torch.eye(3), -RATES):
        with pytest.raises(ValueError, match="rows do not sum to zero"):
            ref.TokenDiffusion(rates, 2, 3)
    with pytest.raises(ValueError, match="whole numbers"):
        chain().lower_bound(torch.tensor([[0.0, 3.0]], dtype=DOUBLE))
    with pytest.raises(ValueError, match="sequences of tokens"):
        chain().log_prob(torch.zeros(1, 3))
    with pytest.raises(ValueError, match="expected x0"):
        ref.ProbabilityFlow(path(ref.Cosine()), ref.Cosine(), "noise")  # type: ignore[arg-type]


def test_noise_reaches_its_schedule() -> None:
    """At the end of each schedule nothing, or next to nothing, is left of the data."""
    for schedule in SCHEDULES.values():
        amounts = schedule.at(time(1.0))
        assert float(amounts.alpha / amounts.sigma) < 0.11
        assert all(map(math.isfinite, map(float, amounts)))
