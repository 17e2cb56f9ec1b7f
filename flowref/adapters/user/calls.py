"""Dialect functions of objects that follow a protocol: one module-level function per ability."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.adapters.user import contributions

# Usual names of the base of a density.
BASES = ("base", "base_dist", "base_distribution", "prior", "distribution", "q0", "latent", "base_density")  # fmt: skip


def log_det_by_method(obj: Any, x: Any, context: Any = None) -> Any:
    """Log-dets ``(n,)`` by log_abs_det_jacobian(x, z), after forward was called at other points."""
    run = obj if callable(obj) else obj.forward
    given = () if context is None else (context,)
    z = run(x, *given)
    run(x.roll(1, 0), *given)
    return obj.log_abs_det_jacobian(x, z)


def log_prob_named(obj: Any, x: Any, context: Any, method: str) -> Any:
    """The result ``(n,)`` of a density method, by ``method`` or by calling the object."""
    run = getattr(obj, method) if method else obj if callable(obj) else obj.forward
    return run(x) if context is None else run(x, context)


def log_prob_negated(obj: Any, x: Any, context: Any, method: str) -> Any:
    """The negated result ``(n,)`` of a method that returns minus the log-density."""
    return -log_prob_named(obj, x, context, method)


def log_prob_of_entries(obj: Any, x: Any, context: Any, method: str) -> Any:
    """Log-densities ``(n,)`` by a method that takes the coordinates as separate arguments."""
    return getattr(obj, method)(*x.unbind(-1))


def context_first(obj: Any, x: Any, context: Any, call: Any) -> Any:
    """Log-densities ``(n,)`` by a method that takes the context first."""
    return call(obj, context, x)


def takes_context_first(call: Any) -> bool:
    """Whether a call is `context_first`."""
    return getattr(call, "func", None) is context_first


def rsample(obj: Any, n: int, context: Any) -> Any:
    """Draw points ``(n, *event)`` with gradients, by a number or a shape."""
    given = () if context is None else (context,)
    try:
        return obj.rsample(n, *given)
    except TypeError:
        return obj.rsample((n,), *given)


def cdf(obj: Any, x: Any) -> Any:
    return obj.cdf(x)


def icdf(obj: Any, u: Any) -> Any:
    return obj.icdf(u)


def loss(obj: Any, x: Any, context: Any, weight: float = 1.0) -> Any:
    """The negative log-likelihood and the penalty, of an object whose loss takes the penalty's weight."""
    out = obj.loss(x, weight)
    return (out[0], out[1]) if isinstance(out, (tuple, list)) else (out, None)


def dequantize(obj: Any, levels: Any, noise: Any) -> Any:
    """Levels to reals by noise in [0, 1); with or without the noise argument's name."""
    method = getattr(obj, "dequantize", None) or obj.dequantise
    return method(levels, noise)


def base_name(obj: Any) -> str:
    """The first usual name of a base with log_prob; empty if there is none."""
    return next((name for name in BASES if hasattr(getattr(obj, name, None), "log_prob")), "")


def base_sample(obj: Any, n: int, context: Any, name: str) -> Any:
    """Draw n latents from the base ``name``, by a number or a shape."""
    base = getattr(obj, name)
    try:
        out = base.sample((n,))
    except TypeError:
        out = base.sample(n)
    return out[0] if isinstance(out, (tuple, list)) else out


def base_log_prob(obj: Any, z: Any, context: Any, name: str) -> Any:
    """Base log-densities ``(n,)``; trailing axes of an elementwise base are summed."""
    value = getattr(obj, name).log_prob(z)
    return value.reshape(len(z), -1).sum(1)


def of_base(obj: Any) -> dict[str, Any]:
    """The calls of an object's base, as arguments of a dialect; empty if there is none."""
    name = base_name(obj)
    each = {"base_log_prob": base_log_prob, "base_sample": base_sample}
    return {call: partial(function, name=name) for call, function in each.items()} if name else {}


def sample_number(obj: Any, n: Any, context: Any, method: str) -> Any:
    """Draw points ``(n, *event)`` by a method that takes a number."""
    out = getattr(obj, method)(n) if context is None else getattr(obj, method)(n, context)
    return out[0] if isinstance(out, (tuple, list)) else out


def sample_detached(obj: Any, n: int, context: Any) -> Any:
    """Draw points ``(n, *event)`` by rsample, detached."""
    return rsample(obj, n, context).detach()


def sample_shape(obj: Any, n: int, context: Any, method: str) -> Any:
    """Draw points ``(n, *event)`` by a method that takes a shape."""
    return sample_number(obj, (n,), context, method)


def method_of(call: Any) -> str:
    """The method that a density or sampler of a dialect calls directly; empty for other calls."""
    whole = isinstance(call, partial) and call.func in NAMED and call.keywords.keys() == {"method"}
    return str(call.keywords["method"]) if whole else ""


def density_method(call: Any) -> str:
    """The method that a log-density calls, directly or wrapped; empty if there is none."""
    while isinstance(call, partial) and "call" in call.keywords:
        call = call.keywords["call"]
    return str(getattr(call, "keywords", {}).get("method", ""))


# Calls of methods of any name.
NAMED = (log_prob_named, sample_number)


def parts(obj: Any) -> Any:
    """The bijections in an object's only list of bijections, with their names; empty if there is none."""
    lists = [
        [(type(item).__name__, item) for item in value]
        for value in getattr(obj, "_modules", {}).values()
        if type(value).__name__ in ("ModuleList", "Sequential")
        and len(value) > 1
        and all(_goes_back(item) for item in value)
    ]
    return lists[0] if len(lists) == 1 else []


def _goes_back(item: Any) -> bool:
    if contributions.facts(item) is not None:
        return False
    if callable(getattr(item, "inverse", None)):
        return True
    from flowref.adapters.user.conventions.roles import forward_call_form, inverse_call_forms

    forward = forward_call_form(item, {})
    return forward is not None and bool(inverse_call_forms(item, forward, {}))
