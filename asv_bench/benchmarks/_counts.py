"""Numbers that are the same in every run: operators dispatched, bytes allocated, bytes kept for
backward, kernels launched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Dispatched(TorchDispatchMode):
    """Counts what reaches the backend, and the bytes of storages that it makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's class is untyped
        self.operators = 0
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operator; views make no storage, and writing in place none either."""
        out = func(*args, **(kwargs or {}))
        self.operators += 1
        given = {
            _storage(x)
            for x in torch.utils._pytree.tree_leaves((args, kwargs))
            if isinstance(x, torch.Tensor)
        }
        for value in torch.utils._pytree.tree_leaves(out):
            if isinstance(value, torch.Tensor) and _storage(value) not in given:
                self.bytes += value.untyped_storage().nbytes()
        return out


def _storage(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata
    return address


def dispatched(call: Callable[[], Any]) -> Dispatched:
    """What one call dispatches, after another, in which optimisers and caches make their state."""
    call()
    counted = Dispatched()
    with counted:
        call()
    return counted


def saved_bytes(call: Callable[[], Any]) -> int:
    """Bytes of the distinct storages that a forward pass keeps for backward.

    They are held until the count is taken, so that no two had one address.
    """
    call()
    kept: dict[int, int] = {}
    held: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        held.append(tensor)
        kept[_storage(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        call()
    return sum(kept.values())


def kernels(call: Callable[[], Any]) -> int:
    """Kernels that one call launches on a GPU."""
    from torch.profiler import DeviceType, ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
        call()
        torch.cuda.synchronize()
    return sum(
        event.device_type == DeviceType.CUDA and not event.name.startswith(("Memcpy", "Memset"))
        for event in recorded.events()
    )


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most bytes that a call holds on a GPU beyond what was there before."""
    call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
