"""torchflows 1.2.1: Radial moves each coordinate by its own distance and adds D radial log-dets.

In the paper that the class cites (Rezende and Mohamed) the distance is that of the vectors.
"""

import sys

import torch
from torchflows.bijections.finite.residual.radial import Radial

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = Radial((4,))
z = torch.tensor([[0.0, 0.0, 0.0, -0.16106756118592752]])
_, reported = flow.inverse(z)  # the only direction that it offers
jacobian = torch.autograd.functional.jacobian(lambda v: flow.inverse(v[None])[0][0], z[0])
expected = torch.linalg.slogdet(jacobian).logabsdet
alpha, beta, r = flow.alpha, flow.beta, torch.linalg.norm(z[0] - flow.z0)
paper = 3 * torch.log1p(beta / (alpha + r)) + torch.log1p(beta * alpha / (alpha + r) ** 2)
# The bug: `r = torch.abs(z - z0)` in Radial.inverse is not the length of the vector, and the sum
# over the last axis adds up `log1p(...) + log1p(beta * h) * (n_dim - 1)`, which is the whole
# log-det of the radial map, once for each of the D coordinates.
print(f"alpha {alpha.item():.6f}, beta {beta.item():.6f}")
print(f"d output/d input is diagonal: {torch.equal(jacobian, jacobian.diagonal().diag())}")
print(f"reported log-det:             {reported.item():.6f}")
print(f"log|det d output/d input|:    {expected.item():.6f}")
print(f"log-det of the paper's map:   {paper.item():.6f}")
off = abs(reported.item() - expected.item())
print(f"off by {off:.6g}")
wrong = off > 1e-6  # h and the log-det contain a stabilizer of 1e-8
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
