"""Scenario steps on the state of a torch object: reading, copying and saving it."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from typing import Any

import torch

from flowref.backends.lives import Action
from flowref.backends.torch.arrays import array
from flowref.backends.torch.scenario import TorchScenarioObject
from flowref.backends.torch.state import modules, move, tensor_entries, trainable
from flowref.model import Array, Unsupported, steps

# Names of methods that fold layers.
FOLDING = (
    "fuse", "fold", "merge", "deploy", "fuse_model", "switch_to_deploy", "convert_to_deploy", "fold_bn", "fuse_bn",
    "merge_bn", "fold_batch_norm", "fuse_batch_norm", "remove_weight_norm", "remove_weightnorm",
)  # fmt: skip


def weights(stage: TorchScenarioObject, step: steps.Weights) -> dict[str, Array]:
    """The trained parameters by name."""
    return {name: array(parameter) for name, parameter in trainable(stage.obj)}


def branch(stage: TorchScenarioObject, step: steps.Branch) -> None:
    """Move the parameters of a deep copy."""
    move(copy.deepcopy(stage.obj), step.scale, step.seed)


def fold(stage: TorchScenarioObject, step: steps.Fold) -> None:
    """Fold the layers; raises `Unsupported` without such a method."""
    run = next(
        (found for name in FOLDING if callable(found := getattr(stage.obj, name, None))), None
    )
    if run is None:
        raise Unsupported("it has no method that folds its layers", blocked=False)
    made = run()
    if isinstance(made, torch.nn.Module):
        stage.obj = made


def through_file(stage: TorchScenarioObject, step: steps.TorchSave) -> None:
    """Save the object with torch.save, and continue with the loaded one."""
    buffer = io.BytesIO()
    try:
        torch.save(stage.obj, buffer)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise Unsupported(f"it cannot be saved whole: {error}") from error
    buffer.seek(0)
    # This process saved it a line above.
    stage.obj = torch.load(buffer, weights_only=False)


def graphs(stage: TorchScenarioObject, step: steps.Graphs) -> dict[str, bool]:
    """Names of buffers and attributes that hold an autograd graph."""
    names = {}
    for module in modules(stage.obj):
        for name, buffer in module.named_buffers():
            if buffer.requires_grad or buffer.grad_fn is not None:
                names[name] = True
    for index, (container, key, tensor) in enumerate(tensor_entries(stage.obj)):
        if tensor.grad_fn is not None and not isinstance(container, torch.Tensor):
            names.setdefault(str(key) if key is not None else str(index), True)
    return names


def compare_to_strangers(stage: TorchScenarioObject, step: steps.Compare) -> steps.Likeness:
    """Which unrelated objects the object is equal to."""
    kind: Any = type(stage.obj)
    if kind.__eq__ is object.__eq__:
        return steps.Likeness(False, ())
    strangers = {
        "a bare object": object(),
        "the exponential": torch.distributions.ExpTransform(),
        "a sigmoid": torch.distributions.SigmoidTransform(),
    }
    alike = tuple(name for name, other in strangers.items() if _says_equal(stage.obj, other))
    return steps.Likeness(True, alike)


def _says_equal(obj: object, other: object) -> bool:
    """Whether ``obj == other`` is True; False if it raises."""
    try:
        return (obj == other) is True
    except Exception:
        return False


def count_tensors(stage: TorchScenarioObject, step: steps.CountTensors) -> int:
    """The number of tensors alive in the process."""
    gc.collect()
    return sum(1 for item in gc.get_objects() if isinstance(item, torch.Tensor))


STATE: dict[type, Action] = {
    steps.Weights: weights,
    steps.Branch: branch,
    steps.Fold: fold,
    steps.TorchSave: through_file,
    steps.Graphs: graphs,
    steps.Compare: compare_to_strangers,
    steps.CountTensors: count_tensors,
}
