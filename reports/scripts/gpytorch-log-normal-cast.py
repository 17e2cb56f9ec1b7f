"""gpytorch 1.15.2: casts and moves of LogNormalPrior do not reach what it computes with.

NormalPrior, whose buffers are its parameters, follows them.
"""

import sys

import torch
from gpytorch.priors import LogNormalPrior, NormalPrior

dtypes = {}
for prior in (NormalPrior(0.3, 0.7), LogNormalPrior(0.3, 0.7)):
    prior.double()
    # The bug: _bufferize_attributes registers copies (_buffered_loc) of the parameters of a
    # TransformedDistribution; log_prob and rsample use those of base_dist, which is no module, so that
    # .double(), .float() and .to(device) leave them where they were.
    base = getattr(prior, "base_dist", prior)
    buffers = {str(buffer.dtype) for buffer in prior.buffers()}
    dtypes[type(prior).__name__] = prior.sample().dtype
    print(f"{type(prior).__name__}.double(): buffers {buffers}, loc {base.loc.dtype}")
    print(f"  a sample has {dtypes[type(prior).__name__]}")
wrong = dtypes["NormalPrior"] == torch.float64 != dtypes["LogNormalPrior"]
print("VIOLATED same/saved[cast]" if wrong else "holds")
sys.exit(wrong)
