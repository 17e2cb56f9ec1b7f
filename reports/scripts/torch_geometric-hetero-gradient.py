"""torch_geometric 2.8.1: gradients do not pass through the statistics of HeteroBatchNorm.

BatchNorm computes the same of nodes of one type, and has them.
"""

import sys

import torch
from torch_geometric.nn import BatchNorm, HeteroBatchNorm

torch.manual_seed(0)
start, types = torch.randn(8, 3, dtype=torch.float64), torch.zeros(8, dtype=torch.long)
weights = torch.randn(8, 3, dtype=torch.float64)
values, gradients = [], []
for norm in (BatchNorm(3).double(), HeteroBatchNorm(3, num_types=1).double()):
    x = start.clone().requires_grad_()
    y = norm(x, types) if isinstance(norm, HeteroBatchNorm) else norm(x)
    # The bug: forward computes `mean, var = self.mean_var(x, type_vec, dim_size=self.num_types)` within
    # torch.no_grad(), so that statistics of the batch count as constants.
    (weights * y).sum().backward()
    values.append(y.detach())
    gradients.append(x.grad)
    print(f"{type(norm).__name__}: sums of gradients over the batch {x.grad.sum(0).tolist()}")
apart = (values[0] - values[1]).abs().max().item()
off = (gradients[0] - gradients[1]).abs().max().item()
print(f"outputs differ by {apart:.2g}, gradients are off by at most {off:.2g}")
wrong = off > 1e-2 > apart
print("VIOLATED batch-norm/gradient" if wrong else "holds")
sys.exit(wrong)
