"""nessai 0.15.2: log_prob of an untrained LARS flow in eval mode depends on which batch came first.

Its base is ResampledGaussian of glasflow 0.4.1.
"""

import sys

import torch
from nessai.flows import configure_model

config = {
    "n_inputs": 3, "n_neurons": 8, "n_blocks": 2, "n_layers": 1, "ftype": "realnvp",
    "distribution": "lars",
}  # fmt: skip
torch.manual_seed(0)
flow = configure_model(config).double().eval()
x = 0.1 * torch.randn(2, 3).double()
norms, densities = [flow._distribution.norm.item()], []
with torch.no_grad():
    for first in (x, x[:1]):
        torch.manual_seed(0)
        flow._distribution.norm.fill_(-1.0)  # as it is built
        # The bug: _log_prob estimates the normalisation from as many normal draws as it was given
        # rows, and keeps it: `if self.training or self.norm < 0.0: ... self.norm = norm_batch`.
        flow.log_prob(first)
        norms.append(flow._distribution.norm.item())
        densities.append(flow.log_prob(x))
print(f"norm as built, after a batch of 2 rows in eval mode, and after one of 1 row: {norms}")
print(f"log_prob of two points after either: {[one.tolist() for one in densities]}")
print(f"they differ by {(densities[0] - densities[1]).abs().max().item():.3g}")
wrong = not torch.equal(*densities)
print("VIOLATED effects/state[eval]" if wrong else "holds")
sys.exit(wrong)
