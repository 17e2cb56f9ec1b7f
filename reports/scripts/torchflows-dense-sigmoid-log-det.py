"""torchflows 1.2.1: dense sigmoidal transformers add up the logs of all entries of their Jacobians.

DenseSigmoid composes vector-valued layers, so that its derivative is the product of their
Jacobian matrices; only the logarithm of that product is a log-det.
"""

import sys

import torch
from torchflows.bijections.finite.autoregressive import layers

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = layers.DenseSigmoidalForwardMaskedAutoregressive((4,))
x = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
y, reported = flow.forward(x)
jacobian = torch.autograd.functional.jacobian(lambda v: flow.forward(v[None])[0][0], x[0])
expected = torch.linalg.slogdet(jacobian).logabsdet
# The bug: `torch.sum(log_dot(m1, m2), dim=(1, 2, 3))` in DenseSigmoidInnerTransform.forward_1d is
# the sum of the logarithms of all entries, and `log_det_flat += log_det_flat_inc` in DenseSigmoid
# adds these up over the layers. In `log_t1` log d has the wrong sign, too.
print(f"x:                            {x[0].tolist()}")
print(f"diagonal of d output/d input: {[round(v, 6) for v in jacobian.diagonal().tolist()]}")
print(f"reported log-det:             {reported.item():.6f}")
print(f"log|det d output/d input|:    {expected.item():.6f}")
off = abs(reported.item() - expected.item())
print(f"off by {off:.6g}")
wrong = off > 1e-9
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
