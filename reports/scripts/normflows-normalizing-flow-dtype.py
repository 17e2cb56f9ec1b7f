"""normflows 1.7.3: NormalizingFlow adds up the log-dets of a float64 flow in float32.

forward_and_log_det and inverse_and_log_det are affected; log_prob of the same class is not, as it
gives its zeros the dtype of the input.
"""

import sys

import torch
from normflows import NormalizingFlow
from normflows.distributions import DiagGaussian
from normflows.flows import AffineConstFlow

layers = [AffineConstFlow((2,)).double() for _ in range(2)]
for layer in layers:
    torch.nn.init.constant_(layer.s, 0.1)  # z -> z exp(0.1), log-det 0.2 in two features
flow = NormalizingFlow(DiagGaussian(2), layers).double()
z = torch.ones(1, 2, dtype=torch.float64)
with torch.no_grad():
    _, total = flow.forward_and_log_det(z)
    expected = sum(layer(z)[1] for layer in layers)  # constant log-dets: z does not matter
# The bug: `log_det = torch.zeros(len(z), device=z.device)` in both methods has no `dtype=z.dtype`,
# and `log_det += log_d` rounds each partial sum to it.
print(f"log-det of the flow:         {total.item():.17g}, {total.dtype}")
print(f"sum of its layers' log-dets: {expected.item():.17g}, {expected.dtype}")
print(f"off by {abs(total.item() - expected.item()):.6g}")
wrong = total.dtype != z.dtype
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
