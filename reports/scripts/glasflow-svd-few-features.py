"""glasflow 0.4.1: a fresh RealNVP with linear_transform="svd" gives NaN for fewer than five inputs.

CouplingFlow builds SVDLinear with num_householder=10 for any n_inputs. The docstring lists "svd"
without a condition on n_inputs, and SVDLinear asks for an even num_householder only.
"""

import sys

import torch
from glasflow import RealNVP
from glasflow.nflows.transforms import HouseholderSequence

torch.set_default_dtype(torch.float64)
nans = []
for n_inputs in (2, 3, 4, 5, 6):
    torch.manual_seed(0)
    flow = RealNVP(n_inputs, 2, linear_transform="svd").eval()
    z = torch.linspace(-1.0, 1.0, n_inputs)[None]
    # The bug is in HouseholderSequence.__init__: the rows of `torch.eye(num_transforms // 2,
    # features)` from the number of features on are zero, and `2.0 / squared_norm` in
    # _apply_transforms divides by their norm.
    with torch.no_grad():
        back, _ = flow.forward(flow.inverse(z)[0])
        density = flow.log_prob(z)
    zeros = (HouseholderSequence(n_inputs, 10).q_vectors == 0).all(1).sum()
    off = (back - z).abs().max().item()
    print(f"{n_inputs} inputs, {zeros} of 10 Householder vectors are zero: ", end="")
    print(f"f(inverse(z)) - z is {off:.1e}, log_prob(z) {density.item():.6f}")
    nans.append(off != off)
wrong = any(nans)
print("VIOLATED map/inverse[latents]" if wrong else "holds")
sys.exit(wrong)
