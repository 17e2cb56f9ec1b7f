"""normflows 1.7.3: Uniform keeps its bounds and its log-density in float32 after .double()."""

import math
import sys

import torch
from normflows.distributions.base import Uniform

base = Uniform(3, low=0.0, high=0.1).double()
z = torch.full((1, 3), 0.05, dtype=torch.float64)
# The bug: Uniform.__init__ keeps `torch.tensor(low)` and `torch.tensor(high)`, which are no buffers,
# so that .double() does not reach them, and computes log_prob_val from them; log_prob multiplies it
# by `torch.ones(z.shape[0])` of the default dtype.
log_prob = base.log_prob(z)
samples, _ = base(2)
exact = -3 * math.log(0.1)
print(f"dtypes: z {z.dtype}, log_prob {log_prob.dtype}, samples {samples.dtype}")
print(f"log_prob {log_prob.item():.12f}   (exactly {exact:.12f})")
outside = torch.tensor([[0.05, 0.05, 0.1 + 1e-9]], dtype=torch.float64)
print(f"log_prob just beyond the bound 0.1: {base.log_prob(outside).item()}   (should be -inf)")
wrong = log_prob.dtype != z.dtype
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
