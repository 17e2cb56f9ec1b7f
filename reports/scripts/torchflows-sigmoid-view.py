"""torchflows 1.2.1: sigmoidal and integral transformers refuse inputs that are not contiguous."""

import sys

import torch
from torchflows.bijections.finite.autoregressive import layers

torch.manual_seed(0)
x = torch.randn(4, 3).T  # three points of four features, not contiguous
wrong = False
# The bug: `x.view(-1)` in Sigmoid.forward, `z.view(-1)` in Sigmoid.inverse, and the same in
# Integration; `reshape(-1)` takes any layout.
for kind in (
    layers.AffineForwardMaskedAutoregressive,
    layers.DeepSigmoidalForwardMaskedAutoregressive,
    layers.UMNNMaskedAutoregressive,
):
    flow = kind((4,))
    expected, _ = flow.forward(x.contiguous())
    try:
        y, _ = flow.forward(x)
        print(f"{kind.__name__}: f(x) - f(x.contiguous()) = {(y - expected).abs().max().item()}")
    except RuntimeError as error:
        print(f"{kind.__name__}: RuntimeError: {error}")
        wrong = True
print("all three take x.contiguous(); only the layout is refused")
print("VIOLATED same/manner-accepted" if wrong else "holds")
sys.exit(wrong)
