"""Markov chains as layers: each step draws, and contributes the log-ratio of the probabilities of
the backward and the forward step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from flowref.reference.inner_derivatives import differentiates
from flowref.reference.kernel import Draw, Kernel, Noise, given_or_drawn_noise

Energy = Callable[[Tensor], Tensor]


class Metropolis(Kernel):
    r"""Steps of a Metropolis chain with the density $e^{-u}$: $y = x + \sigma\eta$ is accepted where
    $v < e^{u(x) - u(y)}$, row by row.

    $V = u(y) - u(x)$ over the whole chain: by detailed balance the step back is
    $e^{u(y) - u(x)}$ times as likely as the step. The inverse is the same chain.
    ``energy``: maps x `(N, *event)` to u `(N,)`, which may be infinite where nothing lies.
    Shapes: x and z `(N, *event)`, V `(N,)`; noise: normal `(N, steps, *event)` and uniform
    `(N, steps)`.
    Raises: `ValueError` for an energy of another shape, and for a start of infinite energy.
    Source: Wu et al. 2020, Stochastic Normalizing Flows (arXiv:2002.06707).
    """

    stochastic_forward = stochastic_inverse = True

    def __init__(self, energy: Energy, steps: int = 1, size: float = 0.01) -> None:
        super().__init__()
        if steps < 1 or not size > 0:
            raise ValueError(f"got steps={steps}, size={size}; expected positive numbers")
        self.energy, self.steps, self.size = energy, steps, size

    def forward_draws(self, x: Tensor) -> tuple[Draw, ...]:
        """Proposals and thresholds of all steps."""
        return Draw("normal", (self.steps, *x.shape[1:])), Draw("uniform", (self.steps,))

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """Proposals and thresholds of all steps."""
        return self.forward_draws(z)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""
        proposals, thresholds = given_or_drawn_noise(noise, self.forward_draws(x), x)
        before = energy_of(self.energy, x)
        if bool(before.isposinf().any()):
            raise ValueError(
                "got a point of infinite energy; a chain has no density to start in there"
            )
        now = before
        for step in range(self.steps):
            y = x + self.size * proposals[:, step]
            there = energy_of(self.energy, y)
            # By selection: a rejected infinity must not remain. NaN is rejected.
            accepted = thresholds[:, step] < torch.exp((now - there).clamp(max=0.0))
            x = torch.where(accepted.view(-1, *[1] * (x.dim() - 1)), y, x)
            now = torch.where(accepted, there, now)
        return x, now - before

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`."""
        x, contribution = self(z, noise)
        return x, contribution


class Langevin(Kernel):
    r"""A step of overdamped Langevin dynamics: $y = x - h\,\nabla u(x) + \sqrt{2h/\beta}\,\eta$,
    always accepted.

    The step back from y needs the noise
    $\tilde\eta = \sqrt{h\beta/2}\,(\nabla u(x) + \nabla u(y)) - \eta$, and
    $V = \tfrac12 (\|\eta\|^2 - \|\tilde\eta\|^2)$. The inverse is the same chain.
    ``energy``: maps x `(N, *event)` to u `(N,)`, differentiable.
    Shapes: x and z `(N, *event)`, V `(N,)`; noise: normal `(N, steps, *event)`.
    Source: Wu et al. 2020, Stochastic Normalizing Flows (arXiv:2002.06707).
    """

    stochastic_forward = stochastic_inverse = True

    def __init__(
        self, energy: Energy, steps: int = 1, size: float = 0.01, beta: float = 1.0
    ) -> None:
        super().__init__()
        if steps < 1 or not (size > 0 and beta > 0):
            raise ValueError(
                f"got steps={steps}, size={size}, beta={beta}; expected positive numbers"
            )
        self.energy, self.steps, self.size, self.beta = energy, steps, size, beta

    def forward_draws(self, x: Tensor) -> tuple[Draw, ...]:
        """The noise of each step."""
        return (Draw("normal", (self.steps, *x.shape[1:])),)

    def inverse_draws(self, z: Tensor) -> tuple[Draw, ...]:
        """The noise of each step."""
        return self.forward_draws(z)

    def forward(self, x: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, V)`."""
        (normal,) = given_or_drawn_noise(noise, self.forward_draws(x), x)
        total = x.new_zeros(len(x))
        slope = gradient(self.energy, x)
        for step in range(self.steps):
            eta = normal[:, step]
            y = x - self.size * slope + math.sqrt(2 * self.size / self.beta) * eta
            there = gradient(self.energy, y)
            back = math.sqrt(self.size * self.beta / 2) * (slope + there) - eta
            total = total + 0.5 * (eta.square() - back.square()).flatten(1).sum(1)
            x, slope = y, there
        return x, total

    def inverse(self, z: Tensor, noise: Noise = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, V')`."""
        x, contribution = self(z, noise)
        return x, contribution


def energy_of(energy: Energy, x: Tensor) -> Tensor:
    """The energy of each row, `(N,)`; raises `ValueError` for other shapes."""
    value = energy(x)
    if value.shape != (len(x),):
        raise ValueError(f"the energy gave shape {tuple(value.shape)}; expected {(len(x),)}")
    return value


@differentiates
def gradient(energy: Energy, x: Tensor) -> Tensor:
    """The gradient of the energy at each row, `(N, *event)`, with a graph if gradients are
    enabled.
    """
    kept = torch.is_grad_enabled()
    with torch.enable_grad():
        point = x if x.requires_grad and kept else x.detach().requires_grad_()
        value = energy_of(energy, point).sum()
        if not value.requires_grad:  # a constant energy
            return torch.zeros_like(x)
        (slope,) = torch.autograd.grad(value, point, create_graph=kept, materialize_grads=True)
    return slope if kept else slope.detach()
