"""Log-densities that draw noise where none is given: by intention, for the argument that takes it is there."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.user import calls
from flowref.adapters.user.conventions import signatures
from flowref.loading.instance import Instance
from flowref.loading.settling import points_of
from flowref.model import Array, Dialect, Facts


def noise_taken(instance: Instance, dialect: Dialect, facts: Facts) -> str:
    """The argument of a log-density that is None by default, of which nothing is drawn where it is given, and without
    which something is; empty where there is none.
    """
    method = calls.density_method(dialect.log_prob)
    taken = signatures.parameters(instance.obj, method) if method else []
    names = [one.name for one in taken if one.default is None]
    try:
        if not names or _repeats(instance, dialect, facts, method, None):
            return ""
        return next(name for name in names if _repeats(instance, dialect, facts, method, name))
    except Exception:  # it takes no noise in the shape of events, or raises anyway
        return ""


def _repeats(
    instance: Instance, dialect: Dialect, facts: Facts, method: str, name: str | None
) -> bool:
    """Whether two random states give the same log-densities, given noise under a name."""
    one, other = (_told(instance, dialect, facts, method, name, seed) for seed in (0, 1))
    return np.array_equal(one, other, equal_nan=True)


def _told(
    instance: Instance, dialect: Dialect, facts: Facts, method: str, name: str | None, seed: int
) -> Array:
    backend, dtype = instance.backend, instance.dtype
    x, context = points_of(facts)
    ask: Any = dialect.log_prob
    with backend.sandbox(seed, dtype):
        obj = instance.copy()
        backend.set_mode(obj, False)
        if name is not None:
            noise = backend.tensor(np.random.default_rng(0).uniform(0.2, 0.8, x.shape), dtype)
            setattr(obj, method, partial(getattr(obj, method), **{name: noise}))
        given = None if context is None else backend.tensor(context, dtype)
        return np.asarray(backend.array(ask(obj, backend.tensor(x, dtype), given)))
