"""sbi 0.27.0: samples of build_made do not follow its log_prob.

The network has one entry more than the parameters. log_prob sets it to 0; sampling draws it.
"""

import sys

import torch
from sbi.neural_nets.net_builders import build_made

torch.manual_seed(0)
x = torch.randn(500, 1)
theta = x + 0.1 * torch.randn(500, 1)
flow = build_made(theta, x)
optimizer = torch.optim.Adam(flow.parameters(), 3e-3)
for _ in range(150):
    optimizer.zero_grad()
    flow.loss(theta, x).mean().backward()
    optimizer.step()
flow.eval()
# The bug is in MADEMoGWrapper: _log_prob conditions on `dummy_input = torch.zeros(...)`, and _sample
# on a dummy entry drawn from the network's own mixture, which it then cuts off.
with torch.no_grad():
    condition = torch.zeros(1, 1)
    grid = torch.linspace(-8, 8, 16_001)
    density = flow.log_prob(grid[:, None, None], condition)[:, 0].exp()
    drawn = flow.sample((20_000,), condition)[:, 0, 0]
mass = torch.trapezoid(density, grid).item()
mean = torch.trapezoid(grid * density, grid).item()
spread = torch.trapezoid((grid - mean) ** 2 * density, grid).item() ** 0.5
print(f"integral of the density {mass:.4f}, standard deviation {spread:.4f}")
print(f"standard deviation of 20,000 samples {drawn.std().item():.4f}")
wrong = abs(drawn.std().item() / spread - 1) > 0.1
print("VIOLATED sampling/follows-density" if wrong else "holds")
sys.exit(wrong)
