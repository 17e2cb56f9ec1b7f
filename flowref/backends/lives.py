"""Lives of one object, whatever framework it is of: what each typed step (`flowref.model.steps`) does to it,
in the verbs of a `ScenarioObject`, which a framework offers. Steps that only one framework has stand in its folder.
"""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from flowref.model import (
    ROLES,
    Array,
    Facts,
    Life,
    Mapped,
    Normalizer,
    Unsupported,
    one_line,
    steps,
)


class ScenarioObject(ABC):
    """The object that lives, and what is done to it. What it cannot take (it has no modules, no context)
    raises `Unsupported`; anything else that it raises goes through.
    """

    framework: str
    # What pickling raises where the author chose functions or classes that cannot be found by name.
    unpickled: tuple[type[Exception], ...] = (AttributeError, TypeError, pickle.PicklingError)

    def __init__(self, obj: Any, facts: Facts) -> None:
        self.obj, self.facts = obj, facts
        self.saved: Any = None
        self.kept: dict[int, Any] = {}  # by the id of its step, which the plan holds

    @abstractmethod
    def begin(self, step: steps.Step[Any], earlier: int) -> None:
        """Set the random state of a step that so many of its kind come before."""

    @abstractmethod
    def called(self, call: str, *inputs: Any, how: str = "plain", held: bool = False) -> Any:
        """What a call in the current mode returns, as it is returned (see `steps.Run`)."""

    @abstractmethod
    def mapped(self, call: str, out: Any) -> Mapped:
        """What was returned, as it is now, as plain values."""

    @abstractmethod
    def set_mode(self, training: bool) -> steps.ModeChange:
        """Change the mode, as users do, and see what that did."""

    @abstractmethod
    def held(self, name: str) -> Any:
        """What the object holds under a name: an array of numpy, or a number."""

    @abstractmethod
    def hold(self, role: str, name: str, value: Any) -> None:
        """Have it hold another value under a name, which plays a role."""

    @abstractmethod
    def pulled(self, x: Array, cotangent: Array) -> tuple[Array, Array, dict[str, Any]]:
        """The value of the normalizing call, and its vector-Jacobian product for the input and, by their
        roles, for weight and bias.
        """

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Parameters and buffers by name."""

    @abstractmethod
    def state(self) -> Any:
        """What a user saves of it."""

    @abstractmethod
    def put(self, saved: Any) -> None:
        """Put what was saved back into it."""

    @abstractmethod
    def reload(self, number: int) -> None:
        """What is saved of it goes into an object that is built anew, which lives on."""

    @abstractmethod
    def round_to(self, dtype: str) -> None:
        """Round every floating array that it holds to a dtype, and keep its own."""

    @abstractmethod
    def move(self, scale: float, seed: int) -> None:
        """Move what training moves along a seeded direction."""

    @abstractmethod
    def cast(self, dtype: str) -> None:
        """Cast it, and its inputs from then on."""

    def dtypes(self) -> dict[str, str]:
        """The dtype of every floating array."""
        return {
            name: str(one.dtype) for name, one in self.arrays().items() if one.dtype.kind == "f"
        }

    def run(self, call: str, *inputs: Any, how: str = "plain") -> Mapped:
        """A call in the current mode."""
        return self.mapped(call, self.called(call, *inputs, how=how))

    @property
    def normalizer(self) -> Normalizer:
        """The roles and conventions of a batch normalizer."""
        if self.facts.normalizer is None:
            raise Unsupported("it is no batch normalizer")
        return self.facts.normalizer


Action = Callable[[Any, Any], Any]


def play_steps(
    stage: ScenarioObject, actions: Mapping[type, Action], plan: Sequence[steps.Step[Any]]
) -> Life:
    """Play steps in order. Each has its own fixed random state, so that two lives that differ earlier
    meet the same draws.
    """
    outcomes = []
    for index, step in enumerate(plan):
        kind = type(step)
        if kind not in actions:
            raise Unsupported(f"there is no {kind.__name__} in {stage.framework}", waits=False)
        stage.begin(step, sum(type(other) is kind for other in plan[:index]))
        outcomes.append(actions[kind](stage, step))
    return Life(plan, outcomes)


def run(stage: ScenarioObject, step: steps.Run) -> Mapped:
    """A call in the current mode."""
    out = stage.called(step.call, *step.inputs, how=step.how, held=step.held)
    if step.kept:
        stage.kept[id(step)] = out
    return stage.mapped(step.call, out)


def role_value(stage: ScenarioObject, role: str) -> Any:
    """What plays a role: an array, a number, or None where nothing does."""
    name = stage.normalizer.roles.get(role)
    value = stage.held(name) if name else None
    form = stage.normalizer.forms.get(role)
    return form.number(value) if form is not None and isinstance(value, np.ndarray) else value


def assign(stage: ScenarioObject, step: steps.Assign) -> None:
    """Another value plays a role."""
    name = stage.normalizer.roles.get(step.role)
    if not name:
        raise Unsupported(f"it has no {step.role}")
    present, form = stage.held(name), stage.normalizer.forms.get(step.role)
    value = step.value
    if isinstance(present, np.ndarray):
        value = np.asarray(value) if form is None else form.held(np.asarray(value), present)
    stage.hold(step.role, name, value)


def pullback(stage: ScenarioObject, step: steps.Pullback) -> steps.Pulled:
    """The normalizing call and its vector-Jacobian product."""
    value, rows, gradients = stage.pulled(step.x, step.cotangent)
    for role, form in stage.normalizer.forms.items():
        if gradients.get(role) is not None:
            held = stage.held(stage.normalizer.roles[role])
            gradients[role] = form.gradient(gradients[role], held)
    return steps.Pulled(value, rows, gradients.get("weight"), gradients.get("bias"))


def save(stage: ScenarioObject, step: steps.Save) -> None:
    """What is saved of it is kept."""
    stage.saved = stage.state()


def through_pickle(stage: ScenarioObject, step: steps.Pickle) -> None:
    """What comes back from pickling lives on."""
    try:
        data = pickle.dumps(stage.obj)
    except stage.unpickled as error:
        raise Unsupported(f"it cannot be pickled: {one_line(error)}") from error
    stage.obj = pickle.loads(data)


def deepcopy(stage: ScenarioObject, step: steps.Deepcopy) -> None:
    """The deep copy lives on."""
    stage.obj = copy.deepcopy(stage.obj)


ACTIONS: dict[type, Action] = {
    steps.Train: lambda stage, step: stage.set_mode(True),
    steps.Eval: lambda stage, step: stage.set_mode(False),
    steps.Run: run,
    steps.Reread: lambda stage, step: stage.mapped(step.run.call, stage.kept[id(step.run)]),
    steps.Normalize: lambda stage, step: (
        stage.run(stage.normalizer.call, step.x, None, how=step.how).value
    ),
    steps.Roles: lambda stage, step: {role: role_value(stage, role) for role in ROLES},
    steps.Assign: assign,
    steps.Pullback: pullback,
    steps.State: lambda stage, step: stage.arrays(),
    steps.Dtypes: lambda stage, step: stage.dtypes(),
    steps.Save: save,
    steps.Restore: lambda stage, step: stage.put(stage.saved),
    steps.Reload: lambda stage, step: stage.reload(step.number),
    steps.Rounded: lambda stage, step: stage.round_to(step.dtype),
    steps.Nudge: lambda stage, step: stage.move(step.scale, step.seed),
    steps.Cast: lambda stage, step: stage.cast(step.dtype),
    steps.Pickle: through_pickle,
    steps.Deepcopy: deepcopy,
}
