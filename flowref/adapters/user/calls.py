"""How an object that follows a protocol is called: a module-level function for each ability."""

from __future__ import annotations

from functools import partial
from typing import Any

from flowref.adapters.user import contributions

# What the base of a density is called.
BASES = ("base", "base_dist", "base_distribution", "prior", "distribution", "q0", "latent", "base_density")  # fmt: skip


def told_late(obj: Any, x: Any, context: Any = None) -> Any:
    """The log-dets that log_abs_det_jacobian(x, z) gives after forward was called at other points."""
    run = obj if callable(obj) else obj.forward
    given = () if context is None else (context,)
    z = run(x, *given)
    run(x.roll(1, 0), *given)
    return obj.log_abs_det_jacobian(x, z)


def log_prob_named(obj: Any, x: Any, context: Any, method: str) -> Any:
    """The log-density of each point, or another number of it, by a method; by forward where the object is called."""
    run = getattr(obj, method) if method else obj if callable(obj) else obj.forward
    return run(x) if context is None else run(x, context)


def log_prob_negated(obj: Any, x: Any, context: Any, method: str) -> Any:
    """The same, of one that has a method for minus the log-density."""
    return -log_prob_named(obj, x, context, method)


def log_prob_of_entries(obj: Any, x: Any, context: Any, method: str) -> Any:
    """The log-density of each point, of an object that takes its entries one by one."""
    return getattr(obj, method)(*x.unbind(-1))


def context_first(obj: Any, x: Any, context: Any, call: Any) -> Any:
    """The log-density of each point, of an object that takes its context first."""
    return call(obj, context, x)


def takes_context_first(call: Any) -> bool:
    """Whether it is such a call."""
    return getattr(call, "func", None) is context_first


def rsample(obj: Any, n: int, context: Any) -> Any:
    """Draw n points with gradients, by a number or a shape."""
    given = () if context is None else (context,)
    try:
        return obj.rsample(n, *given)
    except TypeError:
        return obj.rsample((n,), *given)


def cdf(obj: Any, x: Any) -> Any:
    """The distribution function."""
    return obj.cdf(x)


def icdf(obj: Any, u: Any) -> Any:
    """The quantile function."""
    return obj.icdf(u)


def loss(obj: Any, x: Any, context: Any, weight: float = 1.0) -> Any:
    """The negative log-likelihood of a batch, with the penalty, of an object whose loss takes its
    weight.
    """
    out = obj.loss(x, weight)
    return (out[0], out[1]) if isinstance(out, (tuple, list)) else (out, None)


def dequantize(obj: Any, levels: Any, noise: Any) -> Any:
    """Levels to reals, by noise between zero and one; in either spelling."""
    method = getattr(obj, "dequantize", None) or obj.dequantise
    return method(levels, noise)


def base_name(obj: Any) -> str:
    """The first of the usual names of a base under which an object has a density; empty where there is none."""
    return next((name for name in BASES if hasattr(getattr(obj, name, None), "log_prob")), "")


def base_sample(obj: Any, n: int, context: Any, name: str) -> Any:
    """Draw n latents from the base of an object, by a number or a shape."""
    base = getattr(obj, name)
    try:
        out = base.sample((n,))
    except TypeError:
        out = base.sample(n)
    return out[0] if isinstance(out, (tuple, list)) else out


def base_log_prob(obj: Any, z: Any, context: Any, name: str) -> Any:
    """The base log-density of each latent; trailing axes of an elementwise base are summed."""
    value = getattr(obj, name).log_prob(z)
    return value.reshape(len(z), -1).sum(1)


def of_base(obj: Any) -> dict[str, Any]:
    """The calls of a base, as a dialect has them; none where an object has none."""
    name = base_name(obj)
    each = {"base_log_prob": base_log_prob, "base_sample": base_sample}
    return {call: partial(function, name=name) for call, function in each.items()} if name else {}


def sample_number(obj: Any, n: Any, context: Any, method: str) -> Any:
    """Draw n points from an object whose method takes a number."""
    out = getattr(obj, method)(n) if context is None else getattr(obj, method)(n, context)
    return out[0] if isinstance(out, (tuple, list)) else out


def sample_detached(obj: Any, n: int, context: Any) -> Any:
    """Draw n points without gradients from an object that draws with them alone."""
    return rsample(obj, n, context).detach()


def sample_shape(obj: Any, n: int, context: Any, method: str) -> Any:
    """Draw n points from an object whose method takes a shape."""
    return sample_number(obj, (n,), context, method)


def method_of(call: Any) -> str:
    """The method of the object that a log-density or a sampler of a dialect calls as it is; empty
    for any other.
    """
    whole = isinstance(call, partial) and call.func in NAMED and call.keywords.keys() == {"method"}
    return str(call.keywords["method"]) if whole else ""


def density_method(call: Any) -> str:
    """The method that a log-density calls, as it is or in another way; empty where there is no one."""
    while isinstance(call, partial) and "call" in call.keywords:
        call = call.keywords["call"]
    return str(getattr(call, "keywords", {}).get("method", ""))


# Calls of methods that go by any name.
NAMED = (log_prob_named, sample_number)


def parts(obj: Any) -> Any:
    """The bijections of the one list of sub-bijections that an object has."""
    lists = [
        [(type(item).__name__, item) for item in value]
        for value in getattr(obj, "_modules", {}).values()
        if type(value).__name__ in ("ModuleList", "Sequential")
        and len(value) > 1
        and all(_goes_back(item) for item in value)
    ]
    return lists[0] if len(lists) == 1 else []


def _goes_back(item: Any) -> bool:
    """Whether a part is a map with a way back, and says of itself nothing else."""
    if contributions.facts(item) is not None:
        return False
    if callable(getattr(item, "inverse", None)):
        return True
    from flowref.adapters.user.conventions.roles import forward_way, inverse_ways

    forward = forward_way(item, {})
    return forward is not None and bool(inverse_ways(item, forward, {}))
