"""normflows 1.7.3: Permute returns its zero log-det in the default dtype, not in that of its input.

The number is right, the type is not: a sum that is started from it stays float32.
"""

import sys

import torch
from normflows.flows import Permute

z = torch.tensor([[0.0, 1.0, 2.0, 3.0]], dtype=torch.float64)
log_dets = {}
for mode in ("swap", "shuffle"):
    flow = Permute(4, mode)
    log_dets[f"{mode}, forward"] = flow.forward(z)[1]
    log_dets[f"{mode}, inverse"] = flow.inverse(z)[1]
# The bug: `log_det = torch.zeros(len(z), device=z.device)` in Permute.forward and Permute.inverse
# has no `dtype=z.dtype`; zero_log_det_like_z, which other flows of the library call, has.
for name, log_det in log_dets.items():
    print(f"{name}: log-det {log_det.item()}, {log_det.dtype}   (should be {z.dtype})")
wrong = any(log_det.dtype != z.dtype for log_det in log_dets.values())
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
