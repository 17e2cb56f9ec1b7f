"""Scenario steps inside a map: the conditioner of a coupling, the layers that run, and samples
with their graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from flowref.backends.lives import Action
from flowref.backends.torch.arrays import array
from flowref.backends.torch.conditioners import bend, conditioner, outputs
from flowref.backends.torch.derivatives import directional
from flowref.backends.torch.levels import cut_after, layer_run_counts, traced
from flowref.backends.torch.methods import sparingly
from flowref.backends.torch.parameter_cache import run_with_folding
from flowref.backends.torch.sandbox import seed_torch
from flowref.backends.torch.scenario import TorchScenarioObject
from flowref.backends.torch.state import tensor_entries
from flowref.model import Array, Unsupported, derive, steps
from flowref.model.cost import BACKWARD


def conditioner_output(stage: TorchScenarioObject, step: steps.Parameters) -> Array:
    """The outputs ``(n, numbers)`` of the conditioner."""
    module = conditioner(stage.obj, stage.live.facts.coupling)
    rows: Array = outputs(module, lambda: stage.run(step.call, step.x, step.context))
    return rows


def bend_conditioner(stage: TorchScenarioObject, step: steps.Bend) -> None:
    """Alter the outputs of the conditioner."""
    coupling = stage.live.facts.coupling
    if coupling is None:
        raise Unsupported("it is no coupling")
    bend(conditioner(stage.obj, coupling), coupling, step.how, step.size)


def layers(stage: TorchScenarioObject, step: steps.Layers) -> dict[str, int]:
    """Layer name -> number of runs in a call."""
    if not isinstance(stage.obj, torch.nn.Module):
        raise Unsupported("it is no module")
    return layer_run_counts(stage.obj, lambda: stage.run(step.call, step.x, step.context))


def trace(stage: TorchScenarioObject, step: steps.Trace) -> list[steps.Passed]:
    """Inputs and outputs of the named modules in a call."""
    runs = traced(stage.obj, step.names, lambda: stage.run(step.call, step.x, step.context))
    return [steps.Passed(*run) for run in runs]


def cut_gradients(stage: TorchScenarioObject, step: steps.Cut) -> list[Array]:
    """Gradients of a call's value by the output of a named module, one array for each cotangent."""
    points, context = stage.tensor(step.x), stage.tensor(step.context)
    function = stage.live.function(step.call)
    leaf, value = cut_after(stage.obj, step.name, lambda: function(stage.obj, points, context)[0])
    gradients = []
    for cotangent in step.cotangents:
        gradient = None
        if value.requires_grad:
            rows = torch.from_numpy(np.array(cotangent)).to(value.dtype).reshape(value.shape)
            (gradient,) = torch.autograd.grad(
                value, leaf, rows, retain_graph=True, allow_unused=True
            )
        gradients.append(np.zeros(leaf.shape) if gradient is None else array(gradient))
    return gradients


def sample_with_gradients(stage: TorchScenarioObject, step: steps.Draw) -> steps.Drawn:
    """Samples, and whether they have a graph."""
    value = stage.live.function("sample")(stage.obj, step.n, None)
    return steps.Drawn(array(value), bool(value.requires_grad))


# The largest parameter whose gradient alone is computed: the backward pass stays cheap.
SMALL = 4096


def pathwise(stage: TorchScenarioObject, step: steps.Pathwise) -> steps.Drawn:
    """Reparameterized samples and their derivative along a direction in the parameters."""
    live, slope = stage.live, 0.0
    live.afford("rsample", step.n, 1.0 if step.alone else 1 + BACKWARD)

    def run() -> Any:
        return live.function("rsample")(stage.obj, step.n, None)

    cost = live.facts.cost.of("rsample")
    if step.alone and cost.heavy:
        value = sparingly(live, "rsample", stage.obj, run)
    else:  # a graph of cached results holds them once
        value = run_with_folding(stage.obj, run) if cost.repeats else run()
    if value.requires_grad and not step.alone:
        weights = torch.from_numpy(np.array(step.weights)).to(value.dtype).reshape(value.shape)
        total = (value * weights).sum()
        if step.some:
            slope = directional(total, stage.obj, step.seed, largest=SMALL)
        slope = slope or directional(total, stage.obj, step.seed)
    return steps.Drawn(array(value), bool(value.requires_grad), slope)


# The number of tensors that are moved one by one.
MOVED = 8


def carry(stage: TorchScenarioObject, step: steps.Carry) -> steps.Carried:
    """Whether reparameterized samples have gradients in the object's tensors, and the effect of
    moving each.
    """
    entries = [one for one in tensor_entries(stage.obj) if one[2].is_floating_point()][:MOVED]
    leaves = [tensor.detach().clone().requires_grad_(True) for _, _, tensor in entries]
    value = _redrawn(stage, step.n, entries, leaves)
    graph, largest = bool(value.requires_grad), [0.0] * len(leaves)
    if graph:
        weights = torch.randn(value.shape, dtype=value.dtype)
        gradients = torch.autograd.grad((value * weights).sum(), leaves, allow_unused=True)
        largest = [0.0 if g is None or not g.numel() else float(g.abs().max()) for g in gradients]
    moved = []
    for index, leaf in enumerate(leaves):
        share = 1 + step.share * (2 * torch.rand_like(leaf) - 1)
        values = [one.detach() for one in leaves]
        values[index] = (leaf * share).detach()
        moved.append(array(_redrawn(stage, step.n, entries, values)))
    names = tuple(str(key) for _, key, _ in entries)
    return steps.Carried(array(value), graph, names, tuple(moved), tuple(largest))


def _redrawn(
    stage: TorchScenarioObject, count: int, entries: list[Any], values: list[torch.Tensor]
) -> Any:
    """Reparameterized samples from the same noise, with tensors of the object replaced."""
    for (container, key, _), value in zip(entries, values, strict=True):
        if isinstance(container, dict | list):
            container[key] = value
        elif not isinstance(container, tuple | set | frozenset) and key is not None:
            object.__setattr__(container, key, value)
    seed_torch(derive(stage.live.seed, 43))
    return stage.live.function("rsample")(stage.obj, count, None)


INSIDE: dict[type, Action] = {
    steps.Parameters: conditioner_output,
    steps.Bend: bend_conditioner,
    steps.Layers: layers,
    steps.Trace: trace,
    steps.Cut: cut_gradients,
    steps.Carry: carry,
    steps.Draw: sample_with_gradients,
    steps.Pathwise: pathwise,
}
