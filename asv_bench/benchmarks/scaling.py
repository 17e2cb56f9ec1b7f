"""How the time grows, over a floor that no implementation can pass.

For flows the floor are the conditioners' matrix products and convolutions alone; for batch
normalisation, the bytes that it must read and write, at the rate at which a plain copy moves them
in the same process.
"""

from __future__ import annotations

import functools
import resource
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from . import _cases
from ._cases import flow_case
from ._grid import DEVICES, installed, on_the_cpu, skipped
from ._models import IMAGES, conditioners, data
from ._sizes import VECTORS, Architecture
from ._timing import device_ratios, one_thread

IMPLS = ["flowref", "flowref-compiled", "nflows", "FrEIA"]
# Reads and writes of the input's size: statistics, then normalising; backward reads x and dy twice
# and writes dx.
PASSES = {"forward": 3, "forward_backward": 8, "eval": 2}


@functools.cache
def built(impl: str, op: str, architecture: Architecture, device: str) -> Any:
    """A flow of this architecture."""
    one_thread()
    return flow_case(impl, op, architecture, device)


def products(architecture: Architecture, device: str) -> Callable[[], None]:
    """The linear layers of all conditioners, each given numbers of the right shape."""
    steps: list[tuple[nn.Module, Tensor]] = []
    for net in conditioners(architecture):
        for layer in net.to(device):
            if isinstance(layer, nn.Linear):
                steps.append((layer, data((architecture.batch, layer.in_features), device)))
            elif isinstance(layer, nn.Conv2d):
                shape = (architecture.batch, layer.in_channels, *architecture.event[1:])
                steps.append((layer, data(shape, device)))

    def call() -> None:
        with torch.no_grad():
            for layer, x in steps:
                layer(x)

    return call


def over_products(impl: str, architecture: Architecture, device: str) -> dict[str, Any]:
    """The log-density over the products."""
    call = built(impl, "log_prob", architecture, device).call
    return {"samples": device_ratios(call, products(architecture, device), device), "number": 1}


class Dimension:
    """The number of features, at depth 8 and a batch of 256."""

    version = "1"
    unit = "ratio"
    params = (IMPLS, [2, 8, 32, 128, 512], list(DEVICES))
    param_names = ("impl", "features", "device")
    skip_params = skipped(*params)

    def track_log_prob_over_products(self, impl: str, features: int, device: str) -> dict[str, Any]:
        """The log-density."""
        return over_products(impl, replace(VECTORS["medium"], event=(features,), batch=256), device)


class Depth:
    """The number of couplings, with 16 features and a batch of 256."""

    version = "1"
    unit = "ratio"
    params = (IMPLS, [2, 4, 8, 16, 32], list(DEVICES))
    param_names = ("impl", "depth", "device")
    skip_params = skipped(*params)

    def track_log_prob_over_products(self, impl: str, depth: int, device: str) -> dict[str, Any]:
        """The log-density."""
        return over_products(impl, replace(VECTORS["medium"], depth=depth, batch=256), device)


class Batch:
    """The size of a batch, with 16 features and depth 8."""

    version = "1"
    unit = "ratio"
    params = (IMPLS, [1, 16, 256, 4096, 65536], list(DEVICES))
    param_names = ("impl", "batch", "device")
    # The CPU needs seconds for what only fills a GPU.
    skip_params = (*skipped(*params), *on_the_cpu(IMPLS, [65536]))

    def track_log_prob_over_products(self, impl: str, batch: int, device: str) -> dict[str, Any]:
        """The log-density."""
        return over_products(impl, replace(VECTORS["medium"], batch=batch), device)


class ImageSize:
    """The height and width of images of 4 channels, at depth 4 and a batch of 8."""

    version = "1"
    unit = "ratio"
    params = (IMPLS, [4, 8, 16, 32], list(DEVICES))
    param_names = ("impl", "side", "device")
    skip_params = skipped(*params, images=True)

    def track_log_prob_over_products(self, impl: str, side: int, device: str) -> dict[str, Any]:
        """The log-density."""
        return over_products(impl, replace(IMAGES["small"], event=(4, side, side), batch=8), device)


class BatchNormBytes:
    """Batch normalisation over the bytes that it moves at least."""

    version = "1"
    unit = "ratio"
    params = (["torch", "flowref", "flowref-compiled"], ["small", "medium", "large"], list(DEVICES))
    param_names = ("impl", "size", "device")
    skip_params = skipped(*params, needs="BatchNorm")

    def over_copy(self, impl: str, op: str, size: str, device: str) -> dict[str, Any]:
        """The time over that of a copy, which moves the bytes of the input twice."""
        case = _cases.batch_norm(impl, op, size, device)
        source = case.inputs[0].detach().clone()
        target = torch.empty_like(source)
        ratios = device_ratios(case.call, lambda: target.copy_(source), device)
        return {"samples": [value * 2 / PASSES[op] for value in ratios], "number": 1}

    def track_forward_over_copy(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Train mode, without gradients."""
        return self.over_copy(impl, "forward", size, device)

    def track_forward_backward_over_copy(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Train mode, with gradients."""
        return self.over_copy(impl, "forward_backward", size, device)

    def track_eval_over_copy(self, impl: str, size: str, device: str) -> dict[str, Any]:
        """Eval mode."""
        return self.over_copy(impl, "eval", size, device)


class Targets:
    """An audit of so many targets by one worker: what each costs, the start of the worker included."""

    version = "1"
    unit = "s"
    params = ([1, 2, 4, 8],)
    param_names = ("targets",)
    timeout = 300

    def setup(self, targets: int) -> None:
        """Needs the command's own package only."""
        if not installed("flowref.auditing"):
            raise NotImplementedError("this commit has no auditor")

    def track_seconds_per_target(self, targets: int) -> float:
        """Processor seconds of this process and of the worker."""
        import flowref

        names = (
            "Sigmoid",
            "Tanh",
            "Exp",
            "Softplus",
            "Affine",
            "Power",
            "StickBreaking",
            "Softmax",
        )
        specs = [f"torch:{name}Transform" for name in names[:targets]]

        def spent() -> float:
            used = [
                resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
            ]
            return sum(one.ru_utime + one.ru_stime for one in used)

        before = spent()
        report = flowref.audit(specs, laws=["map/*"], profile="quick", jobs=1)
        assert report.verdicts, "nothing was audited"
        return (spent() - before) / targets
