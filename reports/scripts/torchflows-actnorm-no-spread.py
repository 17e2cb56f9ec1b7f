"""torchflows 1.2.1: a first batch with a constant feature spoils ActNorm for good."""

import sys

import torch
from torchflows.bijections.finite.autoregressive.layers import ActNorm

torch.manual_seed(0)
ordinary = torch.randn(64, 2)
constant = ordinary.clone()
constant[:, 0] = 0.0  # such as a pixel that is black in every image of the batch
failed = []
for name, first in {"one row": ordinary[:1], "a constant feature": constant}.items():
    norm = ActNorm((2,)).train()
    norm.forward(first)
    # The bug: ActNorm.forward takes a unit scale for a batch of one row, where the spread cannot be
    # estimated, but unconstrains `torch.std(x, ...)` as it is otherwise; a spread of zero is no
    # scale, and `value` is not finite. `first_training_batch_pass` is then False, so that no later
    # batch repairs it.
    y, log_det = norm.forward(ordinary)
    print(f"first batch with {name}: value {norm.value.tolist()}")
    print(f"    the next, ordinary batch: f(x)[1] = {y[1].tolist()}, log-det {log_det[1].item()}")
    failed.append(not bool(norm.value.isfinite().all()))
wrong = any(failed)
print("VIOLATED state/degenerate-batch" if wrong else "holds")
sys.exit(wrong)
