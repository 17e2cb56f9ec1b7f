"""Scenarios on one live torch object: the ability behind the laws of mode and state.

A scenario is a list of steps, played in order on one private copy; the outcome of each step is
returned as plain values.

=============================  ===============================================================================
step                           outcome
=============================  ===============================================================================
("train",), ("eval",)          {"returned_self": bool, "recursed": bool, "raised": str}: what ``.train()`` / ``.eval()`` did;
                               what a flag that hides ``train`` makes it raise is told, and the mode set by that flag
("call", which, x, context)    `Mapped`, in the current mode; which "forward", "inverse" or "log_prob"
("call", which, x, ctx, how)   the same under "no_grad", "inference_mode" or "checkpoint"
("step", x, context)           one SGD step of size 1e-2 on the loss; {"loss", "gradients": {name: array or None}}
("nudge", seed, scale)         None; trainable parameters moved in place, as an optimizer does
("state",)                     {name: array}: parameters and buffers (or tensor attributes, for what is no module)
("reload",)                    None; the state_dict goes into a newly built object (strict), which plays on
("deepcopy",) ("pickle",)      None; the copy plays on
("torch_save",)                None; saved and loaded through torch, the copy plays on
("graph",)                     {name: True}: the buffers and tensor attributes that hold an autograd graph
("cast", dtype)                None; ``.to(dtype)``, after which calls are given inputs of that dtype
("dtypes",)                    {name: dtype}: of every floating parameter and buffer
("meta",)                      {name: device}: of every tensor the object holds, after ``.to("meta")``
("roles",)                     {role: array, number or None}: of a batch normalizer, by its `Normalizer`; absent: None
("assign", role, value)        None; a parameter, buffer or constant of a batch normalizer is set in place
("normalize", x)               the value of the call that normalizes, in the current mode
("normalize", x, how)          the same under "no_grad", "inference_mode" or "checkpoint"
("pullback", x, cotangent)     {"value", "x", "weight", "bias"}: of the normalizing call and of its vector-Jacobian product
("layers", which, x, context)  {name: how often it ran} of every sub-bijection that has parameters, in one call
("trace", which, x, c, names)  [(name, given, value, log-det)] of each run of the named modules in a call, and of the call
("cut", which, x, c, name, cotangents)  [gradient of the value times each cotangent], for what the named module gives
("draw", n)                    {"value", "graph"}: n samples, with gradients recorded, and whether they carry some
("pathwise", n, weights, seed) {"value", "graph", "slope"}: n reparameterized samples, and autograd's derivative of the sum of
                               weights * value in the direction in which ("nudge", seed, t) moves by t
("parameters", which, x, context)  what the conditioner of a coupling gives in one call, ``(rows, numbers)``
("bend", how, size)            None; from here on the conditioner gives something else (see `conditioners.bend`)
("count",)                     number of tensors alive in the process, after a garbage collection
=============================  ===============================================================================

A step that the object cannot take (no modules, no state_dict) raises `Unsupported`; anything else
it raises goes through.
"""

from __future__ import annotations

import gc
import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.calls import MANNERS
from flowref.backends.torch.conditioners import bend, conditioner, given
from flowref.backends.torch.levels import cut_after, running, traced
from flowref.backends.torch.live import DTYPES, Live, array, derive, mapped
from flowref.backends.torch.state import (
    duplicate,
    held,
    modules,
    move,
    named_state,
    set_mode,
    trainable,
)
from flowref.model import ROLES, Normalizer, Unsupported

LEARNING_RATE = 1e-2


