"""nflows 0.14: the inverse of the cubic spline drops cubic terms that are not small.

Where the cubic coefficient of a bin is below quadratic_threshold = 1e-3 a quadratic is solved. The
bound is absolute: in a flat, wide bin all coefficients are below it. forward keeps the term. The
argument is not documented, nor offered by the transforms. The copy in glasflow 0.4.1 is the same.
"""

import sys
from functools import partial

import torch
from nflows.nn.nets import ResidualNet
from nflows.transforms import PiecewiseCubicCDF, PiecewiseCubicCouplingTransform, splines

torch.set_default_dtype(torch.float64)
spline = PiecewiseCubicCDF([1], num_bins=2, tails="linear")
for parameter, values in zip(spline.parameters(), ([4, 0], [-6, 0], [-3], [0]), strict=True):
    parameter.data[:] = torch.tensor(values)  # widths, heights, slope at the left, at the right
torch.manual_seed(1120328098191170315)  # the flow that the audit recorded
mask, net = torch.tensor([1, -1, 1, -1]), partial(ResidualNet, hidden_features=16, num_blocks=1)
flow = PiecewiseCubicCouplingTransform(mask, net, num_bins=6, tails="linear", tail_bound=2.0)
generator = torch.Generator().manual_seed(5498712199227113407)
for parameter in flow.parameters():
    parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
cases = [(spline, torch.tensor([[value]])) for value in (-0.5, 0.5, 0.95)]
cases.append((flow, torch.tensor([[0.0, -68.0, 0.3224816818951835, 0.0]])))

# The bug is in splines.cubic.cubic_spline: `quadratic_mask = inputs_a.abs() < quadratic_threshold`
# does not compare inputs_a with inputs_b and inputs_c, the other coefficients of the bin.
backs = [transform.inverse(transform(x)[0])[0] for transform, x in cases]
cubic = splines.unconstrained_cubic_spline
splines.unconstrained_cubic_spline = partial(cubic, quadratic_threshold=0)
for (transform, x), back in zip(cases, backs, strict=True):
    print(f"{type(transform).__name__}, x = {x[0].tolist()}")
    cubic_back, _ = transform.inverse(transform(x)[0])
    print(f"inverse(f(x)), quadratic_threshold=0: x + {(cubic_back - x).abs().max().item():.1e}")
    print(f"off by {(back - x).abs().max().item():.6g}")
wrong = any((b - x).abs().max() > 1e-9 for b, (_, x) in zip(backs, cases, strict=True))
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
