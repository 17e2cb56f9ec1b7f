"""nflows 0.14: inverses of rational-quadratic splines lose their digits in single precision.

At weights that are moved by one, as training moves them, the log-det of an inverse is off by nats,
nan, or the call ends in an AssertionError. The class names no precision that it needs.
"""

import sys

import torch
from nflows.transforms import MaskedPiecewiseRationalQuadraticAutoregressiveTransform

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = MaskedPiecewiseRationalQuadraticAutoregressiveTransform(4, 16).to(torch.float64).eval()
generator = torch.Generator().manual_seed(5498712199227113407)
for parameter in flow.parameters():
    parameter.data += torch.randn(parameter.shape, generator=generator)
z = torch.tensor([[0.198, 0.0168, 0.998, 0.998], [0.263, 0.0346, 0.998, 0.998]])
z = z.float().double()  # numbers that float32 has
exact = flow.inverse(z)
torch.set_default_dtype(torch.float32)
flow.float()
# The bug: the inverse solves a quadratic by b**2 - 4ac, which cancels where a spline is flat; in
# float32 it has few digits or is negative (`assert (discriminant >= 0).all()`).
single = flow.inverse(z.float())
for name, one, other in zip(("value", "log-det"), single, exact, strict=True):
    print(name, "in float32:", one.tolist(), "in float64:", other.tolist())
off = (single[1] - exact[1])[0].item()
print(f"off by {off:.6g}")
# A unit of float32 in the input or in a parameter moves it by less than a hundredth.
wrong = abs(off) > 0.01 * (1 + abs(exact[1][0].item()))
print("VIOLATED dtype/accurate[digits, many]" if wrong else "holds")
sys.exit(wrong)
