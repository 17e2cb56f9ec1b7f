"""normflows 1.7.3: Composite adds up the log-dets of a float64 flow in float32."""

import sys

import torch
from normflows.flows import AffineConstFlow, Composite

layers = [AffineConstFlow((2,)).double() for _ in range(2)]
for layer in layers:
    torch.nn.init.constant_(layer.s, 0.1)  # z -> z exp(0.1), log-det 0.2 in two features
flow = Composite(layers)
z = torch.ones(1, 2, dtype=torch.float64)
with torch.no_grad():
    _, total = flow(z)
    expected = sum(layer(z)[1] for layer in layers)  # constant log-dets: z does not matter
# The bug: `total_logabsdet = torch.zeros(batch_size)` in Composite._cascade has neither the dtype
# nor the device of the inputs, and `total_logabsdet += logabsdet` rounds each partial sum to it.
print(f"log-det of Composite:        {total.item():.17g}, {total.dtype}")
print(f"sum of its layers' log-dets: {expected.item():.17g}, {expected.dtype}")
print(f"off by {abs(total.item() - expected.item()):.6g}")
wrong = total.dtype != z.dtype
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
