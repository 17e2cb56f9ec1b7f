"""torchflows 1.2.1: masked autoregressive inverses take their log-det where x is solved already.

Only the log-det of the last coordinate is taken at z; at initialization it is a matter of 1e-6 to
1e-3 for splines, and of the numbers below for UMNN.
"""

import sys

import torch
from torchflows.bijections.finite.autoregressive.layers import UMNNMaskedAutoregressive

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = UMNNMaskedAutoregressive((4,))
offs = []
# The bug: MaskedAutoregressiveBijection.inverse returns the log_det of its last pass over
# `apply_conditioner_transformer(x_clone, context, False)`. There all coordinates but the last have
# been replaced by x already, so that the inverse transformer is differentiated at x_j, not at z_j.
for x in ([0.0, 0.0, 1.0, 1.0], [0.0, 0.0, -20.5, -20.5]):
    x = torch.tensor([x])
    z, forward = flow.forward(x.clone())
    back, inverse = flow.inverse(z.detach())
    jacobian = torch.autograd.functional.jacobian(lambda v: flow.forward(v[None])[0][0], x[0])
    expected = -torch.linalg.slogdet(jacobian).logabsdet
    print(f"x:                             {x[0].tolist()}")
    print(f"inverse(f(x)) - x, at most:    {(back - x).abs().max().item():.1e}")
    print(f"log-det of forward:            {forward.item():+.6f}")
    print(f"log-det of inverse:            {inverse.item():+.6f}")
    print(f"-log|det d forward/d input|:   {expected.item():+.6f}")
    offs.append(abs(inverse.item() + forward.item()))
    print(f"off by {offs[-1]:.6g}")
wrong = max(offs) > 1e-3  # the bisection stops at 1e-6
print("VIOLATED map/log-det[antisymmetry]" if wrong else "holds")
sys.exit(wrong)
