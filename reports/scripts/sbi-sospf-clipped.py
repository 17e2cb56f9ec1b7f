"""sbi 0.27.0: build_zuko_sospf draws samples that stop where a search for them ends.

Zuko inverts these polynomials on [-10, 10] and warns of it; sbi's builder samples by that inverse.
"""

import sys

import torch
from sbi.neural_nets.net_builders import build_zuko_sospf

torch.manual_seed(0)
theta = torch.randn(400, 3)
flow = build_zuko_sospf(theta, theta[:, :2].clone()).double().eval()
condition = theta[:1, :2].double()
# The bug: build_zuko_flow composes zuko.flows.SOSPF as it is, whose layers are inverted by bisection
# within [-10, 10] of their inputs: what lies beyond is set to where the search ends.
with torch.no_grad():
    draws = flow.sample((4_000,), condition)[:, 0]
    latents = flow.inverse_transform(draws, condition.expand(4_000, 2))
ends = []
for j, z in enumerate(latents.T):
    most = z.abs().max().item()
    ends.append(most)
    print(f"latent {j} of 4,000 draws: largest {most:.2f}; of as many normal numbers about 3.7")
print(f"the least of them is {min(ends):.2f}; that of normal latents is never below 3")
wrong = min(ends) < 3
print("VIOLATED sampling/follows-density" if wrong else "holds")
sys.exit(wrong)
