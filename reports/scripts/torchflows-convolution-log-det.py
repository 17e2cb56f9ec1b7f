"""torchflows 1.2.1: the invertible 1x1 convolution counts its log-det once, not once per pixel."""

import sys

import torch
from torchflows.bijections.finite.multiscale.base import Invertible1x1ConvolutionalCoupling

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
flow = Invertible1x1ConvolutionalCoupling((2, 4, 4)).eval()
x = torch.zeros(1, 2, 4, 4)
_, reported = flow.forward(x)
jacobian = torch.autograd.functional.jacobian(lambda v: flow.forward(v[None])[0][0], x[0])
expected = torch.linalg.slogdet(jacobian.reshape(32, 32)).logabsdet
# The bug: Invertible1x1ConvolutionTransformer.apply_linear multiplies the channels of every pixel
# by one matrix and returns the log-det of that matrix as invertible_linear gives it; it lacks the
# factor height * width.
print(f"reported log-det:          {reported.item():.6f}")
print(f"log|det d output/d input|: {expected.item():.6f}")
print(f"ratio:                     {expected.item() / reported.item():.6f}   (4 x 4 pixels)")
off = abs(reported.item() - expected.item())
print(f"off by {off:.6g}")
wrong = off > 1e-9
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
