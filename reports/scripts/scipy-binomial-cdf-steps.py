"""scipy 1.17.1: Binomial.cdf(x) is P(X <= x) at whole numbers alone, and rises between them.

Between two of its values a discrete distribution has no mass, so that its distribution function is
constant there. The documentation defines cdf(x) as P(X <= x) for any x; stats.binom is right.
"""

import sys

import numpy as np
from scipy import stats

x = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
new, old = stats.Binomial(n=5, p=0.4), stats.binom(5, 0.4)
# The bug is in Binomial._cdf_formula (and in those of logcdf, ccdf and logccdf): it passes x on to
# Boost's function of a real argument as it is, where "quadrature" and stats.binom take floor(x).
returned = new.cdf(x)
summed = np.array([sum(old.pmf(k) for k in range(6) if k <= one) for one in x])
for row in zip(x, returned, new.cdf(x, method="quadrature"), old.cdf(x), summed, strict=True):
    print("x {:.2f}: cdf {:.6f}, by quadrature {:.6f}, binom {:.6f}, P(X <= x) {:.6f}".format(*row))
worst = float(np.abs(returned - summed).max())
print(f"off by {worst:.6g}")
wrong = worst > 1e-9
print("VIOLATED sampling/quantiles" if wrong else "holds")
sys.exit(wrong)
