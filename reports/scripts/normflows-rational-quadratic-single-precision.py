"""normflows 1.7.3: inverses of rational-quadratic splines lose their digits in single precision.

At weights that are moved by one, as training moves them, the log-det is off by more than a nat where
the inverse of the spline is taken (forward, of this class). No precision that it needs is named.
"""

import math
import sys

import torch
from normflows.flows import CircularAutoregressiveRationalQuadraticSpline

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = CircularAutoregressiveRationalQuadraticSpline(4, 1, 16, [0, 1], tail_bound=math.pi)
flow.to(torch.float64).eval()
generator = torch.Generator().manual_seed(5498712199227113407)
for parameter in flow.parameters():
    parameter.data += torch.randn(parameter.shape, generator=generator)
x = torch.tensor([[0.0, 0.0, -3.14, 0.0]])
x = x.float().double()  # numbers that float32 has
exact = flow.forward(x)
torch.set_default_dtype(torch.float32)
flow.float()
# The bug: the inverse solves a quadratic by b**2 - 4ac, which cancels where a spline is flat.
single = flow.forward(x.float())
for name, one, other in zip(("value", "log-det"), single, exact, strict=True):
    print(name, "in float32:", one.tolist(), "in float64:", other.tolist())
off = (single[1] - exact[1])[0].item()
print(f"off by {off:.6g}")
# A unit of float32 in the input or in a parameter moves it by less than a hundredth.
wrong = abs(off) > 0.01 * (1 + abs(exact[1][0].item()))
print("VIOLATED dtype/accurate[digits, many]" if wrong else "holds")
sys.exit(wrong)
