"""pyro-ppl 1.9.2: MatrixExponential returns its log-det as a single number for the whole batch.

Householder, of which the Jacobian is constant as well, returns one number per point.
"""

import sys

import torch
from pyro.distributions import Normal, TransformedDistribution
from pyro.distributions.transforms import householder, matrix_exponential

torch.set_default_dtype(torch.float64)
flow = matrix_exponential(4, iterations=64)
with torch.no_grad():
    flow.weights.copy_(torch.eye(4))  # y = e x, log-det 4
x = torch.zeros(5, 3, 4)
log_det = flow.log_abs_det_jacobian(x, flow(x))
density = TransformedDistribution(Normal(torch.zeros(3, 4), 1.0).to_event(2), [flow])
got = density.log_prob(flow(x))[0].item()
expected = Normal(0.0, 1.0).log_prob(torch.zeros(3, 4)).sum().item() - 3 * 4.0
# The bug: log_abs_det_jacobian of ConditionedMatrixExponential returns `self._trace(M)`, a tensor
# without dimensions, without expanding it to `x.shape[:-1]`.
print(f"x:                           shape {tuple(x.shape)}, 5 x 3 points")
print(f"log-det, MatrixExponential:  shape {tuple(log_det.shape)}   (should be (5, 3))")
householder_log_det = householder(4).log_abs_det_jacobian(x, x)
print(f"log-det, Householder:        shape {tuple(householder_log_det.shape)}")
print(f"log_prob of 3 vectors:       {got:.6f}   (one trace)")
print(f"expected:                    {expected:.6f}   (three)")
print(f"off by {abs(got - expected):.6g}")
wrong = log_det.shape != x.shape[:-1]
print("VIOLATED shape/one-number-per-point[log-det]" if wrong else "holds")
sys.exit(wrong)
