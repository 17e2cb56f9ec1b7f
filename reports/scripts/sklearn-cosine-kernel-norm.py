"""scikit-learn 1.9.1: the cosine kernel of KernelDensity is not normalized in two dimensions.

score_samples is documented as a log-likelihood, "normalized to be probability densities". With one
row at the origin and bandwidth 1 its integral over the disk is 0.363, and nan in four dimensions.
"""

import math
import sys

import numpy as np
from sklearn.neighbors import KernelDensity

r, step = (np.arange(100_000) + 0.5) / 100_000, 1e-5  # distances from the row
worst = 0.0
for kernel in ("epanechnikov", "linear", "cosine"):
    for features in (1, 2, 3):
        model = KernelDensity(kernel=kernel, bandwidth=1.0).fit(np.zeros((1, features)))
        points = np.zeros((len(r), features))
        points[:, 0] = r
        sphere = 2 * math.pi ** (features / 2) / math.gamma(features / 2)
        # The bug is in _log_kernel_norm (sklearn/neighbors/_binary_tree.pxi.tp): partial integration
        # of r^(d-1) cos(pi r / 2) is stopped before the last term, -(2 / pi)^2, where d is even.
        density = np.exp(model.score_samples(points))
        mass = sphere * step * (r ** (features - 1) * density).sum()
        print(f"{kernel}, {features} features: the density integrates to {mass:.6f}")
        worst = max(worst, abs(mass - 1.0))
print(f"off by {worst:.6g}")
wrong = worst > 1e-6
print("VIOLATED density/mass" if wrong else "holds")
sys.exit(wrong)
