"""nflows 0.14: the inverse of a quadratic spline is nan in single precision.

At weights that are moved by one, as training moves them; the class names no precision that it needs.
"""

import sys

import torch
from nflows.transforms import MaskedPiecewiseQuadraticAutoregressiveTransform

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = MaskedPiecewiseQuadraticAutoregressiveTransform(4, 16, tails="linear", tail_bound=2.0)
flow.to(torch.float64).eval()
generator = torch.Generator().manual_seed(5498712199227113407)
for parameter in flow.parameters():
    parameter.data += torch.randn(parameter.shape, generator=generator)
z = torch.tensor([[0.349, -0.272, -1.06, 0.73]])
z = z.float().double()  # numbers that float32 has
exact = flow.inverse(z)
torch.set_default_dtype(torch.float32)
flow.float()
# The bug: alpha = (-b + sqrt(b**2 - 4ac)) / 2a, in which all cancels where two heights are nearly
# equal, and 0 / 0 is nan; -2c / (b + sqrt(b**2 - 4ac)) is the same root without cancelling.
single = flow.inverse(z.float())
for name, one, other in zip(("value", "log-det"), single, exact, strict=True):
    print(name, "in float32:", one.tolist(), "in float64:", other.tolist())
wrong = bool(single[1].isnan().any())
print("VIOLATED dtype/accurate[digits, many]" if wrong else "holds")
sys.exit(wrong)
