"""sbi 0.27.0: sample_and_log_prob of estimators of nflows hands draws of one condition to another.

Those of Zuko are right; sample was corrected in sbi pull request 1155.
"""

import sys

import torch
from sbi.neural_nets.net_builders import build_maf, build_zuko_maf

torch.manual_seed(0)
x = torch.randn(200, 1)
theta = x + 0.5 * torch.randn(200, 2)
condition = torch.tensor([[-10.0], [0.0], [10.0]])
off = {}
for build in (build_zuko_maf, build_maf):
    torch.manual_seed(1)
    flow = build(theta, x).eval()
    with torch.no_grad():
        # The bug: NFlowsFlow.sample_and_log_prob takes (conditions, n, event) of nflows and writes
        # `samples.reshape((*sample_shape, condition_batch_dim, -1))`, without the transposition
        # that sample has.
        draws, beside = flow.sample_and_log_prob((2,), condition)
        density = flow.log_prob(draws, condition)
    off[build.__name__] = (beside - density).abs().max().item()
    print(f"{build.__name__}: log-densities beside samples {beside.reshape(-1).tolist()}")
    print(f"  log_prob of them, at their conditions {density.reshape(-1).tolist()}")
print({name: f"off by at most {most:.2g}" for name, most in off.items()})
wrong = off["build_maf"] > 1e-3 > off["build_zuko_maf"]
print("VIOLATED density/change-of-variables[samples]" if wrong else "holds")
sys.exit(wrong)
