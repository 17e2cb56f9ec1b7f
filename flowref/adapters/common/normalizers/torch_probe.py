"""Probes of torch modules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flowref.adapters.common.normalizers.probe import HeldArray, Probe, ProbedCall
from flowref.model import Array
from flowref.model.mode_switch import switches


@dataclass(frozen=True)
class TorchProbe(Probe):
    """A probe of a module; ``call``: a dialect function."""

    call: Callable[..., Any] = field(kw_only=True)

    def copied(self, obj: Any) -> Any:
        """See `Probe.copied`."""
        return copy.deepcopy(obj)

    def once(self, obj: Any, x: Array, training: bool) -> ProbedCall:
        """See `Probe.once`."""
        import torch

        if switches(obj):
            obj.train(training)
        given = torch.tensor(np.ascontiguousarray(x), dtype=self.dtype)  # it may write to its input
        with torch.no_grad():
            value, ladj = self.call(obj, given, None)
        return ProbedCall(value.detach().to(torch.float64).numpy().copy(), ladj is not None, obj)

    def held(self, obj: Any = None) -> dict[str, HeldArray]:
        """See `Probe.held`: parameters, buffers and plain attributes."""
        return {
            name: HeldArray(double_array(tensor), bool(tensor.requires_grad))
            for name, tensor in named_tensors(self.obj if obj is None else obj).items()
        }

    def having(self, obj: Any, name: str, values: Array) -> Any:
        """See `Probe.having`."""
        import torch

        live = copy.deepcopy(obj)
        tensor = named_tensors(live)[name]
        tensor.data.copy_(torch.as_tensor(values, dtype=tensor.dtype))
        return live

    def constants(self) -> Iterator[tuple[str, float]]:
        """See `Probe.constants`."""
        for label, part in self.obj.named_modules():
            for name, value in vars(part).items():
                if isinstance(value, float):
                    yield f"{label}.{name}" if label else name, value

    def with_constant(self, name: str, value: float) -> Any:
        """See `Probe.with_constant`."""
        live = copy.deepcopy(self.obj)
        owner, _, attribute = name.rpartition(".")
        setattr(live.get_submodule(owner), attribute, value)
        return live


def named_tensors(obj: Any) -> dict[str, Any]:
    """All tensors of a module by dotted name: parameters, buffers and plain attributes."""
    import torch

    found: dict[str, Any] = {}
    for label, part in obj.named_modules():
        prefix = f"{label}." if label else ""
        own = {**vars(part), **part._parameters, **part._buffers}
        found |= {
            f"{prefix}{name}": value
            for name, value in own.items()
            if isinstance(value, torch.Tensor) and not value.is_complex()
        }
    return found


def double_array(tensor: Any) -> Array:
    plain = tensor.detach()
    return np.array(plain.double().numpy() if plain.is_floating_point() else plain.numpy())


def value_alone(obj: Any, x: Any, context: Any) -> Any:
    """The value that forward returns, without accompanying results."""
    out = (obj if callable(obj) else obj.forward)(x)
    return (out[0] if isinstance(out, (tuple, list)) else out), None
