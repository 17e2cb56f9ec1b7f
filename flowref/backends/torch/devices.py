"""Steps of a life on another device: one of the machine's, or the stand-in for one."""

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

# What torch says of tensors on two devices.
LONGEST = 160
SAYS = re.compile(r"same device|\bdevices?\b|cuda", re.IGNORECASE)
# What code says that is meant for other devices, and where libraries lie.
MEANT = re.compile(r"\bdevice\b|\.cuda\(")
LIBRARIES = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class Device:
    """Where an object is moved. ``name``: empty for the stand-in."""

    name: str = ""

    @property
    def torch(self) -> torch.device:
        """As torch names it."""
        return torch.device(self.name) if self.name else DEVICE

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """What is made and moved by its name is made and moved there meanwhile."""
        with uncompiled(), devices_visible() if self.name else stand_in():
            yield

    def refusal(self, error: BaseException) -> BaseException | None:
        """The device's refusal of a tensor elsewhere: an error, or one that it comes from."""
        seen: BaseException | None = error
        while seen is not None:
            if isinstance(seen, Misplaced) or (self.name and SAYS.search(str(seen))):
                return seen
            seen = seen.__cause__ or seen.__context__
        return None


def move(stage: TorchScenarioObject, step: steps.Move) -> bool:
    """The object is on the device, and so are inputs from then on. Whether it is meant to be."""
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
    _follows(stage.obj, device.torch)
    stage.device = device
    left = (item for _, item in reached(stage.obj) if isinstance(item, torch.Tensor) and item.dim())
    return _speaks(stage.obj) or any(one.device.type != device.torch.type for one in left)


def _speaks(obj: Any) -> bool:
    """Whether it is a library's, or its code speaks of devices."""
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
    """The code of a class or function that is no library's; empty where there is none to read."""
    module = str(sys.modules.get(getattr(kind, "__module__", "")))
    if any(name in module for name in LIBRARIES):
        return ""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def _movable(obj: Any) -> None:
    """Raises `Unsupported` where tensors of the object are not moved by whoever moves it."""
    if any(isinstance(item, torch.jit.ScriptModule) for _, item in reached(obj)):
        raise Unsupported("torch moves a scripted module to devices of its own alone", waits=True)
    if callable(getattr(obj, "to", None)):
        return

    def outside(item: Any) -> Any:
        return () if isinstance(item, torch.nn.Module) else reachable_values(item)

    for path, item in reached(obj, outside):
        if isinstance(item, torch.Tensor):
            raise Unsupported(f"it holds tensors ({path}), and no .to moves them to a device")


def _follows(obj: Any, device: torch.device) -> None:
    """Raises `Unsupported` where the object says by name on which other device it is."""
    for path, item in reached(obj):
        named = isinstance(item, str) and path.rpartition(".")[2] == "device"
        if (named or isinstance(item, torch.device)) and not _is(item, device):
            raise Unsupported(f"it is bound to a device by name: its {path} is {item}")


def _is(name: Any, device: torch.device) -> bool:
    """Whether a name is that of a device; the stand-in is any that is not there."""
    kind = str(name).partition(":")[0]
    return kind == device.type or (device == DEVICE and kind in ELSEWHERE)


def there(stage: TorchScenarioObject, step: steps.There) -> steps.Located:
    """What became of a step."""
    try:
        with stage.device():
            if isinstance(step.step, steps.Learn):
                _learn(stage, step.step)
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
        return steps.Located(refused=f"{kind}: {line}{user_code_location(refusal)}")


def _tf32(device: Device) -> bool:
    """Whether single precision is less than that on a device: in products, or in convolutions."""
    backends: Any = torch.backends
    return torch.device(device.torch).type == "cuda" and (
        backends.cuda.matmul.allow_tf32 or backends.cudnn.allow_tf32
    )


def _ready(stage: TorchScenarioObject, value: Any) -> Any:
    """An input on the device."""
    if not isinstance(value, np.ndarray):
        return value
    return stage.tensor(value).to(stage.device.torch)


def _dialect(stage: TorchScenarioObject) -> Dialect:
    """How the object is called: what is bound to its calls besides points is on the device as well."""
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
    """Tensors among the arguments that are bound to a function, on a device."""
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
    """What a call returns. Its random state is that of the step, whatever seed it is given."""
    stage.live.afford(run.call, input_rows(run.inputs), graphed=True)
    given, _ = arguments(run.call, [_ready(stage, value) for value in run.inputs], {})
    recorded = run.call not in DRAWING or run.call in ("rsample", *KERNELS)
    with torch.set_grad_enabled(recorded):
        return _dialect(stage).function(run.call)(stage.obj, *given)


def _results_elsewhere(call: str, out: Any, device: torch.device) -> tuple[str, ...]:
    """The results that lie elsewhere; numbers may, as they go along with tensors of any device."""
    parts = out if isinstance(out, (tuple, list)) else (out,)
    names = ("value", "log-det") if call in PAIRED else ("result",) * len(parts)
    return tuple(
        name
        for name, part in zip(names, parts, strict=False)
        if isinstance(part, torch.Tensor) and part.dim() and part.device.type != device.type
    )


def _learn(stage: TorchScenarioObject, step: steps.Learn) -> None:
    """A backward pass of the loss, and a step of an optimizer."""
    parameters = [parameter for _, parameter in trainable(stage.obj)]
    if not parameters:
        raise Unsupported("it has no trainable parameters", waits=False)
    dialect = _dialect(stage)
    call = "log_prob" if dialect.log_prob is not None else dialect.normalizing
    stage.live.afford(call, len(step.x), 1 + 2 * BACKWARD, graphed=True)
    x, context = _ready(stage, step.x), _ready(stage, step.context)
    value = loss(stage.obj, dialect, x, context, step.center)
    if value.requires_grad:
        value.backward()
        with torch.no_grad():  # as torch.optim.SGD does, whose first use imports a compiler
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=step.rate)


DEVICES: dict[type, Action] = {steps.Move: move, steps.There: there}
