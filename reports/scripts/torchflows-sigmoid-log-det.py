"""torchflows 1.2.1: the sigmoidal transformers report a log-det that is not that of their map.

Documented: z = inv_sigmoid(w . sigmoid(a x + b)), for |x| < 10; the values follow it.
"""

import sys

import torch
from torchflows.bijections.finite.autoregressive.layers import DeepSigmoidalCoupling

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = DeepSigmoidalCoupling((4,))
x = torch.zeros(1, 4)
y, reported = flow.forward(x)
jacobian = torch.autograd.functional.jacobian(lambda v: flow.forward(v[None])[0][0], x[0])
expected = torch.linalg.slogdet(jacobian).logabsdet
# The bug: in Sigmoid.forward_1d `log_t1 = torch.log(d) - torch.log(1 - d)` should be -log d -
# log(1 - d), as logit'(d) = 1 / (d (1 - d)); and `torch.sum(log_t1 + ... + log_t4, dim=1)` should
# be a logsumexp, as the derivative of w . sigmoid(a x + b) is a sum over the hidden units.
print(f"x:                            {x[0].tolist()}")
print(f"diagonal of d output/d input: {[round(v, 6) for v in jacobian.diagonal().tolist()]}")
print(f"reported log-det:             {reported.item():.6f}")
print(f"log|det d output/d input|:    {expected.item():.6f}")
off = abs(reported.item() - expected.item())
print(f"off by {off:.6g}")
wrong = off > 1e-9
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
