"""FrEIA 0.2: HaarDownsampling in reverse scales the caller's tensor in place.

It does so with order_by_wavelet=False, the default; HaarUpsampling, the same code with rev turned,
does so in its forward direction. Neither class documents that the argument is overwritten.
"""

import sys

import torch
from FrEIA.modules import HaarDownsampling, HaarUpsampling

down = HaarDownsampling([(4, 4, 4)], rebalance=0.7)
up = HaarUpsampling([(16, 2, 2)], rebalance=0.7)
ordered = HaarDownsampling([(4, 4, 4)], rebalance=0.7, order_by_wavelet=True)
torch.manual_seed(0)
latent = torch.randn(1, 16, 2, 2)

# The bug is in HaarDownsampling.forward: with rev and no permutation `x_perm = inp`, and then
# `x_perm *= self.fac_rev` (here 0.5 / 0.7 = 0.714286).
cases = {"HaarDownsampling in reverse": (down, True), "HaarUpsampling": (up, False)}
cases["order_by_wavelet=True"] = (ordered, True)
changed = []
for name, (module, rev) in cases.items():
    z = latent.clone()
    first, second = (module([z], rev=rev)[0][0] for _ in range(2))
    changed.append(not torch.equal(z, latent))
    print(f"{name}: z[0, 0, 0, 0] was {latent[0, 0, 0, 0]:.6f} and is {z[0, 0, 0, 0]:.6f}")
    print(f"    two calls on the same z differ by up to {(second - first).abs().max():.4f}")
try:
    down([latent.clone().requires_grad_()], rev=True)
except RuntimeError as error:
    print(f"a leaf that requires a gradient: RuntimeError: {error}")
wrong = any(changed)
print("VIOLATED effects/process[input]" if wrong else "holds")
sys.exit(wrong)
