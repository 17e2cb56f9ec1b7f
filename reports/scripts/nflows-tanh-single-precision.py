"""nflows 0.14: the log-det of Tanh is lost in single precision from 8 on, and infinite from 9.01 on.

The class documents no range of inputs; in double precision the same begins at 19.
"""

import sys

import torch
from nflows.transforms import Tanh

x = torch.tensor([[0.0, 0.0, 8.5, 0.0]], dtype=torch.float64)
# The bug: forward takes log(1 - outputs ** 2). In float32, tanh(8.5) is one unit below 1, and the
# difference has one digit of base two; 2 (log 2 - |x| - softplus(-2 |x|)) has all of them.
expected = (2 * (torch.log(torch.tensor(2.0)) - x - torch.nn.functional.softplus(-2 * x))).sum()
single, double = Tanh()(x.float())[1], Tanh()(x)[1]
print(f"log-det at 8.5: {single.item():.6f} in float32, {double.item():.6f} in float64")
print(f"2 (log 2 - |x| - softplus(-2 |x|)): {expected.item():.6f}")
print(f"at 9.1 in float32: {Tanh()(torch.full((1, 1), 9.1))[1].item()}")
off = (single - double).item()
print(f"off by {off:.6g}")
wrong = abs(off) > 0.01
print("VIOLATED dtype/accurate[digits]" if wrong else "holds")
sys.exit(wrong)
