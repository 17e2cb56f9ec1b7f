"""pyro-ppl 1.9.2: Sylvester computes another map than it documents, with the log-det of that one.

Documented: y = x + Q R tanh(S Q^T x + b), of which log|det| is the sum of log(1 + tanh' R_ii S_ii).
"""

import sys

import torch
from pyro.distributions.transforms import sylvester
from torch.autograd.functional import jacobian

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = sylvester(4, 2)
offs = []
# The bug: Sylvester._call multiplies row vectors by A = Q R and B = S Q^T, `matmul(x, B)` and
# `matmul(tanh(...), A)`, and so computes x + tanh(x S Q^T + b) Q R; rows need B^T and A^T.
for scale, x in ((0.0, [0.0, 0.0, 47.466605943258095, 566.0]), (1.0, [0.1, -0.2, 0.3, 0.4])):
    with torch.no_grad():
        for parameter in flow.parameters():  # as initialized, at the audit's point, and of size 1
            parameter += scale * torch.randn_like(parameter)
    x = torch.tensor(x)
    q, r, s = flow.Q(x).detach(), flow.R().detach(), flow.S().detach()
    y = flow(x[None])
    documented = x + q @ r @ torch.tanh(s @ q.T @ x + flow.b.detach())
    reported = flow.log_abs_det_jacobian(x[None], y).item()
    expected = torch.linalg.slogdet(jacobian(lambda v: flow(v[None])[0], x)).logabsdet.item()
    print(f"parameters moved by {scale}: f(x) - x  {[round(v, 6) for v in (y[0] - x).tolist()]}")
    print(f"    of the documented formula  {[round(v, 6) for v in (documented - x).tolist()]}")
    print(f"    reported log-det           {reported:.10f}")
    print(f"    log|det d output/d input|  {expected:.10f}")
    offs.append(abs(reported - expected))
    print(f"off by {offs[-1]:.6g}")
wrong = max(offs) > 1e-6  # a stabilizer of 1e-8 inside the logarithm stays below that
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
