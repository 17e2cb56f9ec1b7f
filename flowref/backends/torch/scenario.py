"""Scenarios on one torch object: the methods of a `TorchScenarioObject`, and steps of modes and
training.

A step that the object does not support (no modules, no state_dict) raises `Unsupported`; its other
exceptions pass through.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from flowref.backends import lives
from flowref.backends.lives import Action
from flowref.backends.torch.arrays import array, as_mapped
from flowref.backends.torch.live import DTYPES, Live, allotted
from flowref.backends.torch.manners import MANNERS
from flowref.backends.torch.methods import unseeded_method
from flowref.backends.torch.own_generators import seed_own
from flowref.backends.torch.reach import reached
from flowref.backends.torch.sandbox import seed_torch
from flowref.backends.torch.state import (
    duplicate,
    module_to,
    modules,
    move,
    named_state,
    set_mode,
    tensor_entries,
    trainable,
)
from flowref.backends.torch.training import loss
from flowref.model import Array, Life, Mapped, Unsupported, derive, steps
from flowref.model.cost import BACKWARD
from flowref.model.mode_switch import switches


class TorchScenarioObject(lives.ScenarioObject):
    """The object of a scenario, and the dtype of its inputs."""

    framework = "torch"

    def __init__(self, live: Live, fresh: bool) -> None:
        super().__init__(live.fresh(0) if fresh else live.take(), live.facts)
        self.live, self.dtype = live, live.dtype
        self.inputs_held: dict[int, Any] = {}
        self.device: Any = contextlib.nullcontext

    def begin(self, step: steps.Step[Any], earlier: int) -> None:
        """Sets the random state of a step, from the number of earlier steps of its kind or from
        ``draws``.
        """
        made = step.step if isinstance(step, steps.There) else step
        draws = made.draws if isinstance(made, steps.Run) else None
        if draws is None:
            seed_torch(derive(self.live.seed, 29, earlier))
            np.random.seed(derive(self.live.seed, 31, earlier) % 2**32)
            seed_own(self.obj, derive(self.live.seed, 53, earlier))
        else:
            for seeded in (seed_torch, np.random.seed, random.seed):
                seeded(derive(self.live.seed, 37, draws) % 2**32)
            seed_own(self.obj, derive(self.live.seed, 59, draws))

    def modules(self) -> list[Any]:
        """The object's modules, for modes and state_dicts; raises `Unsupported` if there
        are none.
        """
        owned = modules(self.obj)
        if not owned:
            raise Unsupported("it holds no modules", blocked=False)
        return owned

    def tensor(self, values: Any) -> Any:
        """An input as a tensor of the present dtype."""
        return self.live.tensor(values, self.dtype)

    def called(self, call: str, *inputs: Any, how: str = "plain", held: bool = False) -> Any:
        """Calls the object in the current mode; ``held``: with the same tensors for the same
        arrays.
        """
        if held and self.documents_cache:
            raise Unsupported("it documents that it keeps its last result for the same tensor")

        def ready(value: Any) -> Any:
            if not isinstance(value, np.ndarray):
                return value
            tensor = self.tensor(value)
            return self.inputs_held.setdefault(id(value), tensor) if held else tensor

        return MANNERS[how](
            self.obj, unseeded_method(self.live, call), [ready(value) for value in inputs]
        )

    @functools.cached_property
    def documents_cache(self) -> bool:
        """Whether a transform in it uses the cache of torch.distributions, which users clear
        themselves.
        """
        return any(
            isinstance(item, torch.distributions.Transform) and item._cache_size
            for _, item in reached(self.obj)
        )

    def mapped(self, call: str, out: Any) -> Mapped:
        """See `lives.ScenarioObject`."""
        return as_mapped(call, out)

    def set_mode(self, training: bool) -> steps.ModeChange:
        """Calls ``.train()`` or ``.eval()``, and records the effect."""
        returned, recursed, raised = True, True, ""
        for module in self.modules():
            if name := _trained(module):
                raised = f"a training: {name}.train() asks for something else than a mode, and eval() calls it"
                set_mode(module, training)
                continue
            try:
                answer = module.train() if training else module.eval()
            except TypeError as error:
                if all(callable(inner.train) for inner in module.modules()):
                    raise
                # A flag hides the method. Later steps still run in the requested mode.
                answer, raised = None, f"TypeError: {error}"
                set_mode(module, training)
            returned &= answer is module
            recursed &= all(inner.training is training for inner in module.modules())
        return steps.ModeChange(returned, recursed, raised)

    def place(self, name: str) -> tuple[Any, str]:
        """The object and the attribute of a dotted name."""
        *path, attribute = name.split(".")
        return functools.reduce(getattr, path, self.obj), attribute

    def held(self, name: str) -> Any:
        """The value of a dotted name, as an array or a number."""
        return array(getattr(*self.place(name)))

    def hold(self, role: str, name: str, value: Any) -> None:
        """Sets the value of a role, in place; raises `Unsupported` if it is computed from
        something else.
        """
        owner, attribute = self.place(name)
        present = getattr(owner, attribute)
        if not isinstance(present, torch.Tensor):
            setattr(owner, attribute, value)
            return
        if not any(present is tensor for _, _, tensor in tensor_entries(owner)):
            raise Unsupported(f"its {role} is computed from something else")
        with torch.no_grad():
            present.copy_(torch.as_tensor(value).reshape(present.shape))

    def pulled(self, x: Array, cotangent: Array) -> tuple[Array, Array, dict[str, Any]]:
        """See `lives.ScenarioObject`: gradients of trained parameters only."""
        leaf = self.tensor(x)
        leaf.requires_grad_(True)
        value = self.live.function(self.normalizer.call)(self.obj, leaf, None)[0]
        wanted: dict[str, torch.Tensor] = {"x": leaf}
        for role in ("weight", "bias"):
            name = self.normalizer.roles.get(role)
            parameter = getattr(*self.place(name)) if name else None
            if (
                isinstance(parameter, torch.Tensor)
                and parameter.is_leaf
                and parameter.requires_grad
            ):
                wanted[role] = parameter
        rows = torch.from_numpy(np.array(cotangent)).to(value.dtype)
        gradients = torch.autograd.grad(value, list(wanted.values()), rows, allow_unused=True)
        pulled = {
            name: array(g) if g is not None or name == "x" else np.zeros(wanted[name].shape)
            for name, g in zip(wanted, gradients, strict=True)
        }
        return array(value), pulled.pop("x"), pulled

    def arrays(self) -> dict[str, Array]:
        """Parameters and buffers by name."""
        named = named_state(self.obj).items()
        return {name: array(tensor) for name, tensor in named if isinstance(tensor, torch.Tensor)}

    def dtypes(self) -> dict[str, str]:
        """See `lives.ScenarioObject`; without the tensors of modules with their own ``_apply``,
        which decides what is cast.
        """
        own = {
            f"{name}.{kept}".lstrip(".")
            for whole in modules(self.obj)
            for name, module in whole.named_modules()
            if type(module)._apply is not torch.nn.Module._apply
            for kept in (*module._parameters, *module._buffers)
        }
        return {
            name: str(tensor.dtype).removeprefix("torch.")
            for name, tensor in named_state(self.obj).items()
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and name not in own
        }

    def state(self) -> list[Any]:
        """The state_dicts of its modules."""
        return [copied(module.state_dict()) for module in self.modules()]

    def put(self, saved: list[Any]) -> None:
        """Load state_dicts into the modules."""
        for module, values in zip(self.modules(), saved, strict=True):
            module.load_state_dict(copied(values), strict=True)

    def reload(self, number: int) -> None:
        """Load the state_dict into a newly built object, in the mode of this one."""
        saved, training = self.state(), [module.training for module in self.modules()]
        self.obj = self.live.fresh(number)
        self.put(saved)
        for module, mode in zip(self.modules(), training, strict=True):
            set_mode(module, mode)

    def round_to(self, dtype: str) -> None:
        """Round every floating parameter and buffer to a dtype."""
        with torch.no_grad():
            for module in self.modules():
                for tensor in itertools.chain(module.parameters(), module.buffers()):
                    if tensor.is_floating_point():
                        tensor.copy_(tensor.to(DTYPES[dtype]))

    def move(self, scale: float, seed: int) -> None:
        """See `lives.ScenarioObject`."""
        move(self.obj, scale, seed)

    def cast(self, dtype: str) -> None:
        """Cast the object as its users would, and later inputs."""
        for module in self.modules():
            module_to(module, DTYPES[dtype])
        self.dtype = DTYPES[dtype]


def copied(state: Any) -> Any:
    """A copy of a state_dict with the version metadata of its modules, which a saved file
    has too.
    """
    made = OrderedDict((name, duplicate(value)) for name, value in state.items())
    if hasattr(state, "_metadata"):
        made._metadata = state._metadata  # type: ignore[attr-defined]  # as torch does
    return made


def _trained(module: Any) -> str:
    """The class of a submodule whose ``train`` is a training loop, which is never called; "" if
    there is none.
    """
    parts = (part for part in module.modules() if callable(part.train) and not switches(part))
    return next((type(part).__name__ for part in parts), "")


def play(
    live: Live, actions: Mapping[type, Action], plan: Sequence[steps.Step[Any]], fresh: bool = False
) -> Life:
    """Plays the steps in order on one private copy; ``fresh``: on the object as built."""
    with allotted("play"):
        stage = TorchScenarioObject(live, fresh)
    with live.calling("play"):
        return lives.play_steps(stage, actions, plan)


def modes(stage: TorchScenarioObject, step: steps.Modes) -> dict[str, bool]:
    """Module name -> training flag."""
    flags: dict[str, bool] = {}
    for index, root in enumerate(stage.modules()):
        prefix = "" if root is stage.obj else f"{index}."
        flags |= {f"{prefix}{name}": module.training for name, module in root.named_modules()}
    return flags


def overwrite(stage: TorchScenarioObject, step: steps.Overwrite) -> None:
    """Overwrite a tensor that earlier calls were given."""
    with torch.no_grad():
        stage.inputs_held[id(step.array)].copy_(stage.tensor(step.values))


def learn(stage: TorchScenarioObject, step: steps.Learn) -> steps.Trained:
    """One step of stochastic gradient descent; raises `Unsupported` without trainable
    parameters.
    """
    named = trainable(stage.obj)
    if not named:
        raise Unsupported("it has no trainable parameters", blocked=False)
    live = stage.live
    x: Any = live.tensor(step.x)
    call = "log_prob" if live.dialect.log_prob is not None else live.dialect.normalizing
    live.afford(call, len(step.x), 1 + 2 * BACKWARD, graphed=True)
    value = loss(stage.obj, live.dialect, x, live.tensor(step.context), step.center)
    if not value.requires_grad:
        return steps.Trained(float(value.detach()), {name: None for name, _ in named})
    gradients = torch.autograd.grad(value, [p for _, p in named], allow_unused=True)
    with torch.no_grad():
        for (_, parameter), gradient in zip(named, gradients, strict=True):
            if gradient is not None and bool(torch.isfinite(gradient).all()):
                parameter.sub_(step.rate * gradient)
    return steps.Trained(
        float(value.detach()),
        {name: array(g) for (name, _), g in zip(named, gradients, strict=True)},
    )


def train_stage_object(stage: TorchScenarioObject, step: steps.Fit) -> steps.Fitted:
    """Continue with the trained object."""
    if stage.live.training is None:
        raise Unsupported("it cannot be trained here")
    training = stage.live.training()
    stage.obj = duplicate(training.obj)
    return steps.Fitted(training.losses, training.error)


MODES: dict[type, Action] = {
    steps.Overwrite: overwrite,
    steps.Modes: modes,
    steps.Learn: learn,
    steps.Fit: train_stage_object,
}
