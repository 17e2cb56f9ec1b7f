"""torch_geometric 2.8.1: running statistics of InstanceNorm hold the graphs of all earlier batches.

Without a batch vector, where torch computes them, they do not.
"""

import sys

import torch
from torch_geometric.nn import InstanceNorm

nodes = torch.randn(6, 2, requires_grad=True)
graphs = torch.tensor([0, 0, 0, 1, 1, 1])
held = {}
for name, batch in (("without a batch vector", None), ("with one", graphs)):
    norm = InstanceNorm(2, affine=True, track_running_stats=True).train()
    for _ in range(3):
        norm(2 * nodes, batch).square().sum().backward()
    # The bug: forward writes `self.running_mean = (1 - momentum) * self.running_mean + momentum *
    # mean.mean(0)` and the same of running_var without detaching mean and unbiased_var: each batch is
    # held as long as the layer is, and eval mode asks for gradients of graphs that are gone.
    held[name] = norm.running_mean.grad_fn is not None
    print(f"{name}: running_mean requires grad: {norm.running_mean.requires_grad}")
    try:
        norm.eval()(2 * nodes, batch).square().sum().backward()
    except RuntimeError as error:
        print(f"  backward in eval mode: {str(error)[:60]}")
wrong = held["with one"] and not held["without a batch vector"]
print("VIOLATED effects/graphs" if wrong else "holds")
sys.exit(wrong)
