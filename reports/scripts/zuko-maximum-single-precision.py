"""zuko 1.6.0: the log-density of Maximum loses its digits in single precision in the lower tail.

Documented is the distribution of the maximum of n draws; no precision is named.
"""

import sys

import torch
from torch.distributions import Normal
from zuko.distributions import Maximum

x = torch.tensor([-5.5])
single = Maximum(Normal(torch.tensor(0.0), torch.tensor(1.0)), 3).log_prob(x).item()
zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
double = Maximum(Normal(zero, one), 3).log_prob(x.double()).item()
# The bug: the density holds log F(x), with F = (1 + erf(x / sqrt(2))) / 2, which in float32 has one
# digit at -5.5; torch.special.log_ndtr has them all.
exact = Normal(zero, one).log_prob(x.double()) + 2 * torch.special.log_ndtr(x.double())
expected = (exact + torch.log(torch.tensor(3.0))).item()
print(f"log_prob(-5.5): {single:.6f} in float32, {double:.6f} in float64, exact {expected:.6f}")
off = single - double
print(f"off by {off:.6g}")
wrong = abs(off) > 0.01 * (1 + abs(double))
print("VIOLATED dtype/accurate[digits]" if wrong else "holds")
sys.exit(wrong)
