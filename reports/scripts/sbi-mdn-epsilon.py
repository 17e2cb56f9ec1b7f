"""sbi 0.27.0: the density of build_mdn does not integrate to one.

epsilon enters the precision of the exponent alone. Wide components show it best: here of deviation 20.
"""

import math
import sys

import torch
from sbi.neural_nets.net_builders import build_mdn

torch.manual_seed(0)
theta, x = torch.randn(200, 1).double(), torch.randn(200, 1).double()
flow = build_mdn(theta, x, num_components=1, z_score_x="none").double().eval()
condition = torch.zeros(1, 1).double()
width, epsilon = 20.0, flow.net._epsilon
with torch.no_grad():  # what training does for parameters in units of their own
    layer = flow.net._unconstrained_diagonal_layer
    layer.weight.zero_()
    layer.bias.fill_(math.log(math.expm1(1 / width - epsilon)))
    grid = torch.linspace(-1000, 1000, 200_001).double()
    density = flow.log_prob(grid[:, None, None], condition)[:, 0].exp()
# The bug: MultivariateGaussianMDN.get_mixture_components adds epsilon to the diagonal of
# `precisions`, and hands MoG the `precision_factors` without it, whose diagonal gives the
# determinant in log_prob and whose inverse draws samples.
mass = torch.trapezoid(density, grid).item()
print(f"integral of exp(log_prob): {mass:.6f}")
print(f"1 / sqrt(1 + epsilon width^2): {1 / math.sqrt(1 + epsilon * width**2):.6f}")
wrong = abs(mass - 1) > 1e-4
print("VIOLATED density/mass" if wrong else "holds")
sys.exit(wrong)
