"""torchflows 1.2.1: Flow.sample(return_log_prob=True) returns another density than log_prob: the
log-det of the way from noise to data is added, and is to be subtracted.
"""

import sys

import torch
from torchflows.bijections.finite.autoregressive.layers import ElementwiseScale
from torchflows.flows import Flow

torch.manual_seed(0)
flow = Flow(ElementwiseScale((2,)))
torch.nn.init.constant_(next(flow.bijection.parameters()), 0.5)
with torch.no_grad():
    x, beside = flow.sample(1, return_log_prob=True)
    z, log_det = flow.bijection.forward(x)
    density = flow.log_prob(x)
# The bug: in Flow.sample, `log_det` is that of bijection.inverse, log|det dx/dz|, and the density of
# x is base_log_prob(z) - log_det; the line is `log_prob = self.base_log_prob(z) + log_det`.
print(f"log-density beside the sample: {beside.item():.6f}")
print(f"log_prob of the sample:        {density.item():.6f}")
print(f"twice the log-det:             {2 * log_det.item():.6f}")
print(f"off by {abs(beside.item() - density.item()):.6g}")
wrong = abs(beside.item() - density.item()) > 1e-5
print("VIOLATED density/change-of-variables[samples]" if wrong else "holds")
sys.exit(wrong)
