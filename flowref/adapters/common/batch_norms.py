"""Batch normalizers of any library: how they are recognized, called, and which attributes play
which role.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from flowref.model import Dialect, Facts, Normalizer, Shape, TargetError

# What an object may say that it is, by an attribute or in its spec.
KIND, KINDS = "batch-norm", ("batch-norm", "bijection", "density")
# Deviations from torch that may be declared (see `Normalizer`), by the keys under which they are.
CONVENTIONS = ("momentum", "running_var", "variance", "single")
# Names under which implementations keep what a batch normalizer needs, likeliest first.
NAMES = {
    "weight": ("weight", "gamma", "scale"),
    "bias": ("bias", "beta", "shift"),
    "running_mean": ("running_mean", "moving_mean", "moving_average_mean", "moving_avg_mean", "ema_mean"),
    "running_var": (
        "running_var", "running_variance", "moving_var", "moving_variance", "moving_average_variance", "moving_avg_variance",
        "ema_var", "ema_variance",
    ),
    "num_batches": ("num_batches_tracked",),
    "eps": ("eps", "epsilon"),
    "momentum": ("momentum", "decay"),
}  # fmt: skip
# Roles played by tensors; the constants may be Python numbers.
TENSORS = ("weight", "bias", "running_mean", "running_var")
# Names under which the number of channels is kept.
CHANNELS = (
    "num_features",
    "num_channels",
    "n_features",
    "features",
    "channels",
    "n_channels",
    "input_dim",
    "dim",
    "size",
)
# Parts that hold numbers or do nothing.
INERT = frozenset({"Identity", "ParameterList", "ParameterDict", "BufferDict"})
# Wide layers are audited on few positions.
WIDE, MOST = 64, 8192


def normalize(obj: Any, x: Any, context: Any) -> Any:
    """Call a normalizer whose forward returns its value alone."""
    return obj(x), None


def is_normalizer(obj: Any) -> bool:
    """Whether an object is a module that says that it normalizes batches: by its kind, or by its
    class's name.

    A block that is named after one of its layers holds others, which no normalizer does.
    """
    if not hasattr(obj, "named_buffers"):
        return False
    kind = getattr(obj, "kind", None)
    if isinstance(kind, str) and kind in KINDS:
        return kind == KIND
    return _named(obj) and all(
        _named(part) or type(part).__name__ in INERT for part in obj.modules()
    )


def _named(obj: Any) -> bool:
    """Whether the class of an object, or a base of it, is named after batch normalization."""
    names = [base.__name__.replace("_", "") for base in type(obj).__mro__]
    return any("BatchNorm" in name for name in names) and not any(
        "InstanceNorm" in name for name in names
    )


def of_torch(obj: Any) -> bool:
    """Whether an object is a batch normalizer of torch itself, and not of a class that derives from
    one.
    """
    return is_normalizer(obj) and type(obj).__module__.startswith("torch.")


def of_library(obj: Any, package: str, own: Normalizer) -> Normalizer | None:
    """What is known of an object of a flow library: ``own`` of the library's BatchNorm, the
    attributes of a user's layer.
    """
    for base in type(obj).__mro__:
        if base.__name__ == "BatchNorm" and package in base.__module__.split("."):
            return own
    return Normalizer(call=own.call, roles=roles(obj)) if is_normalizer(obj) else None


def roles(obj: Any) -> dict[str, str]:
    """The attribute that plays each role, dotted where the one layer that an object wraps has it;
    others are left out.
    """
    found = {}
    for role, names in NAMES.items():
        name = next((name for name in names if _plays(role, obj, name)), None)
        if name is not None:
            found[role] = name
    wrapped = [(name, part) for name, part in obj.named_children() if _named(part)]
    if len(wrapped) == 1:
        ((label, part),) = wrapped
        found = {role: f"{label}.{name}" for role, name in roles(part).items()} | found
    return found


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


DIALECT = Dialect(forward=normalize)


def known(obj: Any) -> tuple[Normalizer, dict[str, Any]]:
    """What is known of a normalizer by its attributes, and the promises that follow."""
    found = roles(obj)
    # Without running statistics the batch's own serve in eval mode as well: rows of a batch are
    # coupled, and known to be.
    coupled = (
        {}
        if "running_mean" in found or _keeps(obj)
        else {"estimator": True, "batch-statistics": True}
    )
    return Normalizer(roles=found), coupled


def _keeps(obj: Any) -> bool:
    """Whether an object keeps numbers per channel that are no parameters: running statistics under
    a name of its own.
    """
    held = [
        tensor
        for part in obj.modules()
        for tensor in (*vars(part).values(), *part.buffers(recurse=False))
    ]
    return any(
        getattr(tensor, "ndim", 0) >= 1 and tensor.is_floating_point()
        for tensor in held
        if hasattr(tensor, "numel")
    )


def facts(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a normalizer that is called as a map of its input alone."""
    normalizer, promises = known(obj)
    return Facts(
        event_shape=event_shape or infer_shape(obj) or (), promises=promises, normalizer=normalizer
    )


