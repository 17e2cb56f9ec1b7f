"""Flows with layers that draw or forget: what is trained is a lower bound of the log-density where
latents are drawn, and what is reported a tighter one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from flowref.reference import Flow, KernelFlow

# How many latents are drawn for each point: to stop by and for pictures, and for the value that is
# reported.
FEW, MANY = 8, 64


class DrawnFlow(KernelFlow):
    """A flow of kernels that is used like `Flow`: samples and latents by a generator."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents with what the layers contribute, `(z, V)`."""
        z, contribution = self.kernel(x)
        return z, contribution

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n events."""
        with seeded_layers(self, generator):
            return super().sample(n)


AnyFlow = Flow | DrawnFlow


@contextlib.contextmanager
def seeded_layers(flow: AnyFlow, generator: torch.Generator | None) -> Iterator[None]:
    """What layers draw here follows from a generator, and torch's own is left as it is; nothing is
    taken of the generator for a flow that draws nothing.
    """
    if generator is None or not isinstance(flow, DrawnFlow):
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def log_density(flow: AnyFlow, x: Tensor, draws: int = FEW) -> Tensor:
    """The log-density of each row; where latents are drawn, the mean over so many before the logarithm."""
    if isinstance(flow, DrawnFlow) and flow.lower_bound:
        return flow.importance_bound(x, draws)
    return flow.log_prob(x)
