"""pyro-ppl 1.9.2: the log-det of PositivePowerTransform is NaN at zero, even for the identity."""

import sys

import torch
from pyro.distributions.transforms import PositivePowerTransform

torch.set_default_dtype(torch.float64)
x = torch.tensor([-1.0, 0.0, 1.0])
failed = []
for exponent, expected in {1.0: "0", 2.0: "-inf", 0.5: "inf"}.items():
    transform = PositivePowerTransform(torch.tensor(exponent))
    y = transform(x)
    # The bug: log_abs_det_jacobian is `self.exponent.log() + (y / x).log()`, where y / x is 0 / 0
    # at the origin. exponent.log() + (exponent - 1) * x.abs().log(), with xlogy for the product, is
    # 0 there for exponent 1, as it is elsewhere, and infinite with the right sign for others.
    log_det = transform.log_abs_det_jacobian(x, y)
    print(f"exponent {exponent}: f(x) = {y.tolist()}, log-dets = {log_det.tolist()}")
    print(f"    the log-det at x = 0 is {log_det[1].item()}; it should be {expected}")
    failed.append(bool(log_det[1].isnan()))
wrong = any(failed)
print("VIOLATED map/finite" if wrong else "holds")
sys.exit(wrong)
