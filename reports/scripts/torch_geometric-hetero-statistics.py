"""torch_geometric 2.8.1: HeteroBatchNorm averages biased variances, and eps is a least variance in it.

BatchNorm computes the same of nodes of one type: it averages unbiased variances, and adds eps.
"""

import sys

import torch
from torch_geometric.nn import BatchNorm, HeteroBatchNorm

torch.manual_seed(0)
x, types = 0.01 * torch.randn(4, 2, dtype=torch.float64), torch.zeros(4, dtype=torch.long)
plain, hetero = BatchNorm(2).double(), HeteroBatchNorm(2, num_types=1).double()
# The bug: forward writes `out = (x - mean[type_vec]) / var.clamp(self.eps).sqrt()[type_vec]` where eps
# is "a value added to the denominator", and takes var, which is biased, into running_var as it is.
gap = (plain(x) - hetero(x, types)).abs().max().item()
print(f"x of deviation 0.01: outputs differ by {gap:.6g}")
# Both start from a running variance of 1, of which nine tenths are left.
unbiased, found = (one - 0.9 for one in (plain.module.running_var, hetero.running_var[0]))
ratio = (found / unbiased).mean().item()
print(f"what a batch of 4 nodes adds to running_var: {ratio:.6g} of what it should")
wrong = gap > 1e-3 and abs(ratio - 1) > 1e-3
print("VIOLATED batch-norm/train-map[reference]" if wrong else "holds")
sys.exit(wrong)
