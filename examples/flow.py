"""A small flow with one bug: `flowref check examples/flow.py` finds it."""

import torch


class Coupling(torch.nn.Module):
    """Affine coupling: the first half of x scales and shifts the second."""

    event_shape = (4,)

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)
        )

    def forward(self, x):
        """The latent z, and log|det dz/dx|."""
        a, b = x.chunk(2, -1)
        log_scale, shift = self.net(a).chunk(2, -1)
        return torch.cat([a, b * log_scale.exp() + shift], -1), log_scale.mean(-1)

    def inverse(self, z):
        """The point x, and log|det dx/dz|."""
        a, b = z.chunk(2, -1)
        log_scale, shift = self.net(a).chunk(2, -1)
        return torch.cat([a, (b - shift) * (-log_scale).exp()], -1), -log_scale.sum(-1)
