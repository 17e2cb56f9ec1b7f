"""scikit-learn 1.9.1: PowerTransformer.inverse_transform is nan for standardized values.

A negative lambda of the Yeo-Johnson transform bounds its values from above. transform() is said to
give zero mean and unit variance, so that a value of 5 is one that a model may well draw.
"""

import sys
import warnings

import numpy as np
from sklearn.preprocessing import PowerTransformer

x = np.random.default_rng(0).lognormal(size=(200, 1))
power = PowerTransformer().fit(x)
z = np.array([[-1.0], [0.0], [1.0], [5.0]])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # since 1.8 it warns of values that are nan
    # The bug, if it is one: inverse_transform takes (z lambda + 1) ** (1 / lambda) - 1,
    # which asks for the root of a negative number.
    back = power.inverse_transform(z)
again = power.transform(back)
for row in zip(z[:, 0], back[:, 0], again[:, 0], strict=True):
    print("z {:4.1f}: inverse_transform {:.6f}, transform of that {:.6f}".format(*row))
print(f"lambda {power.lambdas_[0]:.3f}: no value is above {power.transform([[1e300]])[0, 0]:.3f}")
wrong = not np.abs(again - z).max() <= 1e-9
print("VIOLATED map/inverse[latents]" if wrong else "holds")
sys.exit(wrong)
