"""Batch normalisers of any library: how they are recognised, called, and which attributes play which role."""

from __future__ import annotations

from typing import Any

from flowref.model import Dialect, Facts, Normaliser, Shape

# Names under which implementations keep what a batch normaliser needs, likeliest first.
NAMES = {
    "weight": ("weight", "gamma", "scale"),
    "bias": ("bias", "beta", "shift"),
    "running_mean": ("running_mean", "moving_mean", "moving_average_mean", "moving_avg_mean"),
    "running_var": (
        "running_var", "running_variance", "moving_var", "moving_variance", "moving_average_variance", "moving_avg_variance",
    ),
    "num_batches": ("num_batches_tracked",),
    "eps": ("eps", "epsilon"),
    "momentum": ("momentum", "decay"),
}  # fmt: skip


def normalise(obj: Any, x: Any, context: Any) -> Any:
    """Call a normaliser whose forward returns its value alone."""
    return obj(x), None


def is_normaliser(obj: Any) -> bool:
    """Whether an object is a module that says, by the name of its class or of a base, that it normalises batches."""
    if not hasattr(obj, "named_buffers"):
        return False
    if getattr(obj, "kind", "") == "batch-norm":
        return True
    names = [base.__name__.replace("_", "") for base in type(obj).__mro__]
    return any("BatchNorm" in name for name in names) and not any("InstanceNorm" in name for name in names)


def roles(obj: Any) -> dict[str, str]:
    """The attribute that plays each role; those that are missing or None are left out."""
    found = {}
    for role, names in NAMES.items():
        name = next((name for name in names if getattr(obj, name, None) is not None), None)
        if name is not None:
            found[role] = name
    return found


DIALECT = Dialect(forward=normalise)


def facts(obj: Any, event_shape: Shape) -> Facts:
    """The facts of a normaliser that is called as a map of its input alone."""
    found = roles(obj)
    # Without running statistics the batch's own serve in eval mode as well: rows of a batch are coupled, and known to be.
    coupled = {} if "running_mean" in found else {"estimator": True, "batch-statistics": True}
    return Facts(event_shape=event_shape, promises=coupled, normaliser=Normaliser(roles=found))
