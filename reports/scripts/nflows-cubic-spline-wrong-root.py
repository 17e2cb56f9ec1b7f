"""nflows 0.14: the inverse of the cubic spline may return a root outside the bin.

Of three real roots it takes one in the bin widened by eps = 1e-5 on both sides. Where the slope at
an edge is small, two lie there. eps is not documented, nor offered by the transform. The copy in
glasflow 0.4.1 (glasflow.nflows) does the same.
"""

import sys

import torch
from nflows.transforms import MaskedPiecewiseCubicAutoregressiveTransform
from nflows.transforms.base import InputOutsideDomain

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = MaskedPiecewiseCubicAutoregressiveTransform(num_bins=6, features=4, hidden_features=16)
generator = torch.Generator().manual_seed(5498712199227113407)
for parameter in flow.parameters():
    parameter.data += torch.randn(parameter.shape, generator=generator)
x = torch.tensor([[0.999999, 0.2, 1e-6, 0.125]])

# The bug is in splines.cubic.cubic_spline: root1_mask, root2_mask and root3_mask are 1 for roots
# within eps of the bin, and `torch.argsort(masks, descending=True)` decides between two such roots.
with torch.no_grad():
    y, _ = flow(x)
    back, _ = flow.inverse(y)
    print(f"x             = {x[0].tolist()}")
    print(f"f(x)          = {y[0].tolist()}")
    print(f"inverse(f(x)) = {back[0].tolist()}")
    off = (back - x).abs().max().item()
    print(f"off by {off:.6g}")
    print(f"all of it lies in [0, 1]: {bool((back == back.clamp(0, 1)).all())}")
    try:
        flow(back)
    except InputOutsideDomain:
        print("f(inverse(f(x))) raises InputOutsideDomain")
wrong = off > 1e-9
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
