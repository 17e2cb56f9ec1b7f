"""User code with no adapter written: objects that follow a protocol rather than belong to a
library.

A bijection is ``forward(x) -> (z, log_det)`` with ``inverse(z) -> (x, log_det)``, or
``forward(x) -> z``, ``inverse(z) -> x`` with ``log_abs_det_jacobian(x, z)``; ``inverse`` may be
missing. A density is ``log_prob(x)`` with ``sample(n)`` or
``sample((n,))``. A batch normalizer is a module with ``forward(x) -> y``, or one of the former that
normalizes. An object may be all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from flowref.adapters.common import batch_norms, multi_scales
from flowref.adapters.common.bases import base_promises
from flowref.model import REAL, Adapter, Dialect, Facts, Preprocessing, Shape, Support, TargetError

# Attributes that commonly name the number of features.
FEATURES = (
    "features", "num_features", "n_features", "dim", "dims", "d", "D", "ndim", "n_dim", "input_dim", "in_features",
    "data_dim", "input_size", "size", "num_inputs", "n_inputs", "channels", "num_channels", "n",
)  # fmt: skip
BASES = (
    "base",
    "base_dist",
    "base_distribution",
    "prior",
    "distribution",
    "q0",
    "latent",
    "base_density",
)
PROMISES = (
    "estimator", "inverse_tolerance", "ladj", "perturb", "volume_preserving", "constant_jacobian", "autoregressive",
    "elementwise", "monotone", "batch_dims", "scalar_ladj",
)  # fmt: skip


def forward_pair(obj: Any, x: Any, context: Any) -> Any:
    """Call an object whose forward returns (z, log_det)."""
    run = obj if callable(obj) else obj.forward
    out = run(x) if context is None else run(x, context)
    return out[0], out[1]


def inverse_pair(obj: Any, z: Any, context: Any) -> Any:
    """Call an object whose inverse returns (x, log_det), or x alone."""
    out = obj.inverse(z) if context is None else obj.inverse(z, context)
    return (out[0], out[1]) if isinstance(out, (tuple, list)) else (out, None)


def forward_single(obj: Any, x: Any, context: Any) -> Any:
    """Call an object whose forward returns z, with its log-det from log_abs_det_jacobian(x, z) if
    it has one.
    """
    run = obj if callable(obj) else obj.forward
    z = run(x) if context is None else run(x, context)
    ladj = obj.log_abs_det_jacobian(x, z) if hasattr(obj, "log_abs_det_jacobian") else None
    return z, ladj


def inverse_single(obj: Any, z: Any, context: Any) -> Any:
    """Call an object whose inverse returns x; the log-det of the inverse is minus that of the map
    at x.
    """
    out = obj.inverse(z) if context is None else obj.inverse(z, context)
    if isinstance(out, (tuple, list)):
        return out[0], out[1]
    if not hasattr(obj, "log_abs_det_jacobian"):
        return out, None
    ladj = obj.log_abs_det_jacobian(out, z)
    return out, -ladj


def log_prob(obj: Any, x: Any, context: Any) -> Any:
    """The log-density of each point."""
    return obj.log_prob(x) if context is None else obj.log_prob(x, context)


def bits_per_dim(obj: Any, x: Any, context: Any) -> Any:
    """The bits per dimension of each point."""
    return obj.bits_per_dim(x)


def rsample(obj: Any, n: int, context: Any) -> Any:
    """Draw n points with gradients, by a number or a shape."""
    try:
        return obj.rsample(n)
    except TypeError:
        return obj.rsample((n,))


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
    """Levels to reals, by noise between zero and one."""
    return obj.dequantize(levels, noise)


def base_sample(obj: Any, n: int, context: Any) -> Any:
    """Draw n latents from the base of an object, by a number or a shape."""
    names = (
        "base",
        "base_dist",
        "base_distribution",
        "prior",
        "distribution",
        "q0",
        "latent",
        "base_density",
    )
    base = next(
        getattr(obj, name) for name in names if hasattr(getattr(obj, name, None), "log_prob")
    )
    try:
        out = base.sample((n,))
    except TypeError:
        out = base.sample(n)
    return out[0] if isinstance(out, (tuple, list)) else out


def sample_number(obj: Any, n: int, context: Any) -> Any:
    """Draw n points from an object whose sample takes a number."""
    out = obj.sample(n) if context is None else obj.sample(n, context)
    return out[0] if isinstance(out, (tuple, list)) else out


def sample_shape(obj: Any, n: int, context: Any) -> Any:
    """Draw n points from an object whose sample takes a shape."""
    out = obj.sample((n,)) if context is None else obj.sample((n,), context)
    return out[0] if isinstance(out, (tuple, list)) else out


def base_log_prob(obj: Any, z: Any, context: Any) -> Any:
    """The base log-density of each latent; trailing axes of an elementwise base are summed."""
    names = (
        "base",
        "base_dist",
        "base_distribution",
        "prior",
        "distribution",
        "q0",
        "latent",
        "base_density",
    )
    base = next(
        getattr(obj, name) for name in names if hasattr(getattr(obj, name, None), "log_prob")
    )
    value = base.log_prob(z)
    return value.reshape(len(z), -1).sum(1)


def repair(obj: Any) -> None:
    """Let the object put moved parameters back into their valid set."""
    obj.repair()


def parts(obj: Any) -> Any:
    """The bijections of the one list of sub-bijections that an object holds."""
    lists = [
        [(type(item).__name__, item) for item in value]
        for value in getattr(obj, "_modules", {}).values()
        if type(value).__name__ in ("ModuleList", "Sequential")
        and len(value) > 1
        and all(callable(getattr(item, "inverse", None)) for item in value)
    ]
    return lists[0] if len(lists) == 1 else []


def has_own_forward(obj: Any) -> bool:
    """Whether forward is the object's own and not a placeholder of its base class."""
    method = getattr(type(obj), "forward", None)
    if method is None or getattr(method, "__name__", "") == "_forward_unimplemented":
        return hasattr(obj, "forward") and method is None
    return True


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of an object that follows a protocol, as far as its attributes tell; `settle`
    completes it by a call.
    """
    invertible = callable(getattr(obj, "inverse", None))
    dense = callable(getattr(obj, "log_prob", None))
    mapping = has_own_forward(obj) and (
        invertible or not dense or hasattr(obj, "log_abs_det_jacobian")
    )
    offered = {name: speak for name, speak in OPTIONAL.items() if offers(obj, name)}
    if not mapping and not dense:
        return Dialect(**offered) if offered.keys() & {"dequantize", "icdf"} else None
    single = hasattr(obj, "log_abs_det_jacobian")
    based = any(hasattr(getattr(obj, name, None), "log_prob") for name in BASES)
    return Dialect(
        forward=(forward_single if single else forward_pair) if mapping else None,
        inverse=(inverse_single if single else inverse_pair) if mapping and invertible else None,
        log_prob=log_prob if dense else None,
        sample=sample_number if dense and callable(getattr(obj, "sample", None)) else None,
        base_log_prob=base_log_prob if dense and mapping and based else None,
        bits_per_dim=bits_per_dim
        if dense and callable(getattr(obj, "bits_per_dim", None))
        else None,
        parts=parts if mapping and parts(obj) else None,
        base_sample=base_sample if dense and mapping and based else None,
        repair=repair if callable(getattr(obj, "repair", None)) else None,
        **offered,
    )


OPTIONAL: dict[str, Any] = {
    "rsample": rsample,
    "cdf": cdf,
    "icdf": icdf,
    "loss": loss,
    "dequantize": dequantize,
}


def offers(obj: Any, name: str) -> bool:
    """Whether an object has a method of that name which can be called as it is here: cdf and icdf
    come together, a loss takes the data and the weight of its penalty.
    """
    method = getattr(obj, name, None)
    if name in ("cdf", "icdf"):
        return all(callable(getattr(obj, one, None)) for one in ("cdf", "icdf"))
    if name != "loss" or not callable(method):
        return callable(method)
    try:
        taken = list(inspect.signature(method).parameters)
    except (TypeError, ValueError):
        return False
    return len(taken) == 2 and "weight" in taken[1]


def settle(obj: Any, dialect: Dialect, x: Any, context: Any) -> tuple[Dialect, Any]:
    """The dialect corrected by what calls return, and the latent that forward returned (None for a
    density).
    """
    latent = None
    if dialect.forward is not None:
        run = obj if callable(obj) else obj.forward
        out = run(x) if context is None else run(x, context)
        if not isinstance(out, (tuple, list)):
            dialect = replace(dialect, forward=forward_single)
            if dialect.inverse is not None:
                dialect = replace(dialect, inverse=inverse_single)
        latent = out[0] if isinstance(out, (tuple, list)) else out
        if dialect.log_prob is not None and latent.dim() <= 1 < x.dim():
            # A density whose forward returns its log-likelihood, and no latent.
            dialect, latent = replace(dialect, forward=None, inverse=None, base_log_prob=None), None
    if dialect.log_prob is not None:
        dialect.log_prob(obj, x, context)
    if dialect.sample is not None:
        try:
            out = sample_number(obj, 2, context)
            fits = len(out) == 2
        except Exception:
            fits = False
        if not fits:
            dialect = replace(dialect, sample=sample_shape)
    return dialect, latent


def shapes(obj: Any) -> Iterator[Shape]:
    """Event shapes that an object may take, likeliest first."""
    for name in FEATURES:
        value = getattr(obj, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 4096:
            yield (value,)
        elif isinstance(value, (tuple, list)) and value and all(isinstance(v, int) for v in value):
            yield tuple(value)
    state = list(getattr(obj, "state_dict", dict)().values())
    for tensor in state:
        if getattr(tensor, "ndim", 0) >= 3 and min(tensor.shape[-3:]) >= 1 and tensor.shape[-1] > 3:
            yield tuple(tensor.shape[-3:])
    for tensor in state:
        if getattr(tensor, "ndim", 0) in (1, 2) and 0 < tensor.shape[-1] <= 256:
            yield (int(tensor.shape[-1]),)
            yield (int(tensor.shape[0]),)
    yield from ((d,) for d in (4, 2, 3, 1, 6, 8, 5, 7, 10, 12, 16, 20, 32, 64))
    channels = sorted(
        {int(size) for t in state if getattr(t, "ndim", 0) >= 1 for size in t.shape if size <= 64}
    )
    for count in (*channels, 1, 2, 3, 4):
        for side in (4, 8):
            yield (count, side, side)
            yield (2 * count, side, side)


def infer_shape(obj: Any, dialect: Dialect, normalizes: bool = False) -> Shape:
    """The first shape at which every call works and keeps the number of entries; `TargetError` if
    there is none.
    """
    import torch

    if normalizes and (shape := batch_norms.infer_shape(obj)):
        return shape
    tried: set[Shape] = set()
    for shape in shapes(obj):
        if shape in tried:
            continue
        tried.add(shape)
        x = 0.25 + 0.5 * torch.rand(
            3, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
        x = x.to(
            next((p.dtype for p in getattr(obj, "parameters", list)()), torch.get_default_dtype())
        )
        try:
            settled, latent = settle(obj, dialect, x, None)
            if latent is not None and (len(latent) != 3 or latent.numel() != x.numel()):
                continue
            if latent is not None and settled.inverse is not None:
                back, _ = settled.inverse(obj, latent, None)
                if back.shape != x.shape:
                    continue
            if settled.log_prob is not None and settled.log_prob(obj, x, None).numel() != 3:
                continue
        except Exception:  # the shape does not fit; which error says so is the object's affair
            continue
        return shape
    raise TargetError(
        f"the event shape of {type(obj).__name__} cannot be told; give it as ?event=3 or "
        "?event=2,4,4 (or --event 3), "
        "or as an attribute event_shape"
    )


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """What an object's attributes tell about it."""
    given = event_shape or getattr(obj, "event_shape", None)
    shape = (
        (given,)
        if isinstance(given, int)
        else tuple(int(size) for size in given)
        if given
        else None
    )
    domain = getattr(obj, "domain", getattr(obj, "support", None))
    codomain = getattr(obj, "codomain", None)
    context = getattr(obj, "context_shape", None)
    context = (context,) if isinstance(context, int) else context
    promises = {name.replace("_", "-") if name != "inverse_tolerance" else name: getattr(obj, name)
                for name in PROMISES if getattr(obj, name, None) is not None and not callable(getattr(obj, name))}  # fmt: skip
    offered = getattr(obj, "promises", ())
    promises |= (
        dict(offered) if isinstance(offered, dict) else {str(name): True for name in offered}
    )
    promises["direction"] = "either"
    normalizer, coupled = batch_norms.known(obj) if batch_norms.is_normalizer(obj) else (None, {})
    # What is called a prior or a distribution may be something else than what the flow starts from.
    base = next((name for name in BASES if hasattr(getattr(obj, name, None), "log_prob")), "")
    normal = base_promises(getattr(obj, base)) if base.startswith("base") or base == "q0" else {}
    promises = {**coupled, **normal, **promises}
    return Facts(
        event_shape=shape or (),
        domain=_support(domain) or REAL,
        codomain=_support(codomain),
        declared=_support(domain) is not None,
        context_shape=None if context is None else tuple(context),
        knots=knots(obj),
        promises={key: value for key, value in promises.items() if value is not False},
        normalizer=normalizer,
        preprocessing=_preprocessing(obj),
        **multi_scales.said(obj),
    )


