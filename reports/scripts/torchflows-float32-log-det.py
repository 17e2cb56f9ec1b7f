"""torchflows 1.2.1: layers that preserve volume return zeros of the default dtype as log-det.

The number is right, the type is not; scaling layers and triangular matrices follow the weights.
"""

import sys

import torch
from torchflows.bijections.finite import matrix
from torchflows.bijections.finite.autoregressive import layers

x = torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64)
kinds = [layers.ElementwiseShift, layers.ShiftCoupling, matrix.IdentityMatrix]
kinds += [matrix.ReversePermutationMatrix, matrix.HouseholderProductMatrix]
wrong = False
# The bug: `torch.zeros(batch_shape, device=x.device)` in Shift.forward and Shift.inverse, and
# `torch.zeros(1).to(self.device_buffer.device)` in log_det_project of the matrices, have no dtype.
for kind in kinds:
    flow = kind((4,)).double()
    for name, call in (("forward", flow.forward), ("inverse", flow.inverse)):
        value, log_det = call(x)
        print(f"{kind.__name__}.{name}: {value.dtype}, log-det {log_det.item()}, {log_det.dtype}")
        wrong |= log_det.dtype != x.dtype
print(f"the log-dets should be {x.dtype}, as the inputs and the weights are")
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
