"""Lives of one torch object: what each typed step (`flowref.model.steps`) does to it.

A step that the object cannot take (no modules, no state_dict) raises `Unsupported`; anything else
it raises goes through.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from flowref.backends.torch.arrays import array, as_mapped
from flowref.backends.torch.live import DTYPES, Live, allotted
from flowref.backends.torch.manners import MANNERS
from flowref.backends.torch.methods import bare
from flowref.backends.torch.own_generators import seed_own
from flowref.backends.torch.reach import reached
from flowref.backends.torch.sandbox import seed_torch
from flowref.backends.torch.state import duplicate, module_to, modules, move, set_mode, trainable
from flowref.model import Life, Mapped, Unsupported, derive, steps
from flowref.model.cost import BACKWARD
from flowref.model.switching import switches


class Stage:
    """The object that lives, and the dtype of its inputs."""

    def __init__(self, live: Live, fresh: bool) -> None:
        self.live = live
        self.obj = live.fresh(0) if fresh else live.take()
        self.dtype = live.dtype
        self.saved: list[dict[str, Any]] = []
        self.held: dict[int, Any] = {}
        self.kept: dict[int, Any] = {}  # by the id of its step, which the plan holds

    def modules(self) -> list[Any]:
        """The object's modules; modes and state_dicts need one."""
        owned = modules(self.obj)
        if not owned:
            raise Unsupported("it holds no modules", waits=False)
        return owned

    def tensor(self, values: Any) -> Any:
        """An input as a tensor of the present dtype."""
        return self.live.tensor(values, self.dtype)

    def inputs(self, values: Sequence[Any], held: bool = False) -> list[Any]:
        """Arrays among some inputs as tensors; ``held``: the same ones for the same arrays."""

        def tensor(value: Any) -> Any:
            if not isinstance(value, np.ndarray):
                return value
            if not held:
                return self.tensor(value)
            return self.held.setdefault(id(value), self.tensor(value))

        if held and self.documents_cache:
            raise Unsupported("it documents that it keeps its last result for the same tensor")
        return [tensor(value) for value in values]

    @functools.cached_property
    def documents_cache(self) -> bool:
        """Whether a transform in it has the cache of torch.distributions, which users clear."""
        return any(
            isinstance(item, torch.distributions.Transform) and item._cache_size
            for _, item in reached(self.obj)
        )

    def seed(self, step: steps.Step[Any], earlier: int) -> None:
        """The random state of a step that so many of its kind come before."""
        draws = step.draws if isinstance(step, steps.Run) else None
        if draws is None:
            seed_torch(derive(self.live.seed, 29, earlier))
            np.random.seed(derive(self.live.seed, 31, earlier) % 2**32)
            seed_own(self.obj, derive(self.live.seed, 53, earlier))
        else:
            for seeded in (seed_torch, np.random.seed, random.seed):
                seeded(derive(self.live.seed, 37, draws) % 2**32)
            seed_own(self.obj, derive(self.live.seed, 59, draws))

    def called(self, call: str, *inputs: Any, how: str = "plain", held: bool = False) -> Any:
        """What a call in the current mode returns, as it is returned."""
        ready = self.inputs(inputs, held)
        return MANNERS[how](self.obj, bare(self.live, call), ready)

    def run(self, call: str, *inputs: Any, how: str = "plain") -> Mapped:
        """A call in the current mode."""
        return as_mapped(call, self.called(call, *inputs, how=how))


Action = Callable[[Stage, Any], Any]


def play(
    live: Live, actions: Mapping[type, Action], plan: Sequence[steps.Step[Any]], fresh: bool = False
) -> Life:
    """Play the steps in order on one private copy (``fresh``: on the object as built, before any
    history).
    """
    with allotted("play"):
        stage = Stage(live, fresh)
    outcomes = []
    with live.calling("play"):
        for index, step in enumerate(plan):
            # Each step has its own fixed random state, so that two lives that differ earlier meet
            # the same draws.
            stage.seed(step, sum(1 for other in plan[:index] if type(other) is type(step)))
            outcomes.append(actions[type(step)](stage, step))
    return Life(plan, outcomes)


def run_step(stage: Stage, step: steps.Run) -> Mapped:
    """A call in the current mode."""
    out = stage.called(step.call, *step.inputs, how=step.how, held=step.held)
    if step.kept:
        stage.kept[id(step)] = out
    return as_mapped(step.call, out)


