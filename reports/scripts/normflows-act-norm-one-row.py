"""normflows 1.7.3: a first batch of one row makes the scale of ActNorm NaN for good."""

import sys
import warnings

import torch
from normflows.flows import ActNorm

warnings.simplefilter("ignore")  # torch warns of std() with no degrees of freedom
torch.manual_seed(0)
ordinary = torch.randn(64, 2)
failed = []
for name in ("forward", "inverse"):
    norm = ActNorm((2,)).train()
    apply = getattr(norm, name)
    apply(ordinary[:1])
    # The bug: ActNorm.forward and .inverse initialize `s` from `z.std(...) + 1e-6`, which bounds a
    # spread of zero but is NaN for one row. `data_dep_init_done` is then set, so that no later
    # batch repairs the parameters.
    y, log_det = apply(ordinary)
    print(f"{name} of one row: s = {norm.s.flatten().tolist()}")
    print(
        f"    {name} of an ordinary batch: {y[0].tolist()}, log-det {log_det.flatten()[0].item()}"
    )
    failed.append(not bool(norm.s.isfinite().all()))
constant = ActNorm((2,)).train()
constant.forward(torch.zeros(64, 2))
print(f"forward of a constant batch: s = {constant.s.flatten().tolist()}   (finite)")
wrong = any(failed)
print("VIOLATED state/degenerate-batch" if wrong else "holds")
sys.exit(wrong)
