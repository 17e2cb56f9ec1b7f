"""Steps of a life that save, load, copy and look at the state of an object."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections import OrderedDict
from typing import Any

import torch

from flowref.backends.torch.arrays import array
from flowref.backends.torch.live import DTYPES
from flowref.backends.torch.scenario import Action, Stage
from flowref.backends.torch.state import (
    duplicate,
    modules,
    move,
    named_state,
    set_mode,
    tensor_entries,
    trainable,
)
from flowref.model import Array, Unsupported, one_line, steps

# Methods that fold layers into one another, as they are called.
FOLDING = (
    "fuse", "fold", "merge", "deploy", "fuse_model", "switch_to_deploy", "convert_to_deploy", "fold_bn", "fuse_bn",
    "merge_bn", "fold_batch_norm", "fuse_batch_norm", "remove_weight_norm", "remove_weightnorm",
)  # fmt: skip


def state(stage: Stage, step: steps.State) -> dict[str, Array]:
    """Parameters and buffers by name."""
    named = named_state(stage.obj).items()
    return {name: array(tensor) for name, tensor in named if isinstance(tensor, torch.Tensor)}


def weights(stage: Stage, step: steps.Weights) -> dict[str, Array]:
    """The parameters that are trained, by name."""
    return {name: array(parameter) for name, parameter in trainable(stage.obj)}


def reload(stage: Stage, step: steps.Reload) -> None:
    """The state_dict goes into a newly built object."""
    owned = stage.modules()
    saved = [kept(module.state_dict()) for module in owned]
    training = [module.training for module in owned]
    stage.obj = stage.live.fresh(step.number)
    for module, values, mode in zip(stage.modules(), saved, training, strict=True):
        module.load_state_dict(values, strict=True)
        set_mode(module, mode)


def save(stage: Stage, step: steps.Save) -> None:
    """The state_dict is kept."""
    owned = stage.modules()
    stage.saved = [kept(one.state_dict()) for one in owned]


def restore(stage: Stage, step: steps.Restore) -> None:
    """The state_dict that was kept goes back into the object."""
    for module, values in zip(stage.modules(), stage.saved, strict=True):
        module.load_state_dict(kept(values), strict=True)


def kept(state: Any) -> Any:
    """A copy of a state_dict, with the versions of its modules, which hooks ask for: a file has them."""
    copied = OrderedDict((name, duplicate(value)) for name, value in state.items())
    if hasattr(state, "_metadata"):
        copied._metadata = state._metadata  # type: ignore[attr-defined]  # as torch does
    return copied


def rounded(stage: Stage, step: steps.Rounded) -> None:
    """Every floating parameter and buffer is rounded to a dtype."""
    with torch.no_grad():
        for module in stage.modules():
            for tensor in (*module.parameters(), *module.buffers()):
                if tensor.is_floating_point():
                    tensor.copy_(tensor.to(DTYPES[step.dtype]))


def deepcopy(stage: Stage, step: steps.Deepcopy) -> None:
    """The deep copy lives on."""
    stage.obj = copy.deepcopy(stage.obj)


def branch(stage: Stage, step: steps.Branch) -> None:
    """A deep copy is moved."""
    move(copy.deepcopy(stage.obj), step.scale, step.seed)


def fold(stage: Stage, step: steps.Fold) -> None:
    """Its layers are folded."""
    run = next(
        (found for name in FOLDING if callable(found := getattr(stage.obj, name, None))), None
    )
    if run is None:
        raise Unsupported("it has no method that folds its layers", waits=False)
    made = run()
    if isinstance(made, torch.nn.Module):
        stage.obj = made


def through_pickle(stage: Stage, step: steps.Pickle) -> None:
    """What comes back from pickling lives on."""
    try:
        data = pickle.dumps(stage.obj)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        # A class or function that pickle cannot find by name (a lambda, a local class) is the
        # author's choice.
        raise Unsupported(f"it cannot be pickled: {one_line(error)}") from error
    stage.obj = pickle.loads(data)


def through_file(stage: Stage, step: steps.TorchSave) -> None:
    """What comes back from torch's file format lives on."""
    buffer = io.BytesIO()
    try:
        torch.save(stage.obj, buffer)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise Unsupported(f"it cannot be saved whole: {error}") from error
    buffer.seek(0)
    # It was saved a line above, by this process.
    stage.obj = torch.load(buffer, weights_only=False)


def graphs(stage: Stage, step: steps.Graphs) -> dict[str, bool]:
    """Names of what holds an autograd graph."""
    names = {}
    for module in modules(stage.obj):
        for name, buffer in module.named_buffers():
            if buffer.requires_grad or buffer.grad_fn is not None:
                names[name] = True
    for index, (container, key, tensor) in enumerate(tensor_entries(stage.obj)):
        if tensor.grad_fn is not None and not isinstance(container, torch.Tensor):
            names.setdefault(str(key) if key is not None else str(index), True)
    return names


def dtypes(stage: Stage, step: steps.Dtypes) -> dict[str, str]:
    """The dtype of every floating parameter and buffer, but for those of modules that say themselves what is cast."""
    own = {
        f"{name}.{kept}".lstrip(".")
        for whole in modules(stage.obj)
        for name, module in whole.named_modules()
        if type(module)._apply is not torch.nn.Module._apply
        for kept in (*module._parameters, *module._buffers)
    }
    return {
        name: str(tensor.dtype).removeprefix("torch.")
        for name, tensor in named_state(stage.obj).items()
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and name not in own
    }


def to_meta(stage: Stage, step: steps.Meta) -> dict[str, str]:
    """The device of every tensor after ``.to("meta")``."""
    for module in stage.modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise Unsupported("torch does not move a scripted module to a device without memory")
        module.to("meta")
    return {str(key): str(tensor.device) for _, key, tensor in tensor_entries(stage.obj)}


def compare(stage: Stage, step: steps.Compare) -> steps.Likeness:
    """Which strangers the object is equal to."""
    kind: Any = type(stage.obj)
    if kind.__eq__ is object.__eq__:
        return steps.Likeness(False, ())
    strangers = {
        "a bare object": object(),
        "the exponential": torch.distributions.ExpTransform(),
        "a sigmoid": torch.distributions.SigmoidTransform(),
    }
    alike = tuple(name for name, other in strangers.items() if _equal(stage.obj, other))
    return steps.Likeness(True, alike)


def _equal(obj: object, other: object) -> bool:
    """Whether an object says that it is equal to another; one that raises says nothing."""
    try:
        return (obj == other) is True
    except Exception:
        return False


def count_tensors(stage: Stage, step: steps.CountTensors) -> int:
    """How many tensors are alive in the process."""
    gc.collect()
    return sum(1 for item in gc.get_objects() if isinstance(item, torch.Tensor))


STATE: dict[type, Action] = {
    steps.State: state,
    steps.Weights: weights,
    steps.Reload: reload,
    steps.Save: save,
    steps.Restore: restore,
    steps.Rounded: rounded,
    steps.Branch: branch,
    steps.Deepcopy: deepcopy,
    steps.Fold: fold,
    steps.Pickle: through_pickle,
    steps.TorchSave: through_file,
    steps.Graphs: graphs,
    steps.Dtypes: dtypes,
    steps.Meta: to_meta,
    steps.Compare: compare,
    steps.CountTensors: count_tensors,
}
