"""What names say of a module of torch: whether it is called a batch normalizer, and which attributes of it
are called what implementations keep.
"""

from __future__ import annotations

import re
from typing import Any

from flowref.adapters.common.normalizers.torch_probe import named_tensors
from flowref.model import Dialect, Normalizer

# What an object may declare itself to be, by an attribute ``kind`` or in its spec.
KIND, KINDS = "batch-norm", ("batch-norm", "bijection", "density")
STATISTICS = ("running_mean", "running_var")
# Names under which implementations keep what a batch normalizer needs, likeliest first.
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
# What the weight of what normalizes samples may be called beside what it is elsewhere.
GAINS = ("gain", "g", "a_2")
# How a class is called for short that normalizes batches.
SHORT_NAME = re.compile(r"(?<![A-Z])BN(?![a-z])")
# Roles played by tensors; the constants may be Python numbers.
TENSORS = ("weight", "bias", *STATISTICS)
# Parts that have numbers or do nothing.
INERT = frozenset({"Identity", "ParameterList", "ParameterDict", "BufferDict"})


def normalize(obj: Any, x: Any, context: Any) -> Any:
    """Call a normalizer whose forward returns its value alone."""
    return obj(x), None


DIALECT = Dialect(forward=normalize)


def classes(obj: Any) -> list[str]:
    """The names of the class of an object and of its bases."""
    return [base.__name__ for base in type(obj).__mro__]


def is_normalizer(obj: Any) -> bool:
    """Whether an object is a module that declares that it normalizes batches: by its kind, or by
    its class's name.

    A block that is named after one of its layers has others, which no normalizer does.
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
    """Whether the class of an object, or a base of it, is named after batch normalization: where that is for
    short, names of its statistics say that it is meant.
    """
    names = [name.replace("_", "") for name in classes(obj)]
    if any("InstanceNorm" in name for name in names):
        return False
    short = any(map(SHORT_NAME.search, names)) and {*STATISTICS} <= set(own_roles(obj))
    return any("BatchNorm" in name for name in names) or short


def excluded(obj: Any, kind: str | None) -> bool:
    """Whether it was said that an object is something else."""
    own = getattr(obj, "kind", None)
    said = kind if kind is not None else own if isinstance(own, str) else ""
    return bool(said) and KIND not in said and said in KINDS


def of_torch(obj: Any) -> bool:
    """Whether an object is a batch normalizer of torch itself, and not of a class that derives from
    one.
    """
    return is_normalizer(obj) and type(obj).__module__.startswith("torch.")


def of_library(obj: Any, package: str, own: Normalizer) -> Normalizer | None:
    """The normalizer that an object of a flow library is: ``own`` for the library's BatchNorm, what
    its attributes tell for a user's layer, None for all else.
    """
    for base in type(obj).__mro__:
        if base.__name__ == "BatchNorm" and package in base.__module__.split("."):
            return own
    return Normalizer(call=own.call, roles=named_roles(obj)) if is_normalizer(obj) else None


def named_roles(obj: Any) -> dict[str, str]:
    """The attribute that plays each role, dotted where the one layer that an object wraps has it;
    others are left out.
    """
    played = own_roles(obj)
    wrapped = [(name, part) for name, part in obj.named_children() if _named_batch_norm(part)]
    if len(wrapped) == 1:
        ((label, part),) = wrapped
        played = {role: f"{label}.{name}" for role, name in named_roles(part).items()} | played
    return played


def own_roles(obj: Any) -> dict[str, str]:
    """The attributes of the object itself that play roles, by known names."""
    found = {
        role: next((name for name in names if _plays(role, obj, name)), "")
        for role, names in NAMES.items()
    }
    return {role: name for role, name in found.items() if name}


def _plays(role: str, obj: Any, name: str) -> bool:
    """Whether an attribute can play a role: a tensor for what each channel has, a number for a
    constant.
    """
    try:
        value = getattr(obj, name)
    except Exception:  # a property may compute, and fail
        return False
    if hasattr(value, "numel"):
        return role in TENSORS or value.numel() == 1
    return role not in TENSORS and isinstance(value, (int, float)) and not isinstance(value, bool)


def sample_roles(obj: Any) -> dict[str, str]:
    """The weight and the bias of what normalizes samples, by their names."""
    named = {role: path for role, path in named_roles(obj).items() if role in ("weight", "bias")}
    others = [name for name in GAINS if getattr(getattr(obj, name, None), "requires_grad", False)]
    return {"weight": others[0], **named} if others else named


def normalizer_of(obj: Any) -> tuple[Normalizer, dict[str, Any]]:
    """What the attributes of a normalizer tell, and the promises that follow."""
    played = named_roles(obj)
    if "running_mean" in played or has_statistics(obj):
        return Normalizer(roles=played), {}
    # Without running statistics the batch's own serve in eval mode as well: rows of a batch are
    # coupled, by design.
    return Normalizer(roles=played), {"estimator": True, "batch-statistics": True}


def has_statistics(obj: Any) -> bool:
    """Whether an object has numbers per channel that are no parameters: running statistics under a
    name of its own.
    """
    import torch

    return any(
        tensor.ndim and tensor.is_floating_point() and not isinstance(tensor, torch.nn.Parameter)
        for tensor in named_tensors(obj).values()
    )
