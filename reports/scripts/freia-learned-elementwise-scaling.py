"""FrEIA 0.2: LearnedElementwiseScaling returns the log-det of the forward map in reverse as well.

The base class documents that with rev=True log|det| of the inverse, the opposite number, MUST be
returned. It shows as soon as the log-scale s is not zero, as it is when built.
"""

import sys

import torch
from FrEIA.modules import LearnedElementwiseScaling

scaling = LearnedElementwiseScaling([(4,)]).double()
with torch.no_grad():
    scaling.s[:] = torch.tensor([0.27367396, -0.07913234, 0.40907884, -0.23254045])
x = torch.tensor([[0.5, -0.2, 0.3, 1.0]], dtype=torch.float64)

# The bug is in LearnedElementwiseScaling.forward: with rev, `scale = -self.s` is what x is
# multiplied by, but the log-det is `torch.sum(self.s)` in both directions.
(z,), forward = scaling([x])
(back,), reverse = scaling([z], rev=True)
jacobian = torch.autograd.functional.jacobian(lambda v: scaling([v], rev=True)[0][0], z)
expected = torch.linalg.slogdet(jacobian.reshape(4, 4)).logabsdet
print(f"rev=False returned log|det| = {forward.item():+.6f}")
print(f"rev=True  returned log|det| = {reverse.item():+.6f}")
print(f"log|det| of the inverse     = {expected:+.6f}")
print(f"the values are right: inverse(f(x)) - x is at most {(back - x).abs().max():.1e}")
off = abs(reverse.item() - expected.item())
print(f"off by {off:.6g}")
wrong = off > 1e-9
print("VIOLATED map/log-det[inverse]" if wrong else "holds")
sys.exit(wrong)
