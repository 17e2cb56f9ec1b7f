"""FrEIA 0.2: AllInOneBlock with permute_soft=True keeps its rotation rounded to float32.

In a float64 block the matrix is then orthogonal to about 4e-8 only, but its transpose serves as the
inverse, and its log|det| is counted as 0. permute_soft documents a matrix sampled from SO(N); which
precision a float64 block has is not documented, so this may be meant. float32 loses nothing by it.
"""

import sys

import numpy as np
import torch
from FrEIA.modules import AllInOneBlock

np.random.seed(882039563)  # which the rotation is drawn from
torch.manual_seed(0)
block = AllInOneBlock([(4,)], subnet_constructor=torch.nn.Linear, permute_soft=True).double()
x = torch.tensor([[1.8009840650098639, 0.0, 0.0, 0.0]], dtype=torch.float64)


def error():
    """What the log-det is off by; prints how far the inverse comes back, too."""
    (y,), returned = block([x])
    back = (block([y], rev=True)[0][0] - x).abs().max()
    jacobian = torch.autograd.functional.jacobian(lambda v: block([v])[0][0], x).reshape(4, 4)
    off = returned.item() - torch.linalg.slogdet(jacobian).logabsdet.item()
    print(f"returned log|det| - log|det dy/dx| = {off:.2e}, |inverse(f(x)) - x| = {back:.1e}")
    return off


# The bug: AllInOneBlock.__init__ makes w_perm and w_perm_inv by `torch.FloatTensor(w)`, where
# w, which scipy drew from SO(N), is in float64; .double() comes too late.
off = error()
block.w_perm.data = torch.linalg.qr(block.w_perm).Q
block.w_perm_inv.data = block.w_perm.mT.clone()
print("with a matrix in its place that is orthogonal in float64:")
error()
print(f"off by {abs(off):.6g}")
wrong = abs(off) > 1e-12
print("VIOLATED map/log-det" if wrong else "holds")
sys.exit(wrong)