def _preprocessing(obj: Any) -> Preprocessing | None:
    """The logit that an object says it is or begins with, by an attribute ``preprocessing``: a
    dictionary of the fields.
    """
    given = getattr(obj, "preprocessing", None)
    told = isinstance(given, Mapping) and set(given) <= {
        field.name for field in fields(Preprocessing)
    }
    return Preprocessing(**given) if told and given else None


def _support(value: Any) -> Support | None:
    if isinstance(value, (str, tuple, list, Support)):
        return Support.parse(tuple(value) if isinstance(value, list) else value)
    return None


def knots(obj: Any) -> tuple[float, ...]:
    """Numbers that an object keeps under names of bounds: where its formula may change."""
    words = (
        "bound",
        "limit",
        "threshold",
        "tail",
        "clip",
        "clamp",
        "low",
        "high",
        "left",
        "right",
        "cutoff",
        "knot",
    )
    found: set[float] = set()
    holders = list(obj.modules()) if hasattr(obj, "modules") else [obj]
    for holder in holders:
        for name, value in getattr(holder, "__dict__", {}).items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if number and (name in ("B", "bounds") or any(word in name.lower() for word in words)):
                found.add(abs(float(value)))
    return tuple(sorted(value for value in found if 0 < value < 1e6))[:4]


ADAPTER = Adapter(
    name="user",
    package="",
    title="user code",
    components=dict,
    recognizes=recognizes,
    describe=describe,
)
