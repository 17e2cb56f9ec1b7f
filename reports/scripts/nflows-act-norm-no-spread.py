"""nflows 0.14: a first batch with a constant feature, or of one row, spoils ActNorm for good.

The copy in glasflow is the same.
"""

import sys
import warnings

import torch
from nflows.transforms import ActNorm

warnings.simplefilter("ignore")  # torch warns of std() with no degrees of freedom
torch.manual_seed(0)
ordinary = torch.randn(64, 2)
constant = ordinary.clone()
constant[:, 0] = 0.0  # such as a pixel that is black in every image of the batch
failed = []
for name, first in {"a constant feature": constant, "one row": ordinary[:1]}.items():
    norm = ActNorm(2).train()
    norm(first)
    # The bug: ActNorm._initialize divides by `std = inputs.std(dim=0)` and sets `log_scale` to
    # `-torch.log(std)` without a bound: infinite for a spread of 0, NaN for one row. `initialized`
    # is then set, so that no later batch repairs the parameters.
    y, log_det = norm(ordinary)
    print(f"first batch with {name}: log_scale {norm.log_scale.tolist()}")
    print(f"    shift {norm.shift.tolist()}")
    print(f"    the next, ordinary batch: f(x)[0] = {y[0].tolist()}, log-det {log_det[0].item()}")
    failed.append(not bool(norm.log_scale.isfinite().all()))
wrong = any(failed)
print("VIOLATED state/degenerate-batch" if wrong else "holds")
sys.exit(wrong)
