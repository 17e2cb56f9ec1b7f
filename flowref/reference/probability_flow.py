"""Likelihoods of diffusion and flow matching: the ODE with the marginals of noised data, the
losses that train its field, and normal data, for which everything has a closed form.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flowref.reference.bijection import Chain, check_event, over_event
from flowref.reference.continuous import CNF, Field, Trace
from flowref.reference.density import LOG_2_PI, Flow, StandardNormal
from flowref.reference.elementwise import Affine
from flowref.reference.schedule import Prediction, Schedule, converted, shares
from flowref.reference.solver import MOST


class ProbabilityFlow(CNF):
    r"""$\dot x = \alpha'(t)\,\hat x_0 + \sigma'(t)\,\hat\epsilon = f x - \tfrac12 g^2 s(x, t)$ from
    data at the schedule's start to noise at its end. $\hat x_0$, $\hat\epsilon$ and the score s
    are the predictions of ``model``, converted into each other.

    ladj: $\int \mathrm{tr}\,\partial \dot x / \partial x\;dt$, exact or by Hutchinson's estimate in train
    mode, with signs drawn once for a whole solve; tolerance and errors as `CNF`.
    ``model``: maps a scalar time and x `(N, D)` to the prediction `(N, D)`.
    Shapes: x and z `(N, D)`, ladj `(N,)`.  Units: nats.
    Source: Song et al. 2021 (arXiv:2011.13456), section 4.3 and appendix D; Lipman et al. 2023
    (arXiv:2210.02747), appendix C, on the likelihood.
    """

    def __init__(
        self,
        model: Field,
        schedule: Schedule,
        prediction: Prediction = "velocity",
        trace: Trace = "exact",
        tolerance: float = 1e-8,
        most: int = MOST,
    ) -> None:
        shares(schedule, prediction, torch.ones(()))  # raises for an unknown prediction
        super().__init__(self._field, schedule.end - schedule.start, trace, tolerance, most)
        self.model, self.schedule, self.prediction = model, schedule, prediction

    def predicted(self, t: Tensor, x: Tensor, prediction: Prediction) -> Tensor:
        """The model's prediction `(N, D)` at a time of the schedule, converted to any of the five
        quantities.
        """
        value = self.model(t, x)
        return converted(value, x, t, self.schedule, self.prediction, prediction)

    def _field(self, t: Tensor, x: Tensor) -> Tensor:
        return self.predicted(self.schedule.start + t, x, "velocity")


def noise_flow(flow: ProbabilityFlow, features: int) -> Flow:
    r"""The density of data under a probability flow: $\log p(x) = \log N(x_1; 0, \sigma(1)^2) +
    \mathrm{ladj}(x)$.

    A last map divides by the deviation of the noise, $z = x_1 / \sigma(1)$, and its log-det counts.
    """
    deviation = float(flow.schedule.at(torch.tensor(flow.schedule.end, dtype=torch.float64)).sigma)
    return Flow(StandardNormal((features,)), Chain(flow, Affine(0.0, 1 / deviation)))


def matching_loss(
    model: Field, schedule: Schedule, prediction: Prediction, x: Tensor, t: Tensor, noise: Tensor
) -> Tensor:
    r"""The mean over rows of $\|\mathrm{model}(t, x_t) - (p\,x_0 + q\,\epsilon)\|^2$, minimized by
    the expectation of the prediction at $x_t$.

    Shapes: x and noise `(N, D)`; t `(N, 1)`, one time for each row.
    """
    p, q = shares(schedule, prediction, t)
    off = model(t, schedule.noised(x, t, noise)) - (p * x + q * noise)
    return off.square().sum(1).mean()


def flow_matching_loss(
    model: Field, schedule: Schedule, x: Tensor, t: Tensor, noise: Tensor
) -> Tensor:
    r"""Conditional flow matching, $\|v(t, x_t) - (\alpha' x_0 + \sigma' \epsilon)\|^2$.

    Source: Lipman et al. 2023 (arXiv:2210.02747), equation 9.
    """
    return matching_loss(model, schedule, "velocity", x, t, noise)


def score_matching_loss(
    model: Field, schedule: Schedule, x: Tensor, t: Tensor, noise: Tensor
) -> Tensor:
    r"""Denoising score matching with the weight $\sigma^2$: $\|\sigma\,s(t, x_t) + \epsilon\|^2$.

    Source: Vincent 2011, A connection between score matching and denoising autoencoders; Song et al. 2021
    (arXiv:2011.13456), equation 7.
    """

    def noise_of(t: Tensor, x: Tensor) -> Tensor:
        return -schedule.at(t).sigma * model(t, x)

    return matching_loss(noise_of, schedule, "epsilon", x, t, noise)


class NormalPath(nn.Module):
    r"""Data from $N(m, S)$ on their way to noise: at time t they are $N(\alpha m, C)$, $C = \alpha^2 S + \sigma^2 I$.

    A model for `ProbabilityFlow` that is the right one for such data, in closed form:
    $\hat x_0 = m + \alpha S C^{-1} (x - \alpha m)$, $\hat\epsilon = \sigma C^{-1} (x - \alpha m)$, and the score
    is $-C^{-1} (x - \alpha m)$.
    Shapes: mean `(D,)`, covariance `(D, D)`, positive definite; t without axes, x `(N, D)`.
    """

    mean: Tensor
    covariance: Tensor

    def __init__(
        self,
        mean: Tensor,
        covariance: Tensor,
        schedule: Schedule,
        prediction: Prediction = "velocity",
    ) -> None:
        super().__init__()
        self.schedule, self.prediction = schedule, prediction
        self.register_buffer("mean", mean)
        self.register_buffer("covariance", covariance)

    def marginal(self, t: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean and covariance at a time, $\alpha m$ and $\alpha^2 S + \sigma^2 I$."""
        alpha, sigma, *_ = self.schedule.at(t)
        unit = torch.eye(len(self.mean), dtype=self.mean.dtype, device=self.mean.device)
        return alpha * self.mean, alpha.square() * self.covariance + sigma.square() * unit

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        """The prediction of each row, `(N, D)`."""
        check_event(x, tuple(self.mean.shape), "normal data")
        mean, covariance = self.marginal(t)
        scaled: Tensor = torch.linalg.solve(covariance, (x - mean).mT).mT
        alpha, sigma, *_ = self.schedule.at(t)
        p, q = shares(self.schedule, self.prediction, t)
        predicted: Tensor = p * (self.mean + alpha * scaled @ self.covariance) + q * sigma * scaled
        return predicted

    def log_prob(self, t: Tensor, x: Tensor) -> Tensor:
        """The log-density at a time, `(N,)`."""
        mean, covariance = self.marginal(t)
        squares = over_event((x - mean) * torch.linalg.solve(covariance, (x - mean).mT).mT)
        return -0.5 * (squares + torch.logdet(covariance) + len(self.mean) * LOG_2_PI)
