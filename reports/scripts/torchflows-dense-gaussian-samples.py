"""torchflows 1.2.1: DenseGaussian, and mixtures of them, cannot draw three samples at once."""

import sys

import torch
from torchflows.base_distributions.gaussian import DenseGaussian

base = DenseGaussian(torch.zeros(2), torch.tensor([[2.0, 0.5], [0.5, 1.0]]))
try:
    shape = tuple(base.sample((3,)).shape)
    print(f"three samples: {shape}")
    wrong = shape != (3, 2)
except RuntimeError as error:
    # The bug: `self.cholesky @ flat_noise` multiplies a (2, 2) matrix by noise of shape (3, 2); the
    # other order, `flat_noise @ self.cholesky.T`, is meant. `.view_as(loc)` would fail next, since
    # loc has an axis of one where the samples have three.
    print(f"three samples: {type(error).__name__}: {error}")
    wrong = True
print("VIOLATED shape/one-number-per-point[samples]" if wrong else "holds")
sys.exit(wrong)
