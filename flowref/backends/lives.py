"""Scenarios on one object, for every framework: each typed step (`flowref.model.steps`) in terms
of the methods of a `ScenarioObject`, which a framework implements. Steps of a single framework
are in its folder.
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
    """The object of a scenario and the operations on it. An operation that the object does not
    have (no modules, no context) raises `Unsupported`; its other exceptions pass through.
    """

    framework: str
    # Raised by pickling of objects with local functions or classes, which is the author's choice.
    unpickled: tuple[type[Exception], ...] = (AttributeError, TypeError, pickle.PicklingError)

    def __init__(self, obj: Any, facts: Facts) -> None:
        self.obj, self.facts = obj, facts
        self.saved: Any = None
        self.kept: dict[int, Any] = {}  # by the id of its step, which the plan holds

    @abstractmethod
    def begin(self, step: steps.Step[Any], earlier: int) -> None:
        """Set the random state of a step that ``earlier`` steps of its kind precede."""

    @abstractmethod
    def called(self, call: str, *inputs: Any, how: str = "plain", held: bool = False) -> Any:
        """Returns the raw result of a call in the current mode (see `steps.Run`)."""

    @abstractmethod
    def mapped(self, call: str, out: Any) -> Mapped:
        """Converts the raw result of a call to a `Mapped` of numpy arrays, with the values it has
        now.
        """

    @abstractmethod
    def set_mode(self, training: bool) -> steps.ModeChange:
        """Change the mode with the object's own method, and record the effect."""

    @abstractmethod
    def held(self, name: str) -> Any:
        """Returns the value of an attribute: a numpy array, or a number."""

    @abstractmethod
    def hold(self, role: str, name: str, value: Any) -> None:
        """Set an attribute, which plays the role ``role`` in a batch normalizer."""

    @abstractmethod
    def pulled(self, x: Array, cotangent: Array) -> tuple[Array, Array, dict[str, Any]]:
        """Returns the value ``(n, *event)`` of the normalizing call, its vector-Jacobian product
        with ``cotangent`` in the shape of ``x``, and the gradients of weight and bias, by role.
        """

    @abstractmethod
    def arrays(self) -> dict[str, Array]:
        """Parameters and buffers by name, as numpy arrays."""

    @abstractmethod
    def state(self) -> Any:
        """Returns the state that a user would save."""

    @abstractmethod
    def put(self, saved: Any) -> None:
        """Load a saved state into the object."""

    @abstractmethod
    def reload(self, number: int) -> None:
        """Save the object, build a new one, load the state into it, and continue with the
        new one.
        """

    @abstractmethod
    def round_to(self, dtype: str) -> None:
        """Round every floating array to the precision of ``dtype``, without changing its own
        dtype.
        """

    @abstractmethod
    def move(self, scale: float, seed: int) -> None:
        """Move the trainable parameters along a seeded direction, by ``scale``."""

    @abstractmethod
    def cast(self, dtype: str) -> None:
        """Cast the object and all later inputs to a dtype."""

    def dtypes(self) -> dict[str, str]:
        """Array name -> dtype, of the floating arrays."""
        return {
            name: str(one.dtype) for name, one in self.arrays().items() if one.dtype.kind == "f"
        }

    def run(self, call: str, *inputs: Any, how: str = "plain") -> Mapped:
        """Returns the `Mapped` result of a call in the current mode."""
        return self.mapped(call, self.called(call, *inputs, how=how))

    @property
    def normalizer(self) -> Normalizer:
        """Roles and conventions of the batch normalizer; raises `Unsupported` if it is none."""
        if self.facts.normalizer is None:
            raise Unsupported("it is no batch normalizer")
        return self.facts.normalizer


Action = Callable[[Any, Any], Any]


def play_steps(
    stage: ScenarioObject, actions: Mapping[type, Action], plan: Sequence[steps.Step[Any]]
) -> Life:
    """Play the steps in order and return the recorded `Life`. Each step has its own fixed random
    state, so that two scenarios which differ in earlier steps draw the same numbers. Raises
    `Unsupported` for a step that the framework lacks.
    """
    outcomes = []
    for index, step in enumerate(plan):
        kind = type(step)
        if kind not in actions:
            raise Unsupported(f"there is no {kind.__name__} in {stage.framework}", blocked=False)
        stage.begin(step, sum(type(other) is kind for other in plan[:index]))
        outcomes.append(actions[kind](stage, step))
    return Life(plan, outcomes)


def run(stage: ScenarioObject, step: steps.Run) -> Mapped:
    """Call the object in the current mode; the raw result is stored if ``step.kept``."""
    out = stage.called(step.call, *step.inputs, how=step.how, held=step.held)
    if step.kept:
        stage.kept[id(step)] = out
    return stage.mapped(step.call, out)


def role_value(stage: ScenarioObject, role: str) -> Any:
    """Returns the value that plays a role: an array, a number, or None if the normalizer has no
    such role.
    """
    name = stage.normalizer.roles.get(role)
    value = stage.held(name) if name else None
    form = stage.normalizer.forms.get(role)
    return form.number(value) if form is not None and isinstance(value, np.ndarray) else value


def assign(stage: ScenarioObject, step: steps.Assign) -> None:
    """Set the value that plays a role; raises `Unsupported` if there is no such role."""
    name = stage.normalizer.roles.get(step.role)
    if not name:
        raise Unsupported(f"it has no {step.role}")
    present, form = stage.held(name), stage.normalizer.forms.get(step.role)
    value = step.value
    if isinstance(present, np.ndarray):
        value = np.asarray(value) if form is None else form.held(np.asarray(value), present)
    stage.hold(step.role, name, value)


def pullback(stage: ScenarioObject, step: steps.Pullback) -> steps.Pulled:
    """The normalizing call and its vector-Jacobian product, in the conventions of the roles."""
    value, rows, gradients = stage.pulled(step.x, step.cotangent)
    for role, form in stage.normalizer.forms.items():
        if gradients.get(role) is not None:
            held = stage.held(stage.normalizer.roles[role])
            gradients[role] = form.gradient(gradients[role], held)
    return steps.Pulled(value, rows, gradients.get("weight"), gradients.get("bias"))


def save(stage: ScenarioObject, step: steps.Save) -> None:
    """Store the state that a user would save."""
    stage.saved = stage.state()


def through_pickle(stage: ScenarioObject, step: steps.Pickle) -> None:
    """Pickle the object, and continue with the unpickled one."""
    try:
        data = pickle.dumps(stage.obj)
    except stage.unpickled as error:
        raise Unsupported(f"it cannot be pickled: {one_line(error)}") from error
    stage.obj = pickle.loads(data)


def deepcopy(stage: ScenarioObject, step: steps.Deepcopy) -> None:
    """Continue with a deep copy."""
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
