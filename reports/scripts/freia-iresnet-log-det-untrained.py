"""FrEIA 0.2: the log-det of IResNetLayer has no gradient, so that training leaves it out."""

import sys

import torch
from FrEIA.modules import IResNetLayer

torch.manual_seed(0)
layer = IResNetLayer([(3,)], hutchinson_samples=2000)
with torch.no_grad():
    for parameter in layer.parameters():
        parameter.mul_(1.5)
layer.lipschitz_correction()
x = torch.randn(4, 3)
z, log_det = layer([x])
# The bug: IResNetLayer._jacobian calls torch.autograd.grad without create_graph=True, so that the
# series of traces is a number to autograd, whatever mode the layer is in.
print(f"z requires a gradient: {z[0].requires_grad}; log_det requires one: {log_det.requires_grad}")

# What the gradient is: of log|det| by whole Jacobians, in the weights of the last layer.
weight = layer.residual[-1].weight


def exact(row):
    """log|det| of the layer at one point."""
    return torch.autograd.functional.jacobian(
        lambda one: one + layer.residual(one), row, create_graph=True
    ).slogdet()[1]


value = torch.stack([exact(row) for row in x])
print(
    f"log-dets   : {log_det.detach().numpy().round(3)} estimated, {value.detach().numpy().round(3)}"
)
(gradient,) = torch.autograd.grad(value.sum(), weight)
print(f"off by {gradient.norm():.4g}: |d log-det / d weight|, which training leaves out")
wrong = not log_det.requires_grad and bool(gradient.norm() > 0.1)
print("VIOLATED gradient/parameters[log-det-estimate]" if wrong else "holds")
sys.exit(wrong)
