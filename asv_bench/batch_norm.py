"""The reference BatchNorm beside nn.BatchNorm2d, in ratios: `python asv_bench/batch_norm.py`.

Prints how many times as long a forward and backward pass takes, eagerly and compiled, and the bytes that each saves for
backward. All take turns on one thread in one run, so that what else the machine does falls on all alike. Each turn starts
with untimed passes: memory that another layer gave back to the system would be charged to this one. Ratios are of the
medians, and of the shortest times in brackets. Figures are for reading; nothing is asserted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from flowref.reference import BatchNorm

SHAPE = (32, 64, 32, 32)
ROUNDS, UNTIMED, TIMED = 30, 2, 3


def seconds(layer: Callable[[Any], Any], x: torch.Tensor, dy: torch.Tensor) -> float:
    """The time of one forward and backward pass."""
    x.grad = None
    began = time.perf_counter()
    layer(x).backward(dy)
    return time.perf_counter() - began


def saved_bytes(layer: Callable[[Any], Any], x: torch.Tensor) -> int:
    """Bytes of the distinct tensors that a forward pass keeps for backward."""
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = layer(x)  # held until the count is taken, so that no two tensors had one address
    del y
    return sum(kept.values())


def ratio(times: list[float], base: list[float]) -> str:
    """How many times as long: in the median, and at best."""
    return f"{statistics.median(times) / statistics.median(base):.2f} ({min(times) / min(base):.2f}) times as long"


def main() -> None:
    """Print the figures."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, dy = torch.randn(SHAPE, requires_grad=True), torch.randn(SHAPE)
    layers: dict[str, Callable[[Any], Any]] = {
        "nn.BatchNorm2d": nn.BatchNorm2d(SHAPE[1]),
        "eager": BatchNorm(SHAPE[1]),
        "compiled": torch.compile(BatchNorm(SHAPE[1]), fullgraph=True),
    }
    try:
        layers["compiled"](x)
    except Exception as error:  # no C++ compiler here, say; the eager figures stand alone
        print(f"torch.compile does not run here: {type(error).__name__}: {str(error).splitlines()[0]}")
        del layers["compiled"]
    times: dict[str, list[float]] = {name: [] for name in layers}
    for lap in range(1 + ROUNDS):  # the first compiles
        for name, layer in layers.items():
            taken = [seconds(layer, x, dy) for _ in range(UNTIMED + TIMED)]
            times[name] += taken[UNTIMED:] if lap else []
    base = times["nn.BatchNorm2d"]
    print(
        f"forward and backward at {SHAPE}, float32, one thread; nn.BatchNorm2d {1e3 * statistics.median(base):.2f} ms"
    )
    for name in list(layers)[1:]:
        print(f"BatchNorm, {name}: {ratio(times[name], base)}")
    native = saved_bytes(layers["nn.BatchNorm2d"], x)
    for name, layer in layers.items():
        count = saved_bytes(layer, x)
        print(f"saved for backward, {name}: {count:,} bytes, {count / native:.4f} times as many")


if __name__ == "__main__":
    main()
