"""normflows 1.7.3: Planar with act="leaky_relu" computes its forward log-det in float32.

Its parameters and its input are float64. inverse, and act="tanh", return float64.
"""

import sys

import torch
from normflows.flows import Planar

u = torch.tensor([[0.5, 0.1]], dtype=torch.float64)
w = torch.tensor([[0.3, 0.7]], dtype=torch.float64)
flow = Planar((2,), act="leaky_relu", u=u, w=w).double()
z = torch.tensor([[-1.0, -2.0]], dtype=torch.float64)
_, reported = flow(z)
jacobian = torch.autograd.functional.jacobian(lambda v: flow(v[None])[0][0], z[0])
expected = torch.linalg.slogdet(jacobian).logabsdet
# The bug: h_ in Planar.forward, `(x < 0) * (self.h.negative_slope - 1.0) + 1.0`, is a bool tensor
# times a Python number, which has the default dtype; its product with the 0-dimensional float64
# `torch.sum(self.w * u)` stays float32 by the promotion rules of torch.
print(f"log-det of forward:        {reported.item():.17g}, {reported.dtype}")
print(f"log|det d output/d input|: {expected.item():.17g}, {expected.dtype}")
print(f"difference:                {abs(reported.item() - expected.item()):.1e}")
wrong = reported.dtype != z.dtype
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
