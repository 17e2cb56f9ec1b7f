"""scikit-learn 1.9.1: QuantileTransformer to a normal distribution depends on the unit of a feature.

Quantiles do not: the documentation says that it "renders variables measured at different scales more
directly comparable". A feature whose values lie within 2e-7 is mapped to one number.
"""

import sys

import numpy as np
from sklearn.preprocessing import QuantileTransformer

x = np.random.default_rng(0).gamma(2.0, size=(500, 1))
worst = 0.0
for unit in (1.0, 1e-3, 1e-7, 1e-9):
    there = QuantileTransformer(n_quantiles=100, output_distribution="normal").fit(unit * x)
    z = there.transform(unit * x)
    back = there.inverse_transform(z) / unit
    # The bug is in QuantileTransformer._transform_col: x - 1e-7 < quantiles[0] counts as below the
    # fitted range. BOUNDS_THRESHOLD is a probability, and right on the way back, where x is one.
    ends = np.mean(np.abs(z) > 5.19)
    off = np.abs(back - x).max()
    print(
        f"unit {unit:g}: {ends:.1%} of the rows at the ends; inverse_transform is off by {off:.3g}"
    )
    worst = max(worst, off)
print(f"off by {worst:.6g}")
wrong = worst > 1e-6
print("VIOLATED map/inverse" if wrong else "holds")
sys.exit(wrong)
