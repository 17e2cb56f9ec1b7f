"""nflows 0.14: the inverse of quadratic and cubic splines is NaN where a piece is a straight line.

So it is for the identity, and for a conditioner whose last layer is zero. The copy in glasflow
0.4.1 (glasflow.nflows) does the same.
"""

import sys

import torch
from nflows.transforms import PiecewiseCubicCDF, PiecewiseQuadraticCDF

torch.set_default_dtype(torch.float64)
x = torch.tensor([[-0.9], [0.1], [0.3]])
failed = []
for kind in (PiecewiseQuadraticCDF, PiecewiseCubicCDF):
    spline = kind([1], num_bins=4, tails="linear")
    for parameter in spline.parameters():
        parameter.data.zero_()  # equal bins, equal heights
    with torch.no_grad():
        y, log_det = spline(x)
        back, inverse_log_det = spline.inverse(y)
    # The bug: quadratic_spline computes `alpha = (-b + torch.sqrt(b.pow(2) - 4 * a * c_)) / (2 * a)`
    # and cubic_spline the same for its small cubic terms. Where heights, or slopes, are equal a is 0
    # and alpha is 0/0; 2 * c / (-b - torch.sqrt(...)) is the same root and finite.
    print(f"{kind.__name__}, every parameter zero")
    for name, values in {
        "x                ": x.flatten(),
        "f(x)             ": y.flatten(),
        "inverse(f(x))    ": back.flatten(),
        "log-det          ": log_det,
        "inverse's log-det": inverse_log_det,
    }.items():
        print(f"  {name}  {[round(value, 6) for value in values.tolist()]}")
    failed.append(bool(y.isfinite().all() and not back.isfinite().all()))
wrong = any(failed)
print("VIOLATED map/finite" if wrong else "holds")
sys.exit(wrong)
