"""Names in torch modules: whether one is a batch normalizer, and the roles of its attributes."""

from __future__ import annotations

import re
from typing import Any

from flowref.adapters.common.normalizers.torch_probe import named_tensors
from flowref.model import Dialect, Normalizer

# Values of an attribute ``kind``, or of ?kind=.
KIND, KINDS = "batch-norm", ("batch-norm", "bijection", "density")
STATISTICS = ("running_mean", "running_var")
# Role -> usual attribute names, likeliest first.
NAMES = {
    "weight": ("weight", "gamma", "scale", "w", "g"),
    "bias": ("bias", "beta", "shift", "b"),
    "running_mean": ("running_mean", "moving_mean", "moving_average_mean", "moving_avg_mean", "ema_mean", "rm"),
    "running_var": (
        "running_var", "running_variance", "moving_var", "moving_variance", "moving_average_variance", "moving_avg_variance",
        "ema_var", "ema_variance", "rv",
    ),
    "num_batches": ("num_batches_tracked",),
    "eps": ("eps", "epsilon"),
    "momentum": ("momentum", "decay", "mom"),
}  # fmt: skip
# Further weight names of sample normalization.
GAINS = ("gain", "g", "a_2")
# Abbreviated class names of batch norms.
SHORT_NAME = re.compile(r"(?<![A-Z])BN(?![a-z])")
# Roles that need tensors; constants may be Python numbers.
TENSORS = ("weight", "bias", *STATISTICS)
# Parts without computation.
INERT = frozenset({"Identity", "ParameterList", "ParameterDict", "BufferDict"})


def normalize(obj: Any, x: Any, context: Any) -> Any:
    """Call a normalizer whose forward returns its value alone."""
    return obj(x), None


DIALECT = Dialect(forward=normalize)


def classes(obj: Any) -> list[str]:
    """The class names of an object and its bases."""
    return [base.__name__ for base in type(obj).__mro__]


def is_normalizer(obj: Any) -> bool:
    """Whether an object is a module declared as a batch normalizer, by its kind or class name.

    A block named after one of its layers has others, unlike a normalizer.
    """
    if not hasattr(obj, "named_buffers"):
        return False
    kind = getattr(obj, "kind", None)
    if isinstance(kind, str) and kind in KINDS:
        return kind == KIND
    return _named_batch_norm(obj) and all(
        _named_batch_norm(part) or type(part).__name__ in INERT for part in obj.modules()
    )


def _named_batch_norm(obj: Any) -> bool:
    """Whether a class, or a base of it, is named after batch normalization; abbreviations count only with
    usual names of statistics.
    """
    names = [name.replace("_", "") for name in classes(obj)]
    if any("InstanceNorm" in name for name in names):
        return False
    short = any(map(SHORT_NAME.search, names)) and {*STATISTICS} <= set(own_roles(obj))
    return any("BatchNorm" in name for name in names) or short


def excluded(obj: Any, kind: str | None) -> bool:
    """Whether another kind was declared."""
    own = getattr(obj, "kind", None)
    said = kind if kind is not None else own if isinstance(own, str) else ""
    return bool(said) and KIND not in said and said in KINDS


def of_torch(obj: Any) -> bool:
    """Whether an object is torch's own batch normalizer, and not of a derived class."""
    return is_normalizer(obj) and type(obj).__module__.startswith("torch.")


def of_library(obj: Any, package: str, own: Normalizer) -> Normalizer | None:
    """The normalizer of a flow library's object: ``own`` for its BatchNorm, from attributes for a user's
    layer, else None.
    """
    for base in type(obj).__mro__:
        if base.__name__ == "BatchNorm" and package in base.__module__.split("."):
            return own
    return Normalizer(call=own.call, roles=named_roles(obj)) if is_normalizer(obj) else None


def named_roles(obj: Any) -> dict[str, str]:
    """Role -> attribute, dotted if it belongs to the only wrapped layer."""
    played = own_roles(obj)
    wrapped = [(name, part) for name, part in obj.named_children() if _named_batch_norm(part)]
    if len(wrapped) == 1:
        ((label, part),) = wrapped
        played = {role: f"{label}.{name}" for role, name in named_roles(part).items()} | played
    return played


def own_roles(obj: Any) -> dict[str, str]:
    """Role -> attribute of the object itself, by usual names."""
    found = {
        role: next((name for name in names if _plays(role, obj, name)), "")
        for role, names in NAMES.items()
    }
    return {role: name for role, name in found.items() if name}


def _plays(role: str, obj: Any, name: str) -> bool:
    """Whether an attribute has the type for a role: a tensor for per-channel roles, a number for constants."""
    try:
        value = getattr(obj, name)
    except Exception:  # a property may raise
        return False
    if hasattr(value, "numel"):
        return role in TENSORS or value.numel() == 1
    return role not in TENSORS and isinstance(value, (int, float)) and not isinstance(value, bool)


def sample_roles(obj: Any) -> dict[str, str]:
    """The weight and bias of sample normalization, by names."""
    named = {role: path for role, path in named_roles(obj).items() if role in ("weight", "bias")}
    others = [name for name in GAINS if getattr(getattr(obj, name, None), "requires_grad", False)]
    return {"weight": others[0], **named} if others else named


def normalizer_of(obj: Any) -> tuple[Normalizer, dict[str, Any]]:
    """The normalizer implied by attribute names, and promises that follow."""
    played = named_roles(obj)
    if "running_mean" in played or has_statistics(obj):
        return Normalizer(roles=played), {}
    # Without running statistics eval mode uses the batch's, so that rows are coupled by design.
    return Normalizer(roles=played), {"estimator": True, "batch-statistics": True}


def has_statistics(obj: Any) -> bool:
    """Whether an object has per-channel numbers that are no parameters: running statistics."""
    import torch

    return any(
        tensor.ndim and tensor.is_floating_point() and not isinstance(tensor, torch.nn.Parameter)
        for tensor in named_tensors(obj).values()
    )
