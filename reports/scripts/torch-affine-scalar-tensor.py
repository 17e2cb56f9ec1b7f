"""torch 2.13.0: AffineTransform(loc, scale, event_dim=1) sums log|scale| over the axes of scale.

With fewer axes than the event, a scale of dimension 0 or of shape (1,), one coordinate is counted
instead of all. The documentation allows a tensor or a float as scale; the float is right.
"""

import sys

import torch
from torch.distributions import AffineTransform

torch.set_default_dtype(torch.float64)
x = torch.tensor([0.0, -0.08303141503038838, 0.0, 0.0])

worst = 0.0
for scale in (2.0, torch.tensor(2.0), torch.tensor([2.0]), torch.full((4,), 2.0)):
    affine = AffineTransform(torch.tensor(0.0), scale, event_dim=1)
    # The bug is in AffineTransform.log_abs_det_jacobian: `result = torch.abs(scale).log()` is not
    # expanded to the shape of x before `result.view(result_size).sum(-1)`.
    returned = affine.log_abs_det_jacobian(x, affine(x))
    jacobian = torch.autograd.functional.jacobian(affine, x)
    expected = torch.linalg.slogdet(jacobian).logabsdet
    print(f"scale {scale!r}: returned {returned:.6f}, log|det dy/dx| {expected:.6f}")
    worst = max(worst, abs(returned - expected).item())
print("4 features: log|det| is 4 log 2 for each scale")
print(f"off by {worst:.6g}")
wrong = worst > 1e-9
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
