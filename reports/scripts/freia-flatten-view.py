"""FrEIA 0.2: Flatten raises on inputs that are not contiguous, where Reshape accepts them.

An image in the channels_last format, as a convolution may return it, is an example. The class
documents that it flattens N-D tensors, without a condition on their memory layout.
"""

import sys

import torch
from FrEIA.modules import Flatten, Reshape

flatten, reshape = Flatten([(4, 4, 4)]), Reshape([(4, 4, 4)], output_dims=(64,))
torch.manual_seed(0)
image = torch.randn(2, 4, 4, 4)
expected = image.flatten(1)
inputs = {
    "contiguous": image,
    "channels_last": image.to(memory_format=torch.channels_last),
    "transposed": image.mT.contiguous().mT,
}

refused = []
for name, x in inputs.items():  # the same values in three memory layouts
    print(f"{name}: Reshape right: {torch.equal(reshape([x])[0][0], expected)}")
    try:
        # The bug is in Flatten.forward: `x[0].view(...)`, where Reshape calls `x[0].reshape(...)`.
        print(f"{name}: Flatten right: {torch.equal(flatten([x])[0][0], expected)}")
    except RuntimeError as error:
        refused.append(name)
        print(f"{name}: Flatten raised RuntimeError: {error}")
wrong = bool(refused)
print("VIOLATED same/manner-accepted" if wrong else "holds")
sys.exit(wrong)
