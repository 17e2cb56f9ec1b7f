"""Leaves that require a gradient and that no ``parameters()`` lists, wherever an object keeps them."""

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
    """Leaves that require a gradient and share no memory with a parameter, by how they are reached."""
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
    """How they are reached."""
    return sorted(unregistered(stage.obj))


def sway(stage: TorchScenarioObject, step: steps.Sway) -> list[Mapped]:
    """Runs while one is moved, in the random states of the same runs as steps of a life. Copies
    share what a closure holds, so it is put back in any case.
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
    """The buffers of a module that are not persistent."""
    return {name: module._buffers[name] for name in module._non_persistent_buffers_set}


def _unregistered_numbers(obj: Any) -> dict[str, tuple[Any, str]]:
    """Where numbers stand that are plain attributes of modules, also as tensors of one number, or buffers that no
    state_dict has.
    """
    return {
        f"{path}.{name}" if path else name: (module, name)
        for path, module in (obj.named_modules() if isinstance(obj, nn.Module) else ())
        for name, value in (vars(module) | _not_saved(module)).items()
        if type(value) in (int, float)
        or (isinstance(value, torch.Tensor) and value.numel() == 1 and not value.requires_grad)
    }


def counters(stage: TorchScenarioObject, step: steps.Counters) -> Mapping[str, float]:
    """The numbers by name."""
    return {
        path: float(getattr(*place)) for path, place in _unregistered_numbers(stage.obj).items()
    }


def count(stage: TorchScenarioObject, step: steps.Count) -> None:
    """One is set."""
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
