"""flow_matching 1.0.10: gradients of compute_likelihood pass the field by, also with enable_grad=True.

Without the option there are none at all; with it they are those of log_p0 at the source, as they are there.
"""

import sys

import torch
from flow_matching.solver import ODESolver

torch.manual_seed(0)
mixing = torch.tensor([[-0.4, 0.7], [-0.5, 0.2]], dtype=torch.float64)
solver = ODESolver(lambda x, t: torch.tanh(x @ mixing))
x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)


def log_likelihood(points):
    # The bug: dynamics_func returns `ut.detach(), div.detach()`, so that the source is the target plus
    # constants to autograd, and the log-det a constant, whatever enable_grad says.
    return solver.compute_likelihood(
        points, lambda z: -0.5 * z.square().sum(1), step_size=0.05, method="rk4", exact_divergence=True, enable_grad=True
    )[1]  # fmt: skip


(gradient,) = torch.autograd.grad(log_likelihood(x).sum(), x)
step = 1e-5 * torch.eye(2, dtype=torch.float64)
quotients = [(log_likelihood(x + one) - log_likelihood(x - one)).detach() / 2e-5 for one in step]
found = torch.stack(quotients, 1)
print(f"autograd {gradient[0].tolist()}, difference quotients {found[0].tolist()}")
print(f"apart by at most {(off := (gradient - found).abs().max().item()):.3g}")
print("VIOLATED gradient/input[value]" if off > 1e-2 else "holds")
sys.exit(off > 1e-2)