def change_mode(stage: Stage, training: bool) -> steps.ModeChange:
    """Call ``.train()`` or ``.eval()``, and see what it did."""
    returned, recursed, raised = True, True, ""
    for module in stage.modules():
        if name := _trained(module):
            raised = f"a training: {name}.train() asks for something else than a mode, and eval() calls it"
            set_mode(module, training)
            continue
        try:
            answer = module.train() if training else module.eval()
        except TypeError as error:
            if all(callable(inner.train) for inner in module.modules()):
                raise
            # A flag hides the method. The rest is judged in the mode that was asked for.
            answer, raised = None, f"TypeError: {error}"
            set_mode(module, training)
        returned &= answer is module
        recursed &= all(inner.training is training for inner in module.modules())
    return steps.ModeChange(returned, recursed, raised)


def _trained(module: Any) -> str:
    """The class of a part that calls a training ``train``, which nobody starts; empty where none does."""
    parts = (part for part in module.modules() if callable(part.train) and not switches(part))
    return next((type(part).__name__ for part in parts), "")


def modes(stage: Stage, step: steps.Modes) -> dict[str, bool]:
    """The training flag of every module."""
    flags: dict[str, bool] = {}
    for index, root in enumerate(stage.modules()):
        prefix = "" if root is stage.obj else f"{index}."
        flags |= {f"{prefix}{name}": module.training for name, module in root.named_modules()}
    return flags


def overwrite(stage: Stage, step: steps.Overwrite) -> None:
    """Other values in a tensor that runs have been given."""
    with torch.no_grad():
        stage.held[id(step.array)].copy_(stage.tensor(step.values))


def learn(stage: Stage, step: steps.Learn) -> steps.Trained:
    """One step of stochastic gradient descent."""
    named = trainable(stage.obj)
    if not named:
        raise Unsupported("it has no trainable parameters", waits=False)
    loss = negative_log_likelihood(
        stage, stage.live.tensor(step.x), stage.live.tensor(step.context), step.center
    )
    if not loss.requires_grad:
        return steps.Trained(float(loss.detach()), {name: None for name, _ in named})
    gradients = torch.autograd.grad(loss, [p for _, p in named], allow_unused=True)
    with torch.no_grad():
        for (_, parameter), gradient in zip(named, gradients, strict=True):
            if gradient is not None and bool(torch.isfinite(gradient).all()):
                parameter.sub_(step.rate * gradient)
    return steps.Trained(
        float(loss.detach()),
        {name: array(g) for (name, _), g in zip(named, gradients, strict=True)},
    )


def negative_log_likelihood(
    stage: Stage, x: Any, context: Any, center: float = 0.0
) -> torch.Tensor:
    """The mean negative log-likelihood, under a normal base of that mean where the object is no
    density.
    """
    live = stage.live
    likelihood = live.dialect.log_prob is not None
    name = "log_prob" if likelihood else live.dialect.normalizing
    live.afford(name, len(x), 1 + 2 * BACKWARD, graphed=True)
    if likelihood:
        return -torch.as_tensor(live.function(name)(stage.obj, x, context)).mean()
    which = live.dialect.normalizing if live.dialect.inverse is not None else "forward"
    z, ladj = live.function(which)(stage.obj, x, context)
    off = z - center if center else z
    total = 0.5 * off.square().sum() / len(x)
    if isinstance(ladj, torch.Tensor):
        per_point = ladj.dim() and ladj.shape[0] == len(x)
        total = total - (ladj.sum() / len(x) if per_point else ladj.sum())
    return torch.as_tensor(total)


def fit(stage: Stage, step: steps.Fit) -> steps.Fitted:
    """The trained object takes its place."""
    if stage.live.training is None:
        raise Unsupported("it cannot be trained here")
    training = stage.live.training()
    stage.obj = duplicate(training.obj)
    return steps.Fitted(training.losses, training.error)


def cast(stage: Stage, step: steps.Cast) -> None:
    """Cast the object, and its inputs from then on."""
    for module in stage.modules():
        module_to(module, DTYPES[step.dtype])
    stage.dtype = DTYPES[step.dtype]


MODES: dict[type, Action] = {
    steps.Train: lambda stage, step: change_mode(stage, True),
    steps.Eval: lambda stage, step: change_mode(stage, False),
    steps.Run: run_step,
    steps.Reread: lambda stage, step: as_mapped(step.run.call, stage.kept[id(step.run)]),
    steps.Overwrite: overwrite,
    steps.Modes: modes,
    steps.Learn: learn,
    steps.Fit: fit,
    steps.Nudge: lambda stage, step: move(stage.obj, step.scale, step.seed),
    steps.Cast: cast,
}
