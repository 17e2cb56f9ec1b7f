"""Leaves that require a gradient but are not in ``parameters()``, and unregistered numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from flowref.backends.lives import Action
from flowref.backends.torch.reach import reached
from flowref.backends.torch.scenario import TorchScenarioObject
from flowref.model import Mapped, Unsupported, derive, steps


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def unregistered(obj: Any) -> dict[str, torch.Tensor]:
    """Path -> leaf that requires a gradient and shares no memory with a parameter."""
    if not isinstance(obj, nn.Module):
        raise Unsupported("it is no module")
    listed = {_memory(parameter) for parameter in obj.parameters()}
    return {
        path: item
        for path, item in reached(obj)
        if isinstance(item, torch.Tensor)
        and (item.requires_grad and item.is_leaf and item.numel())
        and _memory(item) not in listed
    }


def unregistered_names(stage: TorchScenarioObject, step: steps.Unregistered) -> Sequence[str]:
    """The paths of unregistered parameters."""
    return sorted(unregistered(stage.obj))


def sway(stage: TorchScenarioObject, step: steps.Sway) -> list[Mapped]:
    """Results of calls while one unregistered parameter is moved, in the random states of the same
    calls as scenario steps. It is restored afterwards, since copies share the contents of
    closures.
    """
    leaf = unregistered(stage.obj)[step.path]
    kept = leaf.detach().clone()
    generator = torch.Generator().manual_seed(derive(stage.live.seed, 41))
    moved = step.scale * torch.randn(leaf.shape, generator=generator, dtype=torch.float64)
    try:
        with torch.no_grad():
            leaf.add_(moved.to(leaf.dtype))
        swayed = []
        for index, run in enumerate(step.runs):
            stage.begin(run, index)
            swayed.append(stage.run(run.call, *run.inputs, how=run.how))
        return swayed
    finally:
        with torch.no_grad():
            leaf.copy_(kept)


def _not_saved(module: nn.Module) -> dict[str, Any]:
    """The non-persistent buffers of a module, by name."""
    return {name: module._buffers[name] for name in module._non_persistent_buffers_set}


def _unregistered_numbers(obj: Any) -> dict[str, tuple[Any, str]]:
    """Path -> (module, attribute) of numbers, also as one-element tensors, in plain attributes or
    in buffers that are not in the state_dict.
    """
    return {
        f"{path}.{name}" if path else name: (module, name)
        for path, module in (obj.named_modules() if isinstance(obj, nn.Module) else ())
        for name, value in (vars(module) | _not_saved(module)).items()
        if type(value) in (int, float)
        or (isinstance(value, torch.Tensor) and value.numel() == 1 and not value.requires_grad)
    }


def counters(stage: TorchScenarioObject, step: steps.Counters) -> Mapping[str, float]:
    """Unregistered numbers by name."""
    return {
        path: float(getattr(*place)) for path, place in _unregistered_numbers(stage.obj).items()
    }


def count(stage: TorchScenarioObject, step: steps.Count) -> None:
    """Set an unregistered number."""
    module, name = _unregistered_numbers(stage.obj)[step.name]
    value = getattr(module, name)
    tensor = isinstance(value, torch.Tensor)
    setattr(module, name, torch.full_like(value, step.value) if tensor else type(value)(step.value))


UNREGISTERED: dict[type, Action] = {
    steps.Unregistered: unregistered_names,
    steps.Sway: sway,
    steps.Counters: counters,
    steps.Count: count,
}
