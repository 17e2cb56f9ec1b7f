"""FrEIA 0.2: IResNetLayer makes the caller's tensor require a gradient, and leaves it so."""

import sys

import torch
from FrEIA.modules import IResNetLayer

torch.manual_seed(0)
layer = IResNetLayer([(4,)])
data = torch.randn(8, 4)
x = data.clone()
(z,), log_det = layer([x])
# The bug: IResNetLayer._jacobian sets `x[0].requires_grad = True` on the tensor that it was given,
# for the vector-Jacobian products of its estimate, and does not work on a copy of it.
print(f"before the call x.requires_grad was {data.requires_grad}; it is {x.requires_grad}")
(z.square().sum() / 2 - log_det.sum()).backward()
print(f"after a training step the data have a gradient: x.grad[0] = {x.grad[0].tolist()}")
try:
    x.mul_(2.0)
    print("x.mul_(2.0) is allowed")
except RuntimeError as error:
    print(f"x.mul_(2.0): RuntimeError: {error}")
try:
    x.numpy()
    print("x.numpy() is allowed")
except RuntimeError as error:
    print(f"x.numpy(): RuntimeError: {error}")
wrong = x.requires_grad
print("VIOLATED effects/process[input]" if wrong else "holds")
sys.exit(wrong)
