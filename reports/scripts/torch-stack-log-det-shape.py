"""torch 2.13.0: StackTransform along dim=-1 declares an event but returns elementwise log-dets.

Its domain has event_dim 1, as that of any transform of vectors; so TransformedDistribution does not
sum the log-dets over the event, and adds them to one log-density per point by broadcasting.
"""

import sys

import torch
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions import transforms as tt

torch.set_default_dtype(torch.float64)
affine = tt.AffineTransform(0.0, 3.0)
parts = [tt.ExpTransform(), tt.TanhTransform(), affine, tt.SigmoidTransform()]
stack = tt.StackTransform(parts, dim=-1)
x = torch.tensor([0.0, 0.0, 0.2601025266401358, 0.0])
y = stack(x)

# The bug is in StackTransform.log_abs_det_jacobian: `torch.stack(logdetjacs, dim=self.dim)` is not
# summed over the event axes that domain, `constraints.stack(..., self.dim)`, declares.
returned = stack.log_abs_det_jacobian(x, y)
jacobian = torch.autograd.functional.jacobian(stack, x)
expected = torch.linalg.slogdet(jacobian).logabsdet
print(f"event_dim of domain {stack.domain.event_dim}, of codomain {stack.codomain.event_dim}")
print(f"log_abs_det_jacobian returned {returned.tolist()}")
print(f"log|det dy/dx| = {expected:.6f}, one number for the point")

base = Independent(Normal(torch.zeros(4), torch.ones(4)), 1)
density = TransformedDistribution(base, [stack]).log_prob(y)
print(f"log_prob of the point returned {density.tolist()}")
print(f"log-density of the base - log|det dy/dx| = {base.log_prob(x) - expected:.6f}")
wrong = returned.shape != expected.shape
print("VIOLATED shape/one-number-per-point[log-det]" if wrong else "holds")
sys.exit(wrong)
