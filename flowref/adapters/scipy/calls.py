"""Calls of scipy.stats distributions on arrays, with conversion from and to tensors."""

from __future__ import annotations

import math
from functools import partial
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
# The variance of a uniform distribution between integers.
CELL_VARIANCE = 1 / 12
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


def cell_log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    """The log-density of a discrete distribution whose mass at k is spread over [k, k + 1)."""
    log_mass = obj.logpmf(array(x.floor()))
    return as_tensor_of_shape(log_mass, x, x.shape)


def cell_sample(obj: Any, n: int, context: Any = None) -> Any:
    return sample(obj, n) + obj.random_state.random(n)


def cell_sample_by_generator(obj: Any, n: int, context: Any = None) -> Any:
    import numpy as np

    # Drawn first: the samples draw from the same generator.
    within = np.random.random_sample(n)
    return sample_by_generator(obj, n) + within


def cell_cdf(obj: Any, x: Any) -> Any:
    """The distribution function, interpolated between integers, which its documentation requires."""
    return _interpolated(cdf(obj, x.floor() - 1), cdf(obj, x.floor()), x)


def cell_cdf_of_steps(obj: Any, x: Any) -> Any:
    """The same, of a distribution function that is constant between integers."""
    return _interpolated(cdf(obj, x.floor() - 1), cdf(obj, x), x)


def _interpolated(before: Any, after: Any, x: Any) -> Any:
    return before + (x - x.floor()) * (after - before)


def cell_ppf(obj: Any, u: Any) -> Any:
    return _within_cell(obj, u, ppf(obj, u))


def cell_icdf(obj: Any, u: Any) -> Any:
    return _within_cell(obj, u, icdf(obj, u))


def _within_cell(obj: Any, u: Any, k: Any) -> Any:
    """The quantile of the spread mass, if k is the quantile of the integers."""
    before, after = cdf(obj, k - 1), cdf(obj, k)
    return k + ((u - before) / (after - before)).nan_to_num(0.0).clamp(0.0, 1.0)


def cell_cdf_columns(obj: Any, x: Any) -> Any:
    """The interpolated distribution function from its other forms, ``(rows, methods)``."""
    k = x.floor()
    return _interpolated(_cdf_forms(obj, k - 1), _cdf_forms(obj, k), x.unsqueeze(1))


def cell_stated(obj: Any) -> Any:
    """Stated moments of the spread mass: its position in a cell has mean 1/2 and variance 1/12."""
    import torch

    numbers = stated(obj).clone()
    mean, variance, deviation = 0, 1, 3
    numbers[mean] += 0.5
    numbers[deviation] = (numbers[deviation].square() + CELL_VARIANCE).sqrt()
    numbers[variance] += CELL_VARIANCE
    # The mode is a cell, and no point.
    numbers[4] = torch.nan
    return numbers


def cdf_of_turn(obj: Any, x: Any) -> Any:
    # It grows by 1 per turn, as documented.
    return as_tensor_of_shape(obj.cdf(array(x.clamp(*TURN))), x, x.shape)


def one_turn(obj: Any) -> bool:
    """Whether the distribution function of angles goes from 0 to 1 on `TURN`; in general it does so in a
    turn around the location.
    """
    return all(abs(float(obj.cdf(x)) - u) < 1e-9 for x, u in zip(TURN, (0.0, 1.0), strict=True))


def cdf_columns(obj: Any, x: Any) -> Any:
    """The distribution function from its other forms and from inverses, ``(rows, methods)``."""
    import torch

    reached = cdf(obj, x)
    implied = [
        distribution_functions.implied_function(obj, reached, name, partial(cdf, obj))
        for name in distribution_functions.INVERSES
        if hasattr(obj, name)
    ]
    return torch.cat([_cdf_forms(obj, x), *(column.reshape(len(x), 1) for column in implied)], 1)


def _cdf_forms(obj: Any, x: Any) -> Any:
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
