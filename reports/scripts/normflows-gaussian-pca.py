"""normflows 1.7.3: GaussianPCA is no density: its constant has the wrong sign, and it subtracts half
the determinant of the covariance in place of half its logarithm.
"""

import sys

import torch
from normflows.distributions.base import GaussianPCA

base = GaussianPCA(2, 2, 1.0).double()  # x = z W + noise of deviation 1: covariance W'W + 1
torch.nn.init.zeros_(base.W)  # covariance 1: the standard normal
axis = torch.linspace(-12, 12, 481, dtype=torch.float64)
grid = torch.cartesian_prod(axis, axis)
with torch.no_grad():
    mass = base.log_prob(grid).exp().sum().item() * (axis[1] - axis[0]).item() ** 2
    at_zero = base.log_prob(torch.zeros(1, 2, dtype=torch.float64)).item()
exact = torch.distributions.MultivariateNormal(torch.zeros(2).double(), torch.eye(2).double())
# The bug: log_prob (and forward) start from `self.dim / 2 * np.log(2 * np.pi)`, which is to be
# subtracted, and go on with `- 0.5 * torch.det(Sig)`, where `- 0.5 * torch.logdet(Sig)` is meant.
# Samples lack the noise as well: forward draws `eps @ W + loc`.
print(f"log p(0) of GaussianPCA:   {at_zero:.6f}")
print(f"log p(0) of that normal:  {exact.log_prob(torch.zeros(2).double()).item():.6f}")
print(f"integral of its density:  {mass:.6g}   (should be 1)")
print(f"off by {abs(mass - 1):.6g}")
wrong = abs(mass - 1) > 1e-6
print("VIOLATED density/mass" if wrong else "holds")
sys.exit(wrong)
