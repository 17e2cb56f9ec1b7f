"""Scenario steps on another device: one of the machine, or a stand-in for one."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from flowref.backends.lives import Action
from flowref.backends.torch.arrays import as_mapped
from flowref.backends.torch.compilers import uncompiled
from flowref.backends.torch.host import ELSEWHERE, devices_visible
from flowref.backends.torch.live import out_of_memory
from flowref.backends.torch.methods import input_rows
from flowref.backends.torch.reach import reachable_values, reached
from flowref.backends.torch.scenario import TorchScenarioObject
from flowref.backends.torch.stand_in import DEVICE, Misplaced, stand_in
from flowref.backends.torch.state import modules, trainable
from flowref.backends.torch.training import loss
from flowref.model import Dialect, FlowrefError, Unsupported, one_line, steps, user_code_location
from flowref.model.call import DRAWING, KERNELS, PAIRED, arguments
from flowref.model.cost import BACKWARD

# Words of torch's errors about tensors on two devices.
LONGEST = 160
SAYS = re.compile(r"same device|\bdevices?\b|cuda", re.IGNORECASE)
# Source code that names other devices, and folders of libraries.
MEANT = re.compile(r"\bdevice\b|\.cuda\(")
LIBRARIES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Device:
    """The device that an object is moved to. ``name``: "" for the stand-in."""

    name: str = ""

    @property
    def torch(self) -> torch.device:
        """The device as a `torch.device`."""
        return torch.device(self.name) if self.name else DEVICE

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside, the device exists and tensors can be made on it and moved to it."""
        with uncompiled(), devices_visible() if self.name else stand_in():
            yield

    def refusal(self, error: BaseException) -> BaseException | None:
        """The device's error about a tensor elsewhere, in a chain of causes, or None."""
        seen: BaseException | None = error
        while seen is not None:
            if isinstance(seen, Misplaced) or (self.name and SAYS.search(str(seen))):
                return seen
            seen = seen.__cause__ or seen.__context__
        return None


def move(stage: TorchScenarioObject, step: steps.Move) -> bool:
    """Moves the object, and later inputs, to the device; returns whether its code is meant to
    support that.
    """
    device, obj = Device(step.device), stage.obj
    _movable(obj)
    try:
        with device():
            if isinstance(obj, torch.nn.Module) or not callable(getattr(obj, "to", None)):
                for module in modules(obj):
                    module.to(device.torch)
            else:
                moved = obj.to(device.torch)
                stage.obj = obj if moved is None else moved
    except Exception as error:
        raise Unsupported(f"it cannot be moved to another device: {one_line(error)}") from error
    _check_device_names(stage.obj, device.torch)
    stage.device = device
    left = (item for _, item in reached(stage.obj) if isinstance(item, torch.Tensor) and item.dim())
    return _supports_devices(stage.obj) or any(one.device.type != device.torch.type for one in left)


def _supports_devices(obj: Any) -> bool:
    """Whether an object belongs to a library, or its code mentions devices."""
    root = sys.modules.get(getattr(obj, "__module__", ""), None)
    if "flowref.reference" in str(root) or any(name in str(root) for name in LIBRARIES):
        return True
    held = (item for _, item in reached(obj) if not isinstance(item, torch.Tensor))
    kinds = (
        {obj} if inspect.isroutine(obj) else {one for item in held for one in type(item).__mro__}
    )
    return any(MEANT.search(_user_source_code(kind)) for kind in kinds)


@functools.lru_cache(maxsize=256)  # Python reads the whole file for it
def _user_source_code(kind: Any) -> str:
    module = str(sys.modules.get(getattr(kind, "__module__", "")))
    if any(name in module for name in LIBRARIES):
        return ""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def _movable(obj: Any) -> None:
    """Raises `Unsupported` if the object's tensors are not moved by ``to``."""
    if any(isinstance(item, torch.jit.ScriptModule) for _, item in reached(obj)):
        raise Unsupported("torch moves a scripted module to devices of its own alone", blocked=True)
    if callable(getattr(obj, "to", None)):
        return

    def outside(item: Any) -> Any:
        return () if isinstance(item, torch.nn.Module) else reachable_values(item)

    for path, item in reached(obj, outside):
        if isinstance(item, torch.Tensor):
            raise Unsupported(f"it holds tensors ({path}), and no .to moves them to a device")


def _check_device_names(obj: Any, device: torch.device) -> None:
    """Raises `Unsupported` if the object names another device as its own."""
    for path, item in reached(obj):
        named = isinstance(item, str) and path.rpartition(".")[2] == "device"
        if (named or isinstance(item, torch.device)) and not _names_device(item, device):
            raise Unsupported(f"it is bound to a device by name: its {path} is {item}")


