"""Users' code in JAX with no adapter written: objects that follow a protocol.

A bijection is ``forward(x) -> (z, log_det)`` with ``inverse(z) -> (x, log_det)``, or one of the pairs
of `PAIRS`, or a pair of functions; a density is ``log_prob(x)`` with ``sample(key, n)``. All of them
take batches, or single events, over which they are mapped by `jax.vmap`.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from flowref.adapters.user.facts import describe
from flowref.adapters.user.jax.settling import settle
from flowref.adapters.user.jax.speaking import Draw, Way, dense, drawn, mapped
from flowref.model import Adapter, Dialect

# Methods that are the map and its way back, likeliest first.
PAIRS = (
    ("forward_and_log_det", "inverse_and_log_det"),
    ("transform_and_log_det", "inverse_and_log_det"),
    ("forward_and_log_abs_det", "inverse_and_log_abs_det"),
    ("forward", "inverse"),
    ("forward", "backward"),
    ("forward", "reverse"),
    ("transform", "inverse"),
    ("encode", "decode"),
    ("__call__", "inverse"),
    ("__call__", "inv"),
)
# Beside a map that returns its value alone -> how many arguments it takes.
LOG_DETS = {
    "log_abs_det_jacobian": 2,
    "forward_log_det_jacobian": 1,
    "log_det_jacobian": 1,
    "log_det": 1,
}
DENSITIES = ("log_prob", "log_density", "logpdf")


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of an object, as far as its attributes tell; `settle` completes it by calls."""
    if isinstance(obj, tuple | list) and len(obj) == 2 and all(map(callable, obj)):
        return Dialect(forward=partial(mapped, way=Way("0")), inverse=partial(mapped, way=Way("1")))
    if inspect.isfunction(obj):
        return Dialect(forward=partial(mapped, way=Way("")))
    there, back = _pair(obj)
    found: dict[str, Any] = {}
    if there:
        beside = next((name for name in LOG_DETS if _offers(obj, name)), "")
        if there.endswith("det"):
            beside = ""
        arguments = LOG_DETS.get(beside, 1)
        found["forward"] = partial(mapped, way=Way(there, log_det=beside, arguments=arguments))
        if back:
            way = Way(back, log_det=beside, arguments=arguments, negated=bool(beside))
            found["inverse"] = partial(mapped, way=way)
    density = next((name for name in DENSITIES if _offers(obj, name)), "")
    if density:
        found["log_prob"] = partial(dense, way=Way(density))
        if _offers(obj, "sample"):
            found["sample"] = partial(drawn, way=Draw("sample", ("key", "number")))
    return Dialect(**found) if found else None


def _pair(obj: Any) -> tuple[str, str]:
    """The names of the map and of its way back, empty where there is none."""
    for there, back in PAIRS:
        if _offers(obj, there) and _offers(obj, back):
            return there, back
    return next(((name, "") for name, _ in PAIRS[:5] if _offers(obj, name)), ("", ""))


def _offers(obj: Any, name: str) -> bool:
    return callable(getattr(obj, name, None))


ADAPTER = Adapter(
    name="jax",
    package="",
    title="JAX code",
    components=dict,
    recognizes=recognizes,
    describe=describe,
    backend="jax",
    settles=settle,
)
