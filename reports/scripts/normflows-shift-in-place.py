"""normflows 1.7.3: transforms.Shift adds its constant to the caller's tensor, in place.

The class documents that it shifts data by a constant, not that it overwrites its argument.
"""

import sys

import torch
from normflows.transforms import Shift

x = torch.tensor([[0.0, 0.25, 0.5, 1.0]], dtype=torch.float64)
data = x.clone()
Shift(-0.5).inverse(data)
# The bug: `z += self.shift` in Shift.inverse, and `z -= self.shift` in Shift.forward, write to the
# argument; `z = z + self.shift` would not.
print(f"x before inverse(x): {x[0].tolist()}")
print(f"x after inverse(x):  {data[0].tolist()}   (should be as before)")
try:
    Shift(-0.5).inverse(x.clone().requires_grad_())
    print("an input that requires a gradient is accepted")
except RuntimeError as error:
    print(f"an input that requires a gradient is refused: {error}")
off = (data - x).abs().max().item()
print(f"off by {off}")
wrong = off > 0
print("VIOLATED effects/process[input]" if wrong else "holds")
sys.exit(wrong)