def _names_device(name: Any, device: torch.device) -> bool:
    """Whether a name is that of the device; the stand-in has the names of all devices that the
    machine lacks.
    """
    kind = str(name).partition(":")[0]
    return kind == device.type or (device == DEVICE and kind in ELSEWHERE)


def there(stage: TorchScenarioObject, step: steps.There) -> steps.Located:
    """Plays a step on the device, and records where its results lie, or its error."""
    try:
        with stage.device():
            if isinstance(step.step, steps.Learn):
                _training_step(stage, step.step)
                return steps.Located()
            out = _run_on_device(stage, step.step)
            left = _results_elsewhere(step.step.call, out, stage.device.torch)
            return steps.Located(
                left=left, out=as_mapped(step.step.call, out), tf32=_tf32(stage.device)
            )
    except FlowrefError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        refusal = stage.device.refusal(error)
        if refusal is None:
            return steps.Located(failed=one_line(error))
        kind = "TypeError" if isinstance(refusal, TypeError) else "RuntimeError"
        line = " ".join(str(refusal).split())[:LONGEST]
        made = getattr(refusal, "made", "")
        place = f" ({made} makes a tensor on the CPU)" if made else user_code_location(refusal)
        return steps.Located(refused=f"{kind}: {line}{place}")


def _tf32(device: Device) -> bool:
    """Whether float32 products or convolutions use TF32 on the device."""
    backends: Any = torch.backends
    return torch.device(device.torch).type == "cuda" and (
        backends.cuda.matmul.allow_tf32 or backends.cudnn.allow_tf32
    )


def _input_on_device(stage: TorchScenarioObject, value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    return stage.tensor(value).to(stage.device.torch)


def _dialect_on_device(stage: TorchScenarioObject) -> Dialect:
    dialect = stage.live.dialect
    bound = {each.name: getattr(dialect, each.name) for each in fields(dialect)}
    device = stage.device.torch
    moved = {
        name: _bound_tensors_moved(one, device)
        for name, one in bound.items()
        if isinstance(one, partial)
    }
    return replace(dialect, **moved)


def _bound_tensors_moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if type(value) in (tuple, list):
        return type(value)(_bound_tensors_moved(one, device) for one in value)
    if type(value) is dict:
        return {name: _bound_tensors_moved(one, device) for name, one in value.items()}
    if isinstance(value, partial):
        args, named = (
            _bound_tensors_moved(value.args, device),
            _bound_tensors_moved(value.keywords, device),
        )
        return partial(_bound_tensors_moved(value.func, device), *args, **named)
    return value


def _run_on_device(stage: TorchScenarioObject, run: steps.Run) -> Any:
    """The raw result of a call, in the random state of the step for every seed."""
    stage.live.afford(run.call, input_rows(run.inputs), graphed=True)
    given, _ = arguments(run.call, [_input_on_device(stage, value) for value in run.inputs], {})
    recorded = run.call not in DRAWING or run.call in ("rsample", *KERNELS)
    with torch.set_grad_enabled(recorded):
        return _dialect_on_device(stage).function(run.call)(stage.obj, *given)


def _results_elsewhere(call: str, out: Any, device: torch.device) -> tuple[str, ...]:
    """The results that lie on other devices; 0-d tensors may, since they combine with tensors of
    any device.
    """
    parts = out if isinstance(out, (tuple, list)) else (out,)
    names = ("value", "log-det") if call in PAIRED else ("result",) * len(parts)
    return tuple(
        name
        for name, part in zip(names, parts, strict=False)
        if isinstance(part, torch.Tensor) and part.dim() and part.device.type != device.type
    )


def _training_step(stage: TorchScenarioObject, step: steps.Learn) -> None:
    parameters = [parameter for _, parameter in trainable(stage.obj)]
    if not parameters:
        raise Unsupported("it has no trainable parameters", blocked=False)
    dialect = _dialect_on_device(stage)
    call = "log_prob" if dialect.log_prob is not None else dialect.normalizing
    stage.live.afford(call, len(step.x), 1 + 2 * BACKWARD, graphed=True)
    x, context = _input_on_device(stage, step.x), _input_on_device(stage, step.context)
    value = loss(stage.obj, dialect, x, context, step.center)
    if value.requires_grad:
        value.backward()
        with torch.no_grad():  # torch.optim.SGD would import a compiler on first use
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=step.rate)


DEVICES: dict[type, Action] = {steps.Move: move, steps.There: there}
