"""FrEIA 0.2: InvertibleSigmoid sums its log-det over dimension 1 only, not over the event.

For vectors that is right. For an image (C, H, W) a log-det of shape (batch, H, W) comes back, which
a SequenceINN cannot add to those of other modules, or adds by broadcasting to the wrong points.
The class documents an element-wise map and its log-det; nothing restricts it to vectors.
"""

import sys

import torch
from FrEIA.framework import SequenceINN
from FrEIA.modules import ActNorm, InvertibleSigmoid

sigmoid = InvertibleSigmoid([(4, 4, 4)])
torch.manual_seed(0)
x = torch.randn(2, 4, 4, 4, dtype=torch.float64)

# The bug is in InvertibleSigmoid.forward: `detLogJ = logJ.sum(1)`.
_, returned = sigmoid([x])
jacobian = torch.autograd.functional.jacobian(lambda v: sigmoid([v[None]])[0][0].flatten(), x[0])
expected = torch.linalg.slogdet(jacobian.reshape(64, 64)).logabsdet
print(f"a batch of 2 images: log-det of shape {tuple(returned.shape)} returned, (2,) expected")
print(f"first image: log|det dy/dx| = {expected:.6f}")
first = returned[0].flatten()
print(f"returned for it: {len(first)} numbers, as {first[0]:.6f}; their sum {first.sum():.6f}")
chain = SequenceINN(4, 4, 4)
chain.append(ActNorm)
chain.append(InvertibleSigmoid)
try:
    print(f"after ActNorm in a SequenceINN: log-det of shape {tuple(chain(x.float())[1].shape)}")
except RuntimeError as error:
    print(f"after ActNorm in a SequenceINN: RuntimeError: {error}")
wrong = returned.shape != (2,)
print("VIOLATED shape/one-number-per-point[log-det]" if wrong else "holds")
sys.exit(wrong)
