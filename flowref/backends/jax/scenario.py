"""Lives of an object that keeps state where no call changes it: what each typed step
(`flowref.model.steps`) does, of those that mean something in JAX. Each call gives the object that lives
on; calls are traced, and run step by step.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends.jax.live import Live, digest_of
from flowref.backends.jax.stepping import Noise, Stepped
from flowref.backends.jax.trees import Tree, apart, cast, moved
from flowref.model import (
    ROLES,
    Array,
    Life,
    Mapped,
    Normalizer,
    Unsupported,
    derive,
    one_line,
    steps,
)

PLAIN = ("plain", "compile", "checkpoint")
# Programs of lives that are kept.
MOST = 256


class Stage:
    """The object that lives, its mode, and the dtype of its inputs."""

    def __init__(self, live: Live, fresh: bool) -> None:
        self.live, self.dtype, self.training = live, live.dtype, False
        self.obj = live.given if fresh and live.given is not None else live.object
        self.saved: Any = None
        self.kept: dict[int, Mapped] = {}  # by the id of its step, which the plan holds
        self.calls = 0

    def normalizer(self) -> Normalizer:
        """The roles and conventions of a batch normalizer."""
        normalizer = self.live.facts.normalizer
        if normalizer is None:
            raise Unsupported("it is no batch normalizer")
        return normalizer

    def points(self, values: Any) -> Any:
        """An input in the present dtype; under noise, jittered as inputs of calls are."""
        stream = digest_of("life", (np.asarray(values),))
        return self.live.points(values, stream, None).astype(self.dtype)

    def run(self, call: str, x: Any, context: Any = None) -> Mapped:
        """A call in the current mode, after which the object lives on that it gives beside its value."""
        dialect = self.live.dialect
        if context is not None:
            raise Unsupported("it takes no context", waits=False)
        if self.training and call != "forward":
            raise Unsupported(f"its {call} is not called in training")
        speak: Any = dialect.trained if self.training else self.live.programs.spoken(call)
        if not self.training and call == "forward":
            speak = dialect.evaluated or speak

        def called(seen: list[Any], arrays: list[Any], points: Any) -> Any:
            value, ladj, *after = speak(tree.filled(arrays), points, None)
            left, form = apart(after[0], every=True) if after else ([], None)
            seen[:] = [form]
            return value, ladj, left

        arrays, tree = apart(self.obj, every=True)
        (value, ladj, left), (form,) = self.stepped(call, tree, called, arrays, self.points(x))
        if form is not None:
            self.obj = form.filled([jnp.asarray(one) for one in left])
        return Mapped(np.array(value), None if ladj is None else np.array(ladj))

    def stepped(
        self, name: str, tree: Tree, function: Callable[..., Any], *args: Any
    ) -> tuple[Any, list[Any]]:
        """What a function gives, rounded at random where the subject is, and what it saw when it was
        traced: once for each object that differs by its arrays alone.
        """
        self.calls += 1
        program, seen = self.traced(name, tree, function, *args)
        rounding = self.live.rounding
        noise = None
        if rounding is not None:
            noise = Noise(
                derive(rounding[0], 41, self.calls), rounding[1], self.live.programs.single
            )
        return program(noise, *args), seen

    def traced(
        self, name: str, tree: Tree, function: Callable[..., Any], *args: Any
    ) -> tuple[Stepped, list[Any]]:
        """The program of a function, and what it saw."""
        kept = self.live.programs.lives
        shapes = tuple((np.shape(leaf), str(leaf.dtype)) for leaf in jax.tree.leaves(args))
        key: Any = None
        with contextlib.suppress(Exception):  # a static field that does not hash, or compare
            key = (name, self.training, tree.key, shapes)
            if key in kept:
                return kept[key]
        seen: list[Any] = []
        made = Stepped(partial(function, seen), *args), seen
        if key is not None:
            if len(kept) >= MOST:
                kept.clear()
            kept[key] = made
        return made


Action = Callable[[Stage, Any], Any]


def play(live: Live, plan: Sequence[steps.Step[Any]], fresh: bool = False) -> Life:
    """Play the steps in order (``fresh``: on the object as built, before any history)."""
    outcomes = []
    with live.calling():
        stage = Stage(live, fresh)
        for step in plan:
            if type(step) not in ACTIONS:
                raise Unsupported(f"there is no {type(step).__name__} in JAX", waits=False)
            outcomes.append(ACTIONS[type(step)](stage, step))
    return Life(plan, outcomes)


def change_mode(stage: Stage, training: bool) -> steps.ModeChange:
    """The mode is an argument of calls, which nobody answers."""
    stage.training = training
    return steps.ModeChange(True, True, "")


def run(stage: Stage, step: steps.Run) -> Mapped:
    """A call in the current mode."""
    if step.how not in PLAIN or step.held:
        raise Unsupported(
            f"there is no {step.how if not step.held else 'tensor in place'} in JAX", waits=False
        )
    out = stage.run(step.call, *step.inputs)
    if step.kept:
        stage.kept[id(step)] = out
    return out


def normalize(stage: Stage, step: steps.Normalize) -> Array:
    """The value of the call that normalizes."""
    if step.how not in PLAIN:
        raise Unsupported(f"there is no {step.how} in JAX", waits=False)
    return stage.run(stage.normalizer().call, step.x).value


def value_of(stage: Stage, role: str) -> Any:
    """What plays a role: an array, a number, or None."""
    name = stage.normalizer().roles.get(role)
    if not name:
        return None
    value = stage.live.dialect.held(stage.obj, name)  # type: ignore[misc]  # what is played offers it
    if not hasattr(value, "dtype"):
        return value
    form = stage.normalizer().forms.get(role)
    return np.array(value) if form is None else form.number(np.array(value))


def assign(stage: Stage, step: steps.Assign) -> None:
    """Another object lives on, in which another value plays a role."""
    name = stage.normalizer().roles.get(step.role)
    if not name:
        raise Unsupported(f"it has no {step.role}")
    dialect: Any = stage.live.dialect
    present, value = dialect.held(stage.obj, name), step.value
    if hasattr(present, "dtype"):
        form = stage.normalizer().forms.get(step.role)
        plain = np.asarray(value)
        if form is not None:
            plain = form.held(plain, np.array(present))
        value = jnp.asarray(np.broadcast_to(plain.reshape(-1), (present.size,)), present.dtype)
        value = value.reshape(present.shape)
    stage.obj = dialect.having(stage.obj, name, value)


def pullback(stage: Stage, step: steps.Pullback) -> steps.Pulled:
    """The value of the normalizing call, and what its vector-Jacobian product gives for input and
    parameters.
    """
    dialect: Any = stage.live.dialect
    normalizer = stage.normalizer()
    names = {
        role: normalizer.roles[role] for role in ("weight", "bias") if role in normalizer.roles
    }
    speak = dialect.trained if stage.training else dialect.forward
    arrays, tree = apart(stage.obj, every=True)
    own = {role: dialect.held(stage.obj, name) for role, name in names.items()}

    def pulled(seen: Any, held: list[Any], x: Any, cotangent: Any, numbers: Any) -> Any:
        def value(x: Any, numbers: Any) -> Any:
            obj = tree.filled(held)
            for role, number in numbers.items():
                obj = dialect.having(obj, names[role], number)
            return speak(obj, x, None)[0]

        y, back = jax.vjp(value, x, numbers)
        return y, back(cotangent)

    cotangent = np.asarray(step.cotangent, stage.dtype)
    given = (arrays, stage.points(step.x), cotangent, own)
    (y, (rows, gradients)), _ = stage.stepped(
        f"pullback {sorted(names.items())}", tree, pulled, *given
    )
    for role, form in normalizer.forms.items():
        if role in gradients:
            gradients[role] = form.gradient(gradients[role], np.array(own[role]))
    return steps.Pulled(np.array(y), np.array(rows), gradients.get("weight"), gradients.get("bias"))


def state(stage: Stage, step: steps.State) -> dict[str, Array]:
    """All arrays by name."""
    held = stage.live.dialect.held(stage.obj, None)  # type: ignore[misc]  # what is played offers it
    return {name: np.array(array) for name, array in held.items()}


def dtypes(stage: Stage, step: steps.Dtypes) -> dict[str, str]:
    """The dtype of every floating array."""
    return {
        name: str(array.dtype)
        for name, array in state(stage, steps.State()).items()
        if array.dtype.kind == "f"
    }


def save(stage: Stage, step: steps.Save) -> None:
    """Its arrays are kept."""
    stage.saved = apart(stage.obj, every=True)[0]


def restore(stage: Stage, step: steps.Restore) -> None:
    """The arrays that were kept go back into it."""
    stage.obj = apart(stage.obj, every=True)[1].filled(stage.saved)


def reload(stage: Stage, step: steps.Reload) -> None:
    """Its arrays go into the object as it was built."""
    arrays = apart(stage.obj, every=True)[0]
    built, tree = apart(stage.live.given, every=True)
    if len(built) != len(arrays):
        raise Unsupported("training leaves it with other arrays than it is built with")
    stage.obj = tree.filled(arrays)


def rounded(stage: Stage, step: steps.Rounded) -> None:
    """Every floating array is rounded to a dtype."""
    arrays, tree = apart(stage.obj)
    stage.obj = tree.filled([array.astype(step.dtype).astype(array.dtype) for array in arrays])


def nudge(stage: Stage, step: steps.Nudge) -> None:
    """What training moves is moved along a seeded direction."""
    arrays, tree = apart(stage.obj)
    stage.obj = tree.filled(
        [
            moved(one, way, step.scale) if moves else one
            for one, way, moves in zip(
                arrays, stage.live.directions(step.seed), stage.live.moving, strict=True
            )
        ]
    )


def through_pickle(stage: Stage, step: steps.Pickle) -> None:
    """What comes back from pickling lives on."""
    try:
        data = pickle.dumps(stage.obj)
    except Exception as error:  # functions that have no name are the author's choice
        raise Unsupported(f"it cannot be pickled: {one_line(error)}") from error
    stage.obj = pickle.loads(data)


def deepcopy(stage: Stage, step: steps.Deepcopy) -> None:
    """The deep copy lives on."""
    stage.obj = copy.deepcopy(stage.obj)


def change_dtype(stage: Stage, step: steps.Cast) -> None:
    """Cast the object, and its inputs from then on."""
    stage.obj, stage.dtype = cast(stage.obj, step.dtype), step.dtype


ACTIONS: dict[type, Action] = {
    steps.Train: lambda stage, step: change_mode(stage, True),
    steps.Eval: lambda stage, step: change_mode(stage, False),
    steps.Run: run,
    steps.Reread: lambda stage, step: stage.kept[id(step.run)],
    steps.Normalize: normalize,
    steps.Roles: lambda stage, step: {name: value_of(stage, name) for name in ROLES},
    steps.Assign: assign,
    steps.Pullback: pullback,
    steps.State: state,
    steps.Dtypes: dtypes,
    steps.Save: save,
    steps.Restore: restore,
    steps.Reload: reload,
    steps.Rounded: rounded,
    steps.Nudge: nudge,
    steps.Branch: lambda stage, step: None,  # a copy is another object
    steps.Pickle: through_pickle,
    steps.Deepcopy: deepcopy,
    steps.Cast: change_dtype,
}
