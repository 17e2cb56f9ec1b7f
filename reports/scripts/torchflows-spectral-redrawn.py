"""torchflows 1.2.1: residual blocks map the same points elsewhere in each call, in eval mode too.

Spectral normalization divides a weight by its largest singular value, which five steps of a power
iteration estimate from a vector that is drawn anew in every call, and that has not settled by then.
"""

import sys

import torch
from torchflows.bijections.finite.residual.iterative import InvertibleResNetBlock

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
block = InvertibleResNetBlock((4,)).eval()
x = torch.randn(3, 4)
# The bug: SpectralMatrix.power_iteration starts from `u = torch.randn(...)` in every call, where the
# spectral normalization that it cites keeps u from one step of training to the next.
first, again = (block.forward(x, skip_log_det=True)[0] for _ in range(2))
print(f"f(x) {first[0].tolist()}")
print(f"and again {again[0].tolist()}")
off = (first - again).abs().max().item()
print(f"off by {off:.6g}")
wrong = off > 1e-9
print("VIOLATED same/history[repeat]" if wrong else "holds")
sys.exit(wrong)
