"""torchflows 1.2.1: the log-det of FFJORD and RNODE has no gradient, so that training leaves it out."""

import sys

import torch
from torchflows.bijections.continuous.ffjord import FFJORD

torch.manual_seed(0)
flow = FFJORD((3,), nn_kwargs={"hidden_size": 16}).train()
with torch.no_grad():
    for parameter in flow.parameters():
        parameter.mul_(1.5)
x = torch.randn(4, 3)
z, log_det = flow.forward(x.clone())
weights = [p for name, p in flow.named_parameters() if name.endswith("weight")]
# The bug: approximate_divergence calls torch.autograd.grad with create_graph=False under no_grad, so
# that each trace is a number to autograd; the log-det is a sum of these, whatever mode the flow is in.
(of_values,) = torch.autograd.grad(z.sum(), weights[-1:], retain_graph=True)
(of_log_det,) = torch.autograd.grad(log_det.sum(), weights[-1:], allow_unused=True)
recorded = 0.0 if of_log_det is None else float(of_log_det.norm())
print(f"|d z / d weight| = {of_values.norm():.4g}, |d log-det / d weight| = {recorded:.4g}")


def exact(row):
    """log|det| of the flow at one point, by its whole Jacobian."""
    return torch.autograd.functional.jacobian(
        lambda one: flow.forward(one[None])[0][0], row, create_graph=True
    ).slogdet()[1]


(gradient,) = torch.autograd.grad(sum(exact(row) for row in x), weights[-1:])
print(
    f"off by {gradient.norm() - recorded:.4g}: what it is, by whole Jacobians, less what is recorded"
)
wrong = bool(of_values.any()) and recorded == 0 and bool(gradient.norm() > 0.1)
print("VIOLATED gradient/parameters[log-det-estimate]" if wrong else "holds")
sys.exit(wrong)
