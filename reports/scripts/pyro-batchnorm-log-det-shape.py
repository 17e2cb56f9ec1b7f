"""pyro-ppl 1.9.2: BatchNorm returns one log-det per feature, without the batch dimensions.

Its domain and codomain are real numbers, so that the log-det of an elementwise transform is
expected, in the shape of the input; Spline, elementwise as well, returns that.
"""

import sys

import torch
from pyro.distributions import Normal, TransformedDistribution
from pyro.distributions.transforms import BatchNorm, Spline

torch.set_default_dtype(torch.float64)
norm = BatchNorm(4).eval()
torch.nn.init.constant_(norm.gamma, 2.0)  # x -> x / 2 in every coordinate, log-det -log 2
x = torch.zeros(5, 3, 4)
log_det = norm.log_abs_det_jacobian(x, norm(x))
density = TransformedDistribution(Normal(torch.zeros(3, 4), 1.0).to_event(2), [norm])
got = density.log_prob(norm(x))[0].item()
latent = Normal(0.0, 1.0).log_prob(torch.zeros(3, 4)).sum()
slope = (norm(x + 1) - norm(x))[0]  # the map is affine
expected = (latent - slope.log().sum()).item()
# The bug: BatchNorm.log_abs_det_jacobian returns `-self.constrained_gamma.log() + 0.5 *
# torch.log(var + self.epsilon)` as it is, without expanding it to the shape of x.
print(f"x:                        shape {tuple(x.shape)}")
print(f"log-det of BatchNorm:     shape {tuple(log_det.shape)}   (should be that of x)")
print(f"log-det of Spline:        shape {tuple(Spline(4).log_abs_det_jacobian(x, x).shape)}")
print(f"log_prob of 3 x 4 values: {got:.6f}   (4 terms of the log-det)")
print(f"expected:                 {expected:.6f}   (12 terms)")
print(f"off by {abs(got - expected):.6g}")
wrong = log_det.shape != x.shape
print("VIOLATED shape/one-number-per-point[log-det]" if wrong else "holds")
sys.exit(wrong)
