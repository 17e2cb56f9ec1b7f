"""zuko 1.6.0: SignedPowerTransform is NaN at zero, where sign(x)|x|^exp(alpha) is zero."""

import sys

import torch
from zuko.transforms import SignedPowerTransform

torch.set_default_dtype(torch.float64)
zero = torch.tensor(0.0)
failed = []
for alpha in (-0.5, 0.0, 0.5):
    transform = SignedPowerTransform(torch.tensor(alpha))
    # The bug: _call computes `x * abs(x) ** torch.expm1(self.alpha)`, which is 0 * inf for a
    # negative alpha; _inverse is 0 * inf for a positive one; and log_abs_det_jacobian, `self.alpha +
    # torch.expm1(self.alpha) * torch.log(abs(x))`, is 0 * -inf for alpha = 0, the identity.
    y, back = transform(zero), transform.inv(zero)
    log_det = transform.log_abs_det_jacobian(zero, zero)
    print(
        f"alpha = {alpha:4.1f}: f(0) = {y.item()}, inverse(0) = {back.item()}   (both should be 0)"
    )
    print(f"              log|f'(0)| = {log_det.item()}")
    failed.append(bool(y.isnan() or back.isnan() or log_det.isnan()))
wrong = any(failed)
print("VIOLATED map/finite" if wrong else "holds")
sys.exit(wrong)
