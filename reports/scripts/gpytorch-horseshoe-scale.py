"""gpytorch 1.15.2: HorseshoePrior.log_prob lacks -log(scale): its mass is the scale, and not one.

What is left of one at scale 1 is the documented mean of two bounds.
"""

import sys

import torch
from gpytorch.priors import HorseshoePrior

masses = []
for scale in (0.1, 0.3, 1.0, 3.0):
    prior = HorseshoePrior(torch.tensor(scale, dtype=torch.float64))
    # In s = asinh(x / scale), where the spike at 0 and the tails are smooth.
    s = torch.linspace(-25, 25, 400_000, dtype=torch.float64)
    x = scale * torch.sinh(s)
    # The bug: log_prob returns the log of the mean of the bounds of the density of x / scale, as
    # `torch.log((lb + ub) / 2)`, and does not divide it by scale.
    masses.append(torch.trapezoid(prior.log_prob(x).exp() * scale * torch.cosh(s), s).item())
    print(f"scale {scale}: integral of exp(log_prob) {masses[-1]:.6f}")
print(f"the first, over its scale, {masses[0] / 0.1:.6f}; that at scale 1 {masses[2]:.6f}")
wrong = abs(masses[0] - masses[2]) > 0.5
print("VIOLATED density/mass" if wrong else "holds")
sys.exit(wrong)
