"""torchflows 1.2.1: HouseholderSylvester folds once it is trained: det J changes its sign.

Sylvester's flow z + Q R h(R~ Q^T z + b) is one-to-one where R and R~ are triangular with diagonals of one sign, since then
R~ Q^T Q R is triangular, too.
"""

import sys

import torch
from torchflows.bijections.finite.matrix.util import matmul_with_householder
from torchflows.bijections.finite.residual.sylvester import HouseholderSylvester

torch.set_default_dtype(torch.float64)
torch.manual_seed(1120328098191170315)
flow = HouseholderSylvester((4,), m=4).eval()
generator = torch.Generator().manual_seed(5498712199227113407)
for parameter in flow.parameters():
    parameter.data += torch.randn(parameter.shape, generator=generator)
# The bug: matmul_with_householder takes 1 - 2 v v^T for a reflection, as it is of unit vectors alone, and v has any length.
# It also multiplies R~ from the left, and compute_w takes the product for R~ Q^T "as Q is symmetric".
q = matmul_with_householder(torch.eye(4), flow.q)
print(f"Q Q^T - 1, at most: {(q @ q.T - torch.eye(4)).abs().max().item():.1e}")
print(f"Q - Q^T, at most:   {(q - q.T).abs().max().item():.1e}")
points = [[0.85, 0.3, 1.1, 0.28], [0.57, -1.32, -1.15, -0.24]]
dets = []
for point in map(torch.tensor, points):
    jacobian = torch.autograd.functional.jacobian(lambda v: flow.inverse(v[None])[0][0], point)
    dets.append(torch.linalg.det(jacobian).item())
    print(f"det J at {point.tolist()}: {dets[-1]:.6g}")
wrong = min(dets) < 0 < max(dets)
print("VIOLATED map/one-to-one[orientation]" if wrong else "holds")
sys.exit(wrong)
