"""pyro-ppl 1.9.2: splines look up their bins by knots that are shifted by 1e-6.

A value less than 1e-6 above a knot is therefore inverted by the formula of the bin below. Where the
bin above is flat many x have such values, and all of them come back near the knot.
"""

import sys

import torch
from pyro.distributions.transforms import Spline, spline_coupling

torch.set_default_dtype(torch.float64)
spline = Spline(1, count_bins=3)  # of its bins the second is wide and flat
torch.manual_seed(1120328098191170315)
coupling = spline_coupling(4, hidden_dims=[16])  # of the audit: all parameters moved by 3
generator = torch.Generator().manual_seed(5498712199227113407)
with torch.no_grad():
    spline.unnormalized_widths.copy_(torch.tensor([[0.0, 10.0, 0.0]]))
    spline.unnormalized_heights.copy_(torch.tensor([[0.0, 0.0, 10.0]]))
    spline.unnormalized_derivatives.copy_(torch.tensor([[-10.0, 75.0]]))
    spline.unnormalized_lambdas.fill_(-10.0)
    for parameter in coupling.parameters():
        parameter += 3.0 * torch.randn(parameter.shape, generator=generator)
offs = []
# The bug: _monotonic_rational_spline looks up `_searchsorted(cumheights + eps if inverse else
# cumwidths + eps, inputs)` with eps = 1e-6.
cases = {"Spline": (spline, [1.9]), "SplineCoupling": (coupling, [3.0, 3.0, 10.0, 1.0])}
for name, (flow, x) in cases.items():
    y = flow(torch.tensor([x]))
    back = flow._inverse(y)
    print(f"{name}: x {x[-1]:.9f}, f(x) {y[0, -1]:.9f}, inverse(f(x)) {back[0, -1]:.9f}")
    offs.append((back - torch.tensor([x])).abs().max().item())
    print(f"off by {offs[-1]:.6g}")
exact, _ = spline.spline_op(spline(torch.tensor([[1.9]])), inverse=True, eps=0.0)
print(f"Spline with eps = 0: inverse(f(x)) {exact.item():.9f}")
wrong = max(offs) > 1e-6
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
