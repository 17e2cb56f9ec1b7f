"""nflows 0.14: GatedLinearUnit scales every feature by its gate, but counts log(gate) once.

The log-det is right with one feature only. The class has no documentation, and nothing restricts it
to that. The copy in glasflow 0.4.1 (glasflow.nflows) is the same.
"""

import sys

import torch
from nflows.transforms import GatedLinearUnit

glu = GatedLinearUnit()
x = torch.zeros(1, 4, dtype=torch.float64)
context = torch.tensor([[-0.8152347494232988]], dtype=torch.float64)

# The bug is in GatedLinearUnit.forward and inverse: `torch.log(gate).reshape(-1)` is not multiplied
# by the number of features that `inputs * gate` scales.
_, returned = glu(x, context)
jacobian = torch.autograd.functional.jacobian(lambda v: glu(v[None], context)[0][0], x[0])
expected = torch.linalg.slogdet(jacobian).logabsdet
_, inverse = glu.inverse(x, context)
print(f"forward returned log|det| = {returned.item():+.6f}")
print(f"inverse returned log|det| = {inverse.item():+.6f}")
print(f"log|det dy/dx| = {expected:+.6f}, 4 times as much")
off = abs(returned.item() - expected.item())
print(f"off by {off:.6g}")
wrong = off > 1e-9
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
