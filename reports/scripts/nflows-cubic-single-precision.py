"""nflows 0.14: the log-det of a cubic spline is nan in single precision at the end of its interval.

At weights that are moved by one, as training moves them; the class names no precision that it needs.
"""

import sys

import torch
from nflows.nn.nets import ResidualNet
from nflows.transforms import PiecewiseCubicCouplingTransform

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)


def net(inputs, outputs):
    """As small as the class allows."""
    return ResidualNet(inputs, outputs, hidden_features=16, num_blocks=1)


mask = torch.tensor([1, -1, 1, -1])
flow = PiecewiseCubicCouplingTransform(mask, net, num_bins=6, tails="linear", tail_bound=2.0)
flow.eval()
generator = torch.Generator().manual_seed(5498712199227113407)
for parameter in flow.parameters():
    parameter.data += torch.randn(parameter.shape, generator=generator)
x = torch.tensor([[2.0, 0.0, 0.0, 0.0]])
exact = flow(x)
torch.set_default_dtype(torch.float32)
flow.float()
# The bug: the slope 3a s**2 + 2b s + c at the end of a bin is a small difference of large terms; in
# float32 it comes out negative, and its logarithm is nan.
single = flow(x.float())
for name, one, other in zip(("value", "log-det"), single, exact, strict=True):
    print(name, "in float32:", one.tolist(), "in float64:", other.tolist())
wrong = bool(single[1].isnan().any())
print("VIOLATED dtype/accurate[digits, many]" if wrong else "holds")
sys.exit(wrong)
