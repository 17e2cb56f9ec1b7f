"""botorch 0.18.1: InputStandardize of one training point is nan; Normalize and Standardize are not."""

import sys
import warnings

import torch
from botorch.models.transforms.input import InputStandardize, Normalize
from botorch.models.transforms.outcome import Standardize

warnings.simplefilter("ignore")  # torch warns of std() with no degrees of freedom
x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
# The bug: _update_coefficients takes `torch.std_mean(..., unbiased=True)`, which is nan for one row,
# and `coefficient < self.min_std` is false of nan; Standardize tests for one row.
standardize = InputStandardize(d=2).train()
standardized = standardize(x)
print(f"InputStandardize: {standardized.tolist()}, its deviations {standardize.stds.tolist()}")
print(f"Normalize:        {Normalize(d=2).train()(x).tolist()}")
print(f"Standardize:      {Standardize(m=2).train()(x)[0].tolist()}")
wrong = not bool(standardized.isfinite().all())
print("VIOLATED state/degenerate-batch" if wrong else "holds")
sys.exit(wrong)
