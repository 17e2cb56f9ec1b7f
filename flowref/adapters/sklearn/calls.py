"""Calls of scikit-learn estimators on arrays, with conversion from and to tensors."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator
from typing import Any


def array(x: Any) -> Any:
    """Points as an estimator takes them."""
    return x.detach().cpu().numpy()


def tensor(out: Any, like: Any) -> Any:
    """An array as a tensor with the dtype of its input points."""
    import numpy as np
    import torch

    return torch.as_tensor(np.asanyarray(out)).to(like)


def forward(obj: Any, x: Any, context: Any = None) -> Any:
    return tensor(obj.transform(array(x)), x), None


def inverse(obj: Any, y: Any, context: Any = None) -> Any:
    return tensor(obj.inverse_transform(array(y)), y), None


def parts(obj: Any) -> Any:
    return [(name, step) for name, step in obj.steps if step not in (None, "passthrough")]


def chain(maps: Any) -> Any:
    from sklearn.pipeline import make_pipeline

    return make_pipeline(*maps)


def log_prob(obj: Any, x: Any, context: Any = None) -> Any:
    return tensor(obj.score_samples(array(x)), x)


def sample_labelled(obj: Any, n: int, context: Any = None) -> Any:
    """Draws of a mixture, ordered by component, without labels."""
    with _generator(obj):
        return obj.sample(n)[0]


def sample(obj: Any, n: int, context: Any = None) -> Any:
    return obj.sample(n)


@contextlib.contextmanager
def _generator(obj: Any) -> Iterator[None]:
    """Replaces an integer seed by a seeded generator: "Pass an int for reproducible output across multiple
    function calls" (`random_state` of the mixtures) means that every call draws the same.
    """
    import numpy as np

    given = obj.random_state
    if not isinstance(given, numbers.Integral):
        yield
        return
    obj.random_state = np.random.RandomState(np.random.randint(2**31))
    try:
        yield
    finally:
        obj.random_state = given
