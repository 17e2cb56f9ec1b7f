"""Event shapes of batch normalizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flowref.adapters.common.normalizers.probe import EVAL, TRAIN
from flowref.adapters.common.normalizers.spellings import TENSORS, named_roles, normalizer_of
from flowref.adapters.common.normalizers.torch_probe import TorchProbe, value_alone
from flowref.model import Facts, Normalizer, Shape, TargetError

# Attributes with the number of channels.
CHANNELS = (
    "num_features", "num_channels", "n_features", "features", "channels", "n_channels", "input_dim", "dim", "size",
)  # fmt: skip
# Channels from which on few positions are used, and the maximal number tried.
WIDE, MOST = 64, 8192
# Layouts of events, likeliest first: c channels, h rows, w columns, and axes of one.
FIRST, ANYWHERE, LAST = "chw cw c chw1", "chw cw hwc wc c", "c hwc wc chw cw"


def layouts(counts: Iterable[int], orders: str, narrow: bool = False) -> Iterator[Shape]:
    """Event shapes for numbers of channels in several layouts. No other axis has that length, so parameters
    are unambiguous; ``narrow``: few positions for many channels.
    """
    for count in dict.fromkeys(counts):
        one, two = [side for side in (2, 3, 4) if side != count][:2]
        if narrow and count > WIDE:
            one, two = 1, 2
        sizes = {"c": count, "h": one, "w": two, "1": 1}
        yield from (tuple(sizes[axis] for axis in order) for order in orders.split())


def facts(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a normalizer called with its input alone."""
    normalizer, promises = normalizer_of(obj)
    return Facts(
        event_shape=event_shape or first_taken(obj) or (), promises=promises, normalizer=normalizer
    )


def first_taken(obj: Any) -> Shape | None:
    """The first event shape that a normalizer accepts in both modes, or None; copies are called."""
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
    shapes = layouts(channel_counts(obj), FIRST, narrow=True)
    return next((shape for shape in shapes if _accepts_in_both_modes(obj, shape, dtype)), None)


def channel_counts(obj: Any) -> list[int]:
    """Numbers of channels, likeliest first: from attributes, then from tensors with a role."""
    counts = [
        value
        for part in obj.modules()
        for name in CHANNELS
        if isinstance(value := getattr(part, name, None), int)
    ]
    counts += [
        _entry_count(obj, path) for role, path in named_roles(obj).items() if role in TENSORS
    ]
    counts += [int(tensor.numel()) for tensor in obj.parameters()]
    return [
        count
        for count in dict.fromkeys(counts)
        if 0 < count <= MOST and not isinstance(count, bool)
    ]


def _entry_count(obj: Any, path: str) -> int:
    for step in path.split("."):
        obj = getattr(obj, step)
    return int(obj.numel())


def misfit(obj: Any, normalizer: Normalizer, event_shape: Shape) -> str:
    """Why an event shape is implausible though broadcasting accepts it; empty if it is plausible."""
    path = normalizer.roles.get("running_mean")
    if normalizer.evidence or path is None or _entry_count(obj, path) == event_shape[0]:
        return ""
    return f"events of shape {event_shape} have {event_shape[0]} channels, but its {path} is for {_entry_count(obj, path)}"


def _accepts_in_both_modes(obj: Any, shape: Shape, dtype: Any) -> bool:
    probe = TorchProbe(obj, dtype, shape, call=value_alone)
    try:
        for mode in (EVAL, TRAIN):
            probe.life((mode, probe.draw(0, 4, 1.0)))
    except Exception:  # the shape does not fit; any class of exception
        return False
    return True
