"""nflows 0.14: LeakyReLU in float64 returns a float32 log-det, rounded to float32.

The class has no documentation. The copy in glasflow 0.4.1 (glasflow.nflows) is the same.
"""

import sys

import numpy as np
import torch
from nflows.transforms import LeakyReLU

relu = LeakyReLU(negative_slope=0.01).double()
x = torch.tensor([[0.0, -0.08303141503038838, 0.0, 0.0]], dtype=torch.float64)

# The bug is twofold: in forward and inverse `(inputs < 0).type(torch.Tensor)` has the default dtype
# and not that of inputs; and log_negative_slope, made in __init__, is no buffer, so that .double()
# does not reach it.
y, forward = relu(x)
_, inverse = relu.inverse(y)
expected = np.log(0.01)  # one negative coordinate
print(f"forward: value {y.dtype}, log-det {forward.dtype} {forward.item():+.12f}")
print(f"inverse: log-det {inverse.dtype} {inverse.item():+.12f}")
print(f"log 0.01 = {expected:+.12f}; forward is off by {abs(forward.item() - expected):.1e}")
wrong = forward.dtype != y.dtype or inverse.dtype != y.dtype
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
