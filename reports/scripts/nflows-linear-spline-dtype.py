"""nflows 0.14: the inverse of the linear spline has bin edges of the default dtype.

In a float64 spline under the default dtype float32 they are rounded to float32, while forward
places the bins in float64. The documentation says nothing of dtypes. The copy in
glasflow 0.4.1 (glasflow.nflows) does the same.
"""

import sys

import torch
from nflows.transforms import PiecewiseLinearCDF

spline = PiecewiseLinearCDF([1], num_bins=10).double()
torch.nn.init.zeros_(spline.unnormalized_pdf)  # ten equal bins: the spline is the identity
x = torch.tensor([[0.15], [0.35], [0.65], [0.75], [0.85]], dtype=torch.float64)

# The bug is in splines.linear.linear_spline: `torch.linspace(0, 1, num_bins + 1)`, the edges of the
# bins in the inverse, is not given the dtype of the inputs.
errors = []
for default in (torch.float32, torch.float64):
    torch.set_default_dtype(default)
    with torch.no_grad():
        y, ladj = spline(x)
        back, inverse_ladj = spline.inverse(x)
    print(f"default dtype {default}: the results are {y.dtype}, {back.dtype}")
    print(f"  f(x) - x       at most {(y - x).abs().max():.1e}, log-det {ladj.abs().max():.1e}")
    errors.append((back - x).abs().max().item())
    print(f"  inverse(x) - x at most {errors[-1]:.1e}, log-det {inverse_ladj.abs().max():.1e}")
wrong = max(errors) > 1e-12
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
