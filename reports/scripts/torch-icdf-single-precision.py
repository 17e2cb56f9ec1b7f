"""torch 2.13.0: Normal.icdf loses the lower tail in single precision, from probabilities of 3e-8 down.

Documented is the inverse of the cumulative distribution function; no precision is named.
"""

import sys

import torch
from torch.distributions import Normal

p = torch.tensor([0.5, 1e-4, 9.87e-10])
# The bug: icdf takes erfinv(2 p - 1), and 2 p - 1 rounds to -1 in float32 for p below 3e-8;
# torch.special.ndtri(p) works from p itself.
single = Normal(torch.tensor(0.0), torch.tensor(1.0)).icdf(p)
zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
double = Normal(zero, one).icdf(p.double())
for name, values in {
    "p": p,
    "icdf in float32": single,
    "icdf in float64": double,
    "ndtri in float32": torch.special.ndtri(p),
}.items():
    print(f"{name}: {[round(value, 10) for value in values.tolist()]}")
wrong = not bool(single.isfinite().all())
print("VIOLATED dtype/accurate[digits]" if wrong else "holds")
sys.exit(wrong)
