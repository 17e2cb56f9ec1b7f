"""torchflows 1.2.1: LUMatrix cannot be used in float64 while the default dtype is float32."""

import sys

import torch
from torchflows.bijections.finite.matrix import LUMatrix, UpperTriangularInvertibleMatrix

x = torch.tensor([[0.0, -0.08303141503038838, 0.0, 0.0]], dtype=torch.float64)
wrong = False
# The bug: compute_matrix of LowerTriangularInvertibleMatrix starts from `torch.eye(self.n_dim)`,
# of the default dtype, if it is unitriangular, and writes float64 parameters into that.
for kind in (UpperTriangularInvertibleMatrix, LUMatrix):
    flow = kind((4,)).double()
    for name, call in (("forward", flow.forward), ("inverse", flow.inverse)):
        try:
            print(f"{kind.__name__}.{name}: {call(x)[0].dtype}")
        except RuntimeError as error:
            print(f"{kind.__name__}.{name}: RuntimeError: {error}")
            wrong = True
print("all four should return torch.float64")
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
