"""FrEIA 0.2: a first batch with a constant feature, or of one row, spoils ActNorm for good."""

import sys
import warnings

import torch
from FrEIA.modules import ActNorm

warnings.simplefilter("ignore")  # torch warns of std() with no degrees of freedom
torch.manual_seed(0)
ordinary = torch.randn(64, 2)
constant = ordinary.clone()
constant[:, 0] = 0.0  # such as a pixel that is black in every image of the batch
failed = []
for name, first in {"a constant feature": constant, "one row": ordinary[:1]}.items():
    norm = ActNorm([(2,)]).train()
    norm([first])
    # The bug: ActNorm._initialize_with_data sets `scale` to `torch.log(1 / ....std(dim=-1))`
    # without a bound: infinite for a spread of 0, NaN for one row. `init_on_next_batch` is then
    # False, so that no later batch repairs the parameters.
    (y,), log_det = norm([ordinary])
    print(f"first batch with {name}: scale {norm.scale.flatten().tolist()}")
    print(f"    bias {norm.bias.flatten().tolist()}")
    print(f"    the next, ordinary batch: f(x)[0] = {y[0].tolist()}, log-det {log_det[0].item()}")
    failed.append(not bool(norm.scale.isfinite().all()))
wrong = any(failed)
print("VIOLATED state/degenerate-batch" if wrong else "holds")
sys.exit(wrong)
