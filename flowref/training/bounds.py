"""Flows with stochastic layers: training uses a lower bound of the log-density where latents are
drawn, and reports use a tighter one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from flowref.reference import Flow, KernelFlow

# Draws of latents for each point: for early stopping and plots, and for the reported value.
FEW, MANY = 8, 64


class DrawnFlow(KernelFlow):
    """A flow of kernels with the interface of `Flow`, and samples from a generator."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data ``x`` ``(n, *event)`` to latents, with the contributions of the layers: ``(z, V)``,
        V ``(n,)``.
        """
        z, contribution = self.kernel(x)
        return z, contribution

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws n events ``(n, *event)``."""
        with seeded_layers(self, generator):
            return super().sample(n)


AnyFlow = Flow | DrawnFlow


@contextlib.contextmanager
def seeded_layers(flow: AnyFlow, generator: torch.Generator | None) -> Iterator[None]:
    """Draw all random numbers of the layers inside from ``generator``; torch's own state is
    unchanged. The generator is not used for a flow without random layers.
    """
    if generator is None or not isinstance(flow, DrawnFlow):
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def log_density(flow: AnyFlow, x: Tensor, draws: int = FEW) -> Tensor:
    """The log-density ``(n,)`` of each row, in nats; where latents are drawn, the logarithm of the
    mean importance weight over ``draws`` of them, a lower bound.
    """
    if isinstance(flow, DrawnFlow) and flow.lower_bound:
        return flow.importance_bound(x, draws)
    return flow.log_prob(x)
