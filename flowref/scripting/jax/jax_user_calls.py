"""Calls of users' JAX objects as a user writes them, from the record of each call in their dialects
(`flowref.adapters.user.jax`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.scripting.names import Unwritable


def user_call_source(function: Any, which: str, taken: str, context: bool) -> list[str] | None:
    """Return the function of one call of a user's object; None for a dialect of a library."""
    way = function.keywords.get("way") if isinstance(function, partial) else None
    if way is None:
        return None
    method = _method_source(way.method)
    if taken == "n":
        return _sampler_source(way, which, method)
    if way.keyed:
        raise Unwritable("its calls take a key")
    if getattr(way, "running", ""):
        raise Unwritable("its calls take a running log-det")
    if way.log_det:
        body = _separate_log_det_source(way, method, context)
    else:
        given = f"{taken}, context" if context else taken
        called = f"jax.vmap({method})" if way.single else method
        body = [f"return {called}({given})"]
    if which not in ("log_prob", "score"):
        body[-1:] = _return_statements(body[-1].removeprefix("return "), way.reading)
    if way.log_det:
        body = [line.replace("points", taken) for line in body]
    return [f"def {which}({taken}):", *(f"    {line}" for line in body)]


def _return_statements(call: str, reading: Any) -> list[str]:
    """The statements that extract value and log-det from what a call returns."""
    read = reading.value, reading.ladj
    if reading.usual:
        return [f"return {call}" + ", None" * (not isinstance(reading.ladj, partial))]
    if not {getattr(getattr(one, "func", None), "__name__", "") for one in read} <= {
        "entry",
        "entry_of",
    }:
        raise Unwritable("its calls return more than a value and a log-det")
    value, ladj = ("".join(f"[{place!r}]" for place in one.keywords.values()) for one in read)
    return [f"out = {call}", f"return out{value}, out{ladj}"]


def _method_source(name: str) -> str:
    if name.isdigit():
        return f"flow[{name}]"
    return f"flow.{name}" if name else "flow"


def _separate_log_det_source(way: Any, method: str, context: bool) -> list[str]:
    """A value, and its log-det from a separate method."""
    if context:
        raise Unwritable("its calls take contexts, and its log-det has a separate method")
    log_det_method, sign = _method_source(way.log_det), "-" if way.negated else ""
    called, asked = (f"jax.vmap({one})" if way.single else one for one in (method, log_det_method))
    ends = ("value", "points") if way.negated else ("points", "value")
    return [
        f"value = {called}(points)",
        f"return value, {sign}{asked}({', '.join(ends[: way.arguments])})",
    ]


def _sampler_source(way: Any, which: str, method: str) -> list[str]:
    """A sampler, which takes a number or a shape and a key."""
    values = {"key": "key", "number": "n", "shape": "(n,)", "context": "context"}
    if way.single:
        one = [{"key": "one", "context": "context"}.get(name, "") for name in way.order]
        if set(way.order) != {"key"}:
            raise Unwritable("it draws one event at a time")
        call = f"jax.vmap(lambda one: {method}({', '.join(one)}))(jax.random.split(key, n))"
    else:
        call = f"{method}({', '.join(values[name] for name in way.order)})"
    return [f"def {which}(n, key):", f"    return {call}"]
