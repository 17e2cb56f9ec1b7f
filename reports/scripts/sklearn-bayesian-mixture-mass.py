"""scikit-learn 1.9.1: exp(score_samples) of BayesianGaussianMixture does not integrate to one.

score_samples is documented as the log-likelihood of each sample under the current model, as that of
GaussianMixture, which does. The fewer rows it was fitted to, the more is missing.
"""

import sys

import numpy as np
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

rng = np.random.default_rng(0)
points, step = np.linspace(-60.0, 60.0, 120_001, retstep=True)
worst = 0.0
for rows in (10, 40, 500):
    x = np.concatenate([rng.normal(-2.0, 0.5, rows // 2), rng.normal(2.0, 1.0, rows // 2)])[:, None]
    for kind in (GaussianMixture, BayesianGaussianMixture):
        model = kind(n_components=2, random_state=0, max_iter=500).fit(x)
        # The bug is in BayesianGaussianMixture._estimate_log_prob and _estimate_log_weights: they
        # give expected logarithms under the posterior, E[log p], for which the M step asks.
        # Their exponentials are no density; that of the prediction is a mixture of t densities.
        mass = step * np.exp(model.score_samples(points[:, None])).sum()
        print(f"{kind.__name__} fitted to {rows} rows: the density integrates to {mass:.6f}")
        worst = max(worst, abs(mass - 1.0))
print(f"off by {worst:.6g}")
wrong = worst > 1e-6
print("VIOLATED density/mass" if wrong else "holds")
sys.exit(wrong)
