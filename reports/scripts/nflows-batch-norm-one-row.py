"""nflows 0.14: a training batch of one row makes the running variance of BatchNorm NaN for good.

The copy in glasflow is the same. torch.nn.BatchNorm1d refuses such a batch with a ValueError.
"""

import sys
import warnings

import torch
from nflows.transforms import BatchNorm

warnings.simplefilter("ignore")  # torch warns of var() with no degrees of freedom
torch.manual_seed(0)
norm = BatchNorm(2).train()
data = torch.randn(257, 2)  # as a loader cuts it into batches of 64: the last one has one row
for rows in data.split(64):
    norm(rows)
    # The bug: BatchNorm.forward takes `inputs.var(0)`, which is NaN for one row, and blends it into
    # `self.running_var`, which stays NaN whatever comes later.
    print(f"after a batch of {len(rows):2d} rows running_var = {norm.running_var.tolist()}")
norm(data)  # an ordinary batch does not repair it
y, log_det = norm.eval()(data[:1])
print(f"after an ordinary batch:  running_var = {norm.running_var.tolist()}")
print(f"in eval mode: f(x) = {y.tolist()}, log-det = {log_det.tolist()}")
wrong = not bool(norm.running_var.isfinite().all())
print("VIOLATED state/degenerate-batch" if wrong else "holds")
sys.exit(wrong)
