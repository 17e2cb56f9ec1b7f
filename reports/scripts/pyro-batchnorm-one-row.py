"""pyro-ppl 1.9.2: a training batch of one row makes the moving variance of BatchNorm NaN for good.

torch.nn.BatchNorm1d refuses such a batch with a ValueError.
"""

import sys
import warnings

import torch
from pyro.distributions.transforms import BatchNorm

warnings.simplefilter("ignore")  # torch warns of var() with no degrees of freedom
torch.manual_seed(0)
norm = BatchNorm(2).train()
data = torch.randn(257, 2)  # as a loader cuts it into batches of 64: the last one has one row
for rows in data.split(64):
    norm.inv(rows)  # what log_prob of a flow calls
    # The bug: BatchNorm._inverse takes `y.var(0)`, which is NaN for one row, and blends it into
    # `self.moving_variance`, which stays NaN whatever comes later.
    print(f"after {len(rows):2d} rows moving_variance = {norm.moving_variance.tolist()}")
norm.inv(data)  # an ordinary batch does not repair it
norm.eval()
print(f"after an ordinary batch: {norm.moving_variance.tolist()}")
print(f"in eval mode: f(x) = {norm(data[0]).tolist()}, inverse(x) = {norm.inv(data[0]).tolist()}")
wrong = not bool(norm.moving_variance.isfinite().all())
print("VIOLATED state/degenerate-batch" if wrong else "holds")
sys.exit(wrong)
