"""Calls of scipy.stats distributions on arrays, with conversion from and to tensors."""

from __future__ import annotations

import math
from typing import Any

from flowref.adapters.common import distribution_functions

# Names of stated quantities in both infrastructures; attributes for multivariate distributions.
STATED = {
    "mean": ("mean",),
    "variance": ("variance", "var"),
    "entropy": ("entropy",),
    "stddev": ("standard_deviation", "std"),
    "mode": ("mode",),
    "covariance_matrix": ("cov",),
}
# Distribution functions besides cdf, and their conversion.
LOWER, UPPER = ("logcdf",), ("sf", "logsf", "ccdf", "logccdf")
# The turn that contains draws of angles.
TURN = (-math.pi, math.pi)


def array(x: Any) -> Any:
    """Points as scipy takes them."""
    return x.detach().cpu().numpy()


def as_tensor_of_shape(out: Any, like: Any, shape: Any) -> Any:
    """An array, or the scalar to which scipy squeezes one point, as a tensor of ``shape``."""
    import numpy as np
    import torch

    return torch.as_tensor(np.asanyarray(out)).to(like).reshape(shape)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return as_tensor_of_shape(obj.logpdf(array(x)), x, x.shape)


def log_prob_of_rows(obj: Any, x: Any, context: Any = None) -> Any:
    return as_tensor_of_shape(obj.logpdf(array(x)), x, x.shape[:-1])


def log_prob_of_columns(obj: Any, x: Any, context: Any = None) -> Any:
    rows = x.reshape(-1, x.shape[-1])  # points are columns
    return as_tensor_of_shape(obj.logpdf(array(rows).T), x, x.shape[:-1])


def shaped_samples(out: Any, n: int, event: Any = ()) -> Any:
    """Draws as ``(n, *event)``, with the axes that scipy squeezes."""
    import numpy as np

    return np.asarray(out, dtype=np.float64).reshape(n, *event)


def sample(obj: Any, n: int, context: Any = None) -> Any:
    return shaped_samples(obj.rvs(size=n), n)


def sample_rows(obj: Any, n: int, context: Any = None) -> Any:
    return shaped_samples(obj.rvs(size=n), n, (obj.dim,))


def sample_columns(obj: Any, n: int, context: Any = None) -> Any:
    return shaped_samples(obj.resample(n).T, n, (obj.d,))


def sample_by_generator(obj: Any, n: int, context: Any = None) -> Any:
    import numpy as np

    # Its default is a new generator that no seed affects.
    return shaped_samples(obj.sample(n, rng=np.random.default_rng(np.random.randint(2**31))), n)


def cdf(obj: Any, x: Any) -> Any:
    return as_tensor_of_shape(obj.cdf(array(x)), x, x.shape)


def ppf(obj: Any, u: Any) -> Any:
    return as_tensor_of_shape(obj.ppf(array(u)), u, u.shape)


def icdf(obj: Any, u: Any) -> Any:
    return as_tensor_of_shape(obj.icdf(array(u)), u, u.shape)


def cdf_of_integers(obj: Any, x: Any) -> Any:
    # Its documentation requires integers, between which it is constant.
    return as_tensor_of_shape(obj.cdf(array(x.floor())), x, x.shape)


def cdf_of_turn(obj: Any, x: Any) -> Any:
    # It grows by 1 per turn, as documented.
    return as_tensor_of_shape(obj.cdf(array(x.clamp(*TURN))), x, x.shape)


def one_turn(obj: Any) -> bool:
    """Whether the distribution function of angles goes from 0 to 1 on `TURN`; in general it does so in a
    turn around the location.
    """
    return all(abs(float(obj.cdf(x)) - u) < 1e-9 for x, u in zip(TURN, (0.0, 1.0), strict=True))


def cdf_columns(obj: Any, x: Any) -> Any:
    """The distribution function from its other forms, ``(rows, methods)``."""
    import torch

    columns = []
    for name in (*LOWER, *UPPER):
        if hasattr(obj, name):
            column = as_tensor_of_shape(getattr(obj, name)(array(x)), x, len(x))
            column = column.exp() if name.startswith("log") else column
            columns.append(1 - column if name in UPPER else column)
    return torch.stack(columns, 1)


def rescale(obj: Any, factor: float) -> Any:
    return factor * obj


def stated(obj: Any) -> Any:
    """Concatenated mean, variance, entropy, standard deviation, mode and covariance, as in
    `flowref.model.Dialect`.
    """
    import torch

    dim = int(getattr(obj, "dim", 1))
    sizes, parts, flags = {"entropy": 1, "covariance_matrix": dim * dim}, [], []
    for moment in distribution_functions.MOMENTS:
        part, flag = distribution_functions.moment_values(
            moment, _stated(obj, moment), sizes.get(moment, dim)
        )
        parts.append(part)
        flags.append(flag)
    return torch.cat([*parts, torch.tensor(flags, dtype=torch.float64)])


def _stated(obj: Any, moment: str) -> Any:
    """A moment as tensor; None if not stated."""
    import numpy as np
    import torch

    found = next((getattr(obj, name) for name in STATED[moment] if hasattr(obj, name)), None)
    if found is None:
        return None
    return torch.as_tensor(np.asarray(found() if callable(found) else found, dtype=np.float64))