class Stage:
    """The object on which a scenario is played, and how each step acts on it."""

    def __init__(self, live: Live, fresh: bool) -> None:
        self.live = live
        self.obj = live.fresh() if fresh else live.take()
        self.dtype = live.dtype

    def whole(self) -> list[Any]:
        """The object's modules; a scenario of modes needs one."""
        found = modules(self.obj)
        if not found:
            raise Unsupported("it holds no modules")
        return found

    def train(self) -> Any:
        return self._mode(True)

    def eval(self) -> Any:
        return self._mode(False)

    def _mode(self, training: bool) -> dict[str, Any]:
        returned, recursed, raised = True, True, ""
        for module in self.whole():
            try:
                answer = module.train() if training else module.eval()
            except TypeError as error:
                if all(callable(inner.train) for inner in module.modules()):
                    raise
                # A flag hides the method. The rest of the scenario is judged in the mode that was
                # asked for.
                answer, raised = None, f"TypeError: {error}"
                set_mode(module, training)
            returned &= answer is module
            recursed &= all(inner.training is training for inner in module.modules())
        return {"returned_self": returned, "recursed": recursed, "raised": raised}

    def call(self, which: str, x: Any, context: Any = None, how: str = "plain") -> Any:
        speak = self.live.speech(which)
        points, given = self.live.tensor(x, self.dtype), self.live.tensor(context, self.dtype)
        return mapped(which, MANNERS[how](self.obj, speak, points, given))

    def step(self, x: Any, context: Any = None) -> Any:
        named = trainable(self.obj)
        if not named:
            raise Unsupported("it has no trainable parameters")
        loss = self.loss(self.live.tensor(x), self.live.tensor(context))
        if not loss.requires_grad:
            return {"loss": float(loss.detach()), "gradients": {name: None for name, _ in named}}
        gradients = torch.autograd.grad(loss, [p for _, p in named], allow_unused=True)
        with torch.no_grad():
            for (_, parameter), gradient in zip(named, gradients, strict=True):
                if gradient is not None and bool(torch.isfinite(gradient).all()):
                    parameter.sub_(LEARNING_RATE * gradient)
        return {
            "loss": float(loss.detach()),
            "gradients": {name: array(g) for (name, _), g in zip(named, gradients, strict=True)},
        }

    def loss(self, x: Any, context: Any) -> torch.Tensor:
        """The negative log-likelihood, under a standard normal base where the object is no density."""
        if self.live.dialect.log_prob is not None:
            return -torch.as_tensor(self.live.dialect.log_prob(self.obj, x, context)).mean()
        which = (
            self.live.dialect.normalizing if self.live.dialect.inverse is not None else "forward"
        )
        z, ladj = self.live.speech(which)(self.obj, x, context)
        total = 0.5 * z.square().sum() / len(x)
        if isinstance(ladj, torch.Tensor):
            total = total - (
                ladj.sum() / len(x) if ladj.dim() and ladj.shape[0] == len(x) else ladj.sum()
            )
        return torch.as_tensor(total)

    def nudge(self, seed: int, scale: float) -> None:
        move(self.obj, scale, seed)

    def roles(self) -> dict[str, Any]:
        return {role: self._role(role) for role in ROLES}

    def _role(self, role: str) -> Any:
        owner, name = self._place(role)
        value = None if owner is None else getattr(owner, name)
        return array(value) if isinstance(value, torch.Tensor) else value

    def _place(self, role: str) -> tuple[Any, str]:
        """The object and the attribute that play a role; None where nothing does."""
        path = (self._normalizer().roles.get(role) or "").split(".")
        owner = self.obj
        for step in path[:-1]:
            owner = getattr(owner, step)
        return (owner, path[-1]) if path[-1] else (None, "")

    def _normalizer(self) -> Normalizer:
        found = self.live.facts.normalizer
        if found is None:
            raise Unsupported("it is no batch normalizer")
        return found

    def assign(self, role: str, value: Any) -> None:
        owner, name = self._place(role)
        if owner is None:
            raise Unsupported(f"it has no {role}")
        held_value = getattr(owner, name)
        if not isinstance(held_value, torch.Tensor):
            setattr(owner, name, value)
            return
        if not any(held_value is tensor for _, _, tensor in held(owner)):
            raise Unsupported(f"its {role} is computed from something else")
        with torch.no_grad():
            held_value.copy_(torch.as_tensor(np.asarray(value)).reshape(held_value.shape))

    def normalize(self, x: Any, how: str = "plain") -> Any:
        return self.call(self._normalizer().call, x, None, how).value

    def pullback(self, x: Any, cotangent: Any) -> dict[str, Any]:
        """The value of the normalizing call, and what its vector-Jacobian product gives for input
        and parameters.
        """
        leaf = self.live.tensor(x, self.dtype)
        assert leaf is not None
        leaf.requires_grad_(True)
        value = self.live.speech(self._normalizer().call)(self.obj, leaf, None)[0]
        wanted: dict[str, torch.Tensor] = {"x": leaf}
        for role in ("weight", "bias"):
            owner, name = self._place(role)
            parameter = None if owner is None else getattr(owner, name)
            if (
                isinstance(parameter, torch.Tensor)
                and parameter.is_leaf
                and parameter.requires_grad
            ):
                wanted[role] = parameter
        rows = torch.from_numpy(np.array(cotangent)).to(value.dtype)
        found = torch.autograd.grad(value, list(wanted.values()), rows, allow_unused=True)
        gradients = {role: array(gradient) for role, gradient in zip(wanted, found, strict=True)}
        return {"value": array(value), "x": None, "weight": None, "bias": None, **gradients}

    def parameters(self, which: str, x: Any, context: Any = None) -> Any:
        return given(
            conditioner(self.obj, self.live.facts.coupling), lambda: self.call(which, x, context)
        )

    def bend(self, how: str, size: float = 0.0) -> None:
        coupling = self.live.facts.coupling
        assert coupling is not None
        bend(conditioner(self.obj, coupling), coupling, how, size)

    def state(self) -> dict[str, Any]:
        return {
            name: array(tensor)
            for name, tensor in named_state(self.obj).items()
            if isinstance(tensor, torch.Tensor)
        }

    def reload(self) -> None:
        saved = [
            {k: duplicate(v) for k, v in module.state_dict().items()} for module in self.whole()
        ]
        training = [module.training for module in self.whole()]
        self.obj = self.live.fresh()
        for module, values, mode in zip(self.whole(), saved, training, strict=True):
            module.load_state_dict(values, strict=True)
            set_mode(module, mode)

    def deepcopy(self) -> None:
        import copy

        self.obj = copy.deepcopy(self.obj)

    def pickle(self) -> None:
        try:
            data = pickle.dumps(self.obj)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            # A class or function that pickle cannot find by name (a lambda, a local class) is the
            # author's choice.
            raise Unsupported(f"it cannot be pickled: {error}") from error
        self.obj = pickle.loads(data)

    def torch_save(self) -> None:
        buffer = io.BytesIO()
        try:
            torch.save(self.obj, buffer)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise Unsupported(f"it cannot be saved whole: {error}") from error
        buffer.seek(0)
        self.obj = torch.load(
            buffer, weights_only=False
        )  # it was saved a line above, by this process

    def graph(self) -> dict[str, bool]:
        found = {}
        for module in modules(self.obj):
            for name, buffer in module.named_buffers():
                if buffer.requires_grad or buffer.grad_fn is not None:
                    found[name] = True
        for place, (container, key, tensor) in enumerate(held(self.obj)):
            if tensor.grad_fn is not None and not isinstance(container, torch.Tensor):
                found.setdefault(str(key) if key is not None else str(place), True)
        return found

    def cast(self, dtype: str) -> None:
        for module in self.whole():
            module.to(DTYPES[dtype])
        self.dtype = DTYPES[dtype]

    def dtypes(self) -> dict[str, str]:
        named = named_state(self.obj)
        return {
            name: str(t.dtype).removeprefix("torch.")
            for name, t in named.items()
            if isinstance(t, torch.Tensor) and t.is_floating_point()
        }

    def meta(self) -> dict[str, str]:
        for module in self.whole():
            module.to("meta")
        return {str(key): str(tensor.device) for _, key, tensor in held(self.obj)}

    def layers(self, which: str, x: Any, context: Any = None) -> dict[str, int]:
        if not isinstance(self.obj, torch.nn.Module):
            raise Unsupported("it is no module")
        return running(self.obj, lambda: self.call(which, x, context))

    def trace(
        self, which: str, x: Any, context: Any, names: Sequence[str]
    ) -> list[tuple[str, Any, Any, Any]]:
        return traced(self.obj, names, lambda: self.call(which, x, context))

    def cut(
        self, which: str, x: Any, context: Any, name: str, cotangents: Sequence[Any]
    ) -> list[Any]:
        points, given = self.live.tensor(x, self.dtype), self.live.tensor(context, self.dtype)
        speak = self.live.speech(which)
        leaf, value = cut_after(self.obj, name, lambda: speak(self.obj, points, given)[0])
        found = []
        for cotangent in cotangents:
            gradient = None
            if value.requires_grad:
                rows = torch.from_numpy(np.array(cotangent)).to(value.dtype).reshape(value.shape)
                (gradient,) = torch.autograd.grad(
                    value, leaf, rows, retain_graph=True, allow_unused=True
                )
            found.append(np.zeros(leaf.shape) if gradient is None else array(gradient))
        return found

    def draw(self, n: int) -> dict[str, Any]:
        value = self.live.speech("sample")(self.obj, n, None)
        return {"value": array(value), "graph": bool(value.requires_grad)}

    def pathwise(self, n: int, weights: Any, seed: int) -> dict[str, Any]:
        value = self.live.speech("rsample")(self.obj, n, None)
        slope = 0.0
        if value.requires_grad:
            total = (
                value * torch.from_numpy(np.array(weights)).to(value.dtype).reshape(value.shape)
            ).sum()
            named = trainable(self.obj)
            gradients = torch.autograd.grad(
                total, [parameter for _, parameter in named], allow_unused=True
            )
            generator = torch.Generator().manual_seed(seed)
            for (_, parameter), gradient in zip(named, gradients, strict=True):
                step = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                slope += 0.0 if gradient is None else float((gradient.double() * step).sum())
        return {"value": array(value), "graph": bool(value.requires_grad), "slope": slope}

    def count(self) -> int:
        gc.collect()
        return sum(1 for item in gc.get_objects() if isinstance(item, torch.Tensor))


def play(live: Live, steps: Sequence[tuple[Any, ...]], fresh: bool = False) -> list[Any]:
    """Play the steps in order on one private copy (``fresh``: on the object as built, before any
    history).
    """
    stage = Stage(live, fresh)
    outcomes = []
    with live.calling("play"):
        for place, (name, *arguments) in enumerate(steps):
            action: Callable[..., Any] = getattr(stage, name)
            # Each step has its own fixed random state, so that two scenarios that differ earlier
            # meet the same draws.
            torch.manual_seed(derive(live.seed, 29, _kind(steps, place)))
            np.random.seed(derive(live.seed, 31, _kind(steps, place)) % 2**32)
            outcomes.append(action(*arguments))
    return outcomes


def _kind(steps: Sequence[tuple[Any, ...]], place: int) -> int:
    """How many steps of the same name came before: what keys a step's random state."""
    return sum(1 for step in steps[:place] if step[0] == steps[place][0])
