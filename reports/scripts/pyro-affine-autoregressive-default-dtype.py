"""pyro-ppl 1.9.2: the inverse of a float64 AffineAutoregressive starts from zeros of float32.

It then raises. forward accepts float64; the default dtype is that of torch, float32.
"""

import sys

import torch
from pyro.distributions import Normal, TransformedDistribution
from pyro.distributions.transforms import affine_autoregressive

base = Normal(torch.zeros(4, dtype=torch.float64), 1.0).to_event(1)
flow = affine_autoregressive(4, hidden_dims=[16]).double()
y = torch.tensor([[0.0, -0.08303141503038838, 0.0, 0.0]], dtype=torch.float64)
# The bug: `x = [torch.zeros(x_size, device=y.device)] * input_dim` in AffineAutoregressive._inverse
# and ._inverse_stable has no `dtype=y.dtype`, and goes into the float64 network.
print(f"forward(x):  {flow(y).dtype}")
wrong = False
for name, call in (
    ("inverse(y)", lambda: flow._inverse(y)),
    ("log_prob(y)", lambda: TransformedDistribution(base, [flow]).log_prob(y)),
):
    try:
        print(f"{name}: {call().dtype}")
    except RuntimeError as error:
        print(f"{name}: RuntimeError: {error}   (should be torch.float64)")
        wrong = True
print("VIOLATED dtype/follows" if wrong else "holds")
sys.exit(wrong)
