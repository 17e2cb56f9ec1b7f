"""normflows 1.7.3: splines whose tails are given as a list map all beyond the tail bound to zero.

The Circular* classes give their other coordinates linear tails, which are the identity outside of
[-tail_bound, tail_bound], as they are in CoupledRationalQuadraticSpline.
"""

import math
import sys

import torch
from normflows.flows import CircularCoupledRationalQuadraticSpline, CoupledRationalQuadraticSpline

torch.set_default_dtype(torch.float64)
x = torch.tensor([[0.0, 0.0, 2 * math.pi, 0.0]])  # the third coordinate is outside of [-pi, pi]
listed = CircularCoupledRationalQuadraticSpline(4, 1, 16, ind_circ=[], tail_bound=math.pi)
plain = CoupledRationalQuadraticSpline(4, 1, 16, tail_bound=math.pi)  # tails="linear"
with torch.no_grad():
    y, _ = listed.inverse(x)
    back, _ = listed.forward(y)
    expected, _ = plain.inverse(x)
# The bug: unconstrained_rational_quadratic_spline starts from `outputs = torch.zeros_like(inputs)`.
# Its branches for tails="linear" and "circular" copy `inputs[outside_interval_mask]` into it; the
# one for a list of tails does not.
print(f"x, third coordinate:            {x[0, 2]:.6f}")
print(f"f(x), no coordinate circular:   {y[0, 2]:.6f}")
print(f"f(x), tails='linear':           {expected[0, 2]:.6f}   (beyond the bound the identity)")
print(f"inverse(f(x)):                  {back[0, 2]:.6f}   (should be x)")
off = (back - x).abs().max().item()
print(f"off by {off:.6g}")
wrong = off > 1e-9
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
