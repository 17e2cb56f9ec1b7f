"""gpytorch 1.15.2: HorseshoePrior draws one local shrinkage for all samples of a call.

So all samples of one call are normal with one deviation, which is another one at the next call.
"""

import sys

import torch
from gpytorch.priors import HorseshoePrior

torch.manual_seed(0)
prior = HorseshoePrior(scale=1.0)
# The bug: rsample draws `HalfCauchy(1).rsample(self.scale.shape)`, without sample_shape, and all
# samples with that one.
kurtoses = []
for _ in range(4):
    x = prior.sample((100_000,))
    kurtoses.append((((x - x.mean()) ** 4).mean() / x.var() ** 2).item())
    print(f"100,000 samples: deviation {x.std().item():8.3f}, kurtosis {kurtoses[-1]:.2f}")
# A horseshoe has no finite variance: the kurtosis of as many draws is in the ten thousands.
print("the kurtosis of a normal distribution is 3")
wrong = all(abs(kurtosis - 3) < 0.2 for kurtosis in kurtoses)
print("VIOLATED sampling/follows-density" if wrong else "holds")
sys.exit(wrong)