def infer_shape(obj: Any) -> Shape | None:
    """The first event shape at which a normalizer can be called in both modes, or None; the object
    is left as it was.
    """
    import torch

    if any(torch.nn.parameter.is_lazy(tensor) for tensor in (*obj.parameters(), *obj.buffers())):
        raise TargetError(
            f"{type(obj).__name__} has seen no batch yet, so its parameters have no shape; call "
            "it once first"
        )
    parameter = next(
        (tensor for tensor in (*obj.parameters(), *obj.buffers()) if tensor.is_floating_point()),
        None,
    )
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    return next((shape for shape in shapes(obj) if _takes(obj, shape, dtype)), None)


def shapes(obj: Any) -> Iterator[Shape]:
    """Event shapes that a normalizer may take: images, sequences, vectors and volumes of its number
    of channels.

    No other axis has the length of the channels, so that parameters cannot be meant for it.
    """
    for channels in _channels(obj):
        sides = [side for side in (2, 3, 4) if side != channels] if channels <= WIDE else [1, 2]
        yield from (
            (channels, *sides[:2]),
            (channels, sides[1]),
            (channels,),
            (channels, *sides[:2], 1),
        )


def _channels(obj: Any) -> list[int]:
    """Numbers of channels, likeliest first: those that attributes name, then those of the tensors
    that play a role.
    """
    counts = [
        value
        for part in obj.modules()
        for name in CHANNELS
        if isinstance(value := getattr(part, name, None), int)
    ]
    counts += [_count(obj, path) for role, path in roles(obj).items() if role in TENSORS]
    counts += [int(tensor.numel()) for tensor in obj.parameters()]
    return [
        count
        for count in dict.fromkeys(counts)
        if 0 < count <= MOST and not isinstance(count, bool)
    ]


def _count(obj: Any, path: str) -> int:
    """How many numbers the attribute of a dotted name holds."""
    for step in path.split("."):
        obj = getattr(obj, step)
    return int(obj.numel())


def misfit(obj: Any, normalizer: Normalizer, event_shape: Shape) -> str:
    """Why events of a shape cannot be meant for a normalizer that takes them, as broadcasting lets
    it; empty if they can.
    """
    path = normalizer.roles.get("running_mean")
    if path is None or _count(obj, path) == event_shape[0]:
        return ""
    return f"events of shape {event_shape} have {event_shape[0]} channels, but its {path} is for {_count(obj, path)}"


def _takes(obj: Any, shape: Shape, dtype: Any) -> bool:
    """Whether copies of a normalizer return batches of their input's shape in eval and in train
    mode.
    """
    import torch

    x = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(
        dtype
    )
    for training in (False, True):
        try:
            copied = copy.deepcopy(obj)
            if callable(copied.train):
                copied.train(training)
            out = copied(x)
        except Exception:  # the shape does not fit; which error says so is the object's affair
            return False
        value = out[0] if isinstance(out, (tuple, list)) else out
        if getattr(value, "shape", None) != x.shape:
            return False
    return True
