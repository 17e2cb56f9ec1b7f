"""The shapes of events that a batch normalizer takes, and with them its facts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from flowref.adapters.common.batch_norms import TENSORS, normalizer_of, roles
from flowref.model import Facts, Normalizer, Shape, TargetError
from flowref.model.switching import switches

# Names under which the number of channels stands.
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
# Wide layers are audited on few positions.
WIDE, MOST = 64, 8192


def facts(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a normalizer that is called as a map of its input alone."""
    normalizer, promises = normalizer_of(obj)
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
    for count in channels(obj):
        sides = [side for side in (2, 3, 4) if side != count] if count <= WIDE else [1, 2]
        yield from (
            (count, *sides[:2]),
            (count, sides[1]),
            (count,),
            (count, *sides[:2], 1),
        )


def channels(obj: Any) -> list[int]:
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
    if normalizer.evidence or path is None or _count(obj, path) == event_shape[0]:
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
            if switches(copied):
                copied.train(training)
            out = copied(x)
        except Exception:  # the shape does not fit; which error says so is the object's affair
            return False
        value = out[0] if isinstance(out, (tuple, list)) else out
        if getattr(value, "shape", None) != x.shape:
            return False
    return True
