"""Scenarios on an object whose state is returned by its calls: the methods of a
`JaxScenarioObject`.

Each call returns the object to continue with; calls are traced, and run step by step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flowref.backends import lives
from flowref.backends.jax.interpreter import Noise, Stepped
from flowref.backends.jax.live import Live, call_digest
from flowref.backends.jax.trees import Tree, cast, leaves_and_tree, moved_leaf
from flowref.model import Array, Life, Mapped, Unsupported, derive, steps

PLAIN = ("plain", "compile", "checkpoint")
# The number of cached scenario programs.
MOST = 256


class JaxScenarioObject(lives.ScenarioObject):
    """The object of a scenario, its mode, and the dtype of its inputs."""

    framework = "JAX"
    unpickled = (Exception,)  # functions without a name are the author's choice

    def __init__(self, live: Live, fresh: bool) -> None:
        obj = live.given if fresh and live.given is not None else live.object
        super().__init__(obj, live.facts)
        self.live, self.dtype, self.training = live, live.dtype, False
        # Scenarios need all of these methods of a dialect.
        self.dialect: Any = live.dialect
        self.calls = 0

    def begin(self, step: steps.Step[Any], earlier: int) -> None:
        """No effect: only keys are random."""

    def points(self, values: Any) -> Any:
        """An input in the current dtype; under noise, jittered like inputs of calls."""
        stream = call_digest("life", (np.asarray(values),))
        return self.live.points(values, stream, None).astype(self.dtype)

    def called(self, call: str, *inputs: Any, how: str = "plain", held: bool = False) -> Mapped:
        """Calls the object in the current mode, and continues with the object returned with the
        value.
        """
        if how not in PLAIN or held:
            asked = "tensor in place" if held else how
            raise Unsupported(f"there is no {asked} in JAX", blocked=False)
        x, *others = inputs
        if any(one is not None for one in others):
            raise Unsupported("it takes no context", blocked=False)
        if self.training and call != "forward":
            raise Unsupported(f"its {call} is not called in training")
        function = self.dialect.trained if self.training else self.live.dialect.function(call)
        if not self.training and call == "forward":
            function = self.dialect.evaluated or function

        def called(seen: list[Any], arrays: list[Any], points: Any) -> Any:
            value, ladj, *after = function(tree.filled(arrays), points, None)
            left, form = leaves_and_tree(after[0], every=True) if after else ([], None)
            seen[:] = [form]
            return value, ladj, left

        arrays, tree = leaves_and_tree(self.obj, every=True)
        (value, ladj, left), (form,) = self.stepped(call, tree, called, arrays, self.points(x))
        if form is not None:
            self.obj = form.filled([jnp.asarray(one) for one in left])
        return Mapped(np.array(value), None if ladj is None else np.array(ladj))

    def mapped(self, call: str, out: Mapped) -> Mapped:
        """Results are immutable."""
        return out

    def set_mode(self, training: bool) -> steps.ModeChange:
        """Sets the mode, an argument of later calls."""
        self.training = training
        return steps.ModeChange(True, True, "")

    def held(self, name: str) -> Any:
        """See `lives.ScenarioObject`."""
        value = self.dialect.held(self.obj, name)
        return np.array(value) if hasattr(value, "dtype") else value

    def hold(self, role: str, name: str, value: Any) -> None:
        """Continue with an object in which a role has another value."""
        present = self.dialect.held(self.obj, name)
        if hasattr(present, "dtype"):
            flat = np.broadcast_to(np.reshape(value, -1), (present.size,))
            value = jnp.asarray(flat, present.dtype).reshape(present.shape)
        self.obj = self.dialect.having(self.obj, name, value)

    def pulled(self, x: Array, cotangent: Array) -> tuple[Array, Array, dict[str, Any]]:
        """See `lives.ScenarioObject`."""
        roles = self.normalizer.roles
        names = {role: roles[role] for role in ("weight", "bias") if role in roles}
        function = self.dialect.trained if self.training else self.dialect.forward
        arrays, tree = leaves_and_tree(self.obj, every=True)
        own = {role: self.dialect.held(self.obj, name) for role, name in names.items()}

        def pulled(seen: Any, held: list[Any], x: Any, cotangent: Any, numbers: Any) -> Any:
            def value(x: Any, numbers: Any) -> Any:
                obj = tree.filled(held)
                for role, number in numbers.items():
                    obj = self.dialect.having(obj, names[role], number)
                return function(obj, x, None)[0]

            y, back = jax.vjp(value, x, numbers)
            return y, back(cotangent)

        given = (arrays, self.points(x), np.asarray(cotangent, self.dtype), own)
        (y, (rows, gradients)), _ = self.stepped(
            f"pullback {sorted(names.items())}", tree, pulled, *given
        )
        return np.array(y), np.array(rows), gradients

    def arrays(self) -> dict[str, Array]:
        """All arrays by name."""
        held = self.dialect.held(self.obj, None)
        return {name: np.array(array) for name, array in held.items()}

    def state(self) -> list[Any]:
        """The arrays of the object."""
        return leaves_and_tree(self.obj, every=True)[0]

    def put(self, saved: list[Any]) -> None:
        """Continue with the object with these arrays."""
        self.obj = leaves_and_tree(self.obj, every=True)[1].filled(saved)

    def reload(self, number: int) -> None:
        """Continue with the object as built, with the current arrays."""
        built, tree = leaves_and_tree(self.live.given, every=True)
        if len(built) != len(arrays := self.state()):
            raise Unsupported("training leaves it with other arrays than it is built with")
        self.obj = tree.filled(arrays)

    def round_to(self, dtype: str) -> None:
        """See `lives.ScenarioObject`."""
        arrays, tree = leaves_and_tree(self.obj)
        self.obj = tree.filled([array.astype(dtype).astype(array.dtype) for array in arrays])

    def move(self, scale: float, seed: int) -> None:
        """See `lives.ScenarioObject`."""
        arrays, tree = leaves_and_tree(self.obj)
        ways = zip(arrays, self.live.directions(seed), self.live.moving, strict=True)
        self.obj = tree.filled(
            [moved_leaf(one, way, scale) if moves else one for one, way, moves in ways]
        )

    def cast(self, dtype: str) -> None:
        """See `lives.ScenarioObject`."""
        self.obj, self.dtype = cast(self.obj, dtype), dtype

    def stepped(
        self, name: str, tree: Tree, function: Callable[..., Any], *args: Any
    ) -> tuple[Any, list[Any]]:
        """The result of a function, randomly rounded if the subject is, and the records of its
        trace: traced once for all objects that differ in their arrays only.
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
        """The program of a function, and the records of its trace."""
        kept = self.live.programs.lives
        shapes = tuple((np.shape(leaf), str(leaf.dtype)) for leaf in jax.tree.leaves(args))
        key: Any = None
        with contextlib.suppress(Exception):  # a static field without a hash or comparison
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


# A copy is another object.
ACTIONS = lives.ACTIONS | {steps.Branch: lambda stage, step: None}


def play(live: Live, plan: Sequence[steps.Step[Any]], fresh: bool = False) -> Life:
    """Plays the steps in order; ``fresh``: on the object as built."""
    with live.calling():
        return lives.play_steps(JaxScenarioObject(live, fresh), ACTIONS, plan)
