"""nflows 0.14: the inverse of PiecewiseLinearCDF is off in its last bin, which ends at 1 + 1e-6.

With probability p of the last bin the slope there is too large by the factor 1 + 1e-6 / p. The eps
of searchsorted is not documented. The copy in glasflow 0.4.1 adds it to a clone and is right.
"""

import sys

import torch
from nflows.transforms import PiecewiseLinearCDF

torch.set_default_dtype(torch.float64)  # so that nothing else is rounded to float32
spline = PiecewiseLinearCDF([1], num_bins=10)
x = torch.tensor([[0.05], [0.55], [0.91], [0.95], [0.999]])

errors = []
for bins in ([0.0] * 10, [0.0] * 9 + [-3.0]):
    spline.unnormalized_pdf.data[:] = torch.tensor(bins)
    p = spline.unnormalized_pdf.softmax(-1)[0, -1].item()
    # The bug: torchutils.searchsorted(cdf, inputs) executes `bin_locations[..., -1] += eps`, eps =
    # 1e-6, on its argument, and linear_spline computes `slopes` and `offsets` from that cdf after.
    with torch.no_grad():
        y, _ = spline(x)
        back, _ = spline.inverse(y)
    print(f"probability of the last bin, [0.9, 1]: p = {p:.6f}")
    for point, image, error in zip(x.flatten(), y.flatten(), (back - x).flatten(), strict=True):
        print(f"  x {point:.3f}   f(x) {image:.9f}   inverse(f(x)) - x {error:+.2e}")
    errors.append((back - x).abs().max().item())
    print(f"  1e-6 / (10 p) = {1e-6 / (10 * p):.2e}")
print(f"off by {max(errors):.6g}")
wrong = max(errors) > 1e-12
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
