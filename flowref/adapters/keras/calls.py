"""Calls of a layer of Keras as functions of values that it does not hold itself, so that it is called as it is in many
copies: ``keras.StatelessScope`` lends it its variables, and what a call sets among its attributes is taken out again.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from flowref.model import Unsupported

T = TypeVar("T")
# The dtypes that make way for one in which a layer is judged.
OTHER = {"float64": ("float32",), "float32": ("float64",)}
# What names in the class of a layer say of its mode and of missing points, which Keras itself hands in.
OF_KERAS = ("training", "mask")
# How a variable is called that its layer gave no name.
COUNTED = re.compile(r"^variable(_\d+)?$")
# What a call changed in attributes of the layer and of its parts: by their places in the list of all.
Attributes = Mapping[tuple[int, str], Any]


@dataclass(frozen=True)
class Stateless:
    """A built layer, whose own variables no call changes. Copies of it are given as the values of these, by `names`,
    and as attributes.
    """

    layer: Any

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The variables by the places at which layers stand: "gamma", "hidden/kernel", "layers/0/kernel". Their own
        paths count the objects that a process has made. States of generators are no part of a layer's state here: they
        follow the framework's seed.
        """
        found: dict[int, str] = {}
        for path, part in _layers_by_path(self.layer, ""):
            for variable in (*part._trainable_variables, *part._non_trainable_variables):
                found.setdefault(id(variable), path + COUNTED.sub("variable", variable.name))
        named: dict[str, Any] = {}
        drawn = {id(one.state) for part in self.parts for one in part._seed_generators}
        own = [one for one in self.layer.variables if id(one) not in drawn]
        for at, variable in enumerate(own):
            name = found.get(id(variable), COUNTED.sub("variable", variable.name)).replace(".", "_")
            named[f"{name}_{at}" if name in named else name] = variable
        return named

    @cached_property
    def parts(self) -> list[Any]:
        """The layer and all that it holds."""
        return list(self.layer._flatten_layers())

    @cached_property
    def filled(self) -> list[tuple[int, ...]]:
        """What its containers hold before the first call."""
        return self._containers()

    def call(
        self,
        run: Callable[[], T],
        values: Mapping[str, Any],
        attributes: Attributes,
        dtype: str,
    ) -> tuple[T, dict[str, Any], dict[tuple[int, str], Any]]:
        """What ``run`` gives, which calls the layer; the values that it changed; and the attributes that are not the
        layer's own. ``dtype``: of the floating values.
        """
        import keras

        given = [(variable, values[name]) for name, variable in self.variables.items()]
        with self._having(attributes) as changed, self._computing(dtype):
            with keras.StatelessScope(given) as scope:
                before = {name: scope.get_current_value(v) for name, v in self.variables.items()}
                out = run()
            after = {name: scope.get_current_value(v) for name, v in self.variables.items()}
        moved = {name: value for name, value in after.items() if value is not before[name]}
        return out, moved, changed

    @contextlib.contextmanager
    def _computing(self, dtype: str) -> Iterator[None]:
        """Let the layer compute in a floating dtype: each has a policy, and casts what it is given. Keras promotes
        float64 to float32, "to be aligned with JAX's default", which would hide what is judged behind rounding.
        """
        import keras
        from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE as promoted

        before, narrowed = keras.config.floatx(), promoted["float64"]
        keras.config.set_floatx(dtype)
        promoted["float64"] = dtype if dtype == "float64" else narrowed
        policy, others = keras.DTypePolicy(dtype), OTHER.get(dtype, ())
        for part in self.parts:  # whose attributes are put back
            if part.dtype_policy.name in others:
                vars(part)["_dtype_policy"] = policy
        cast = [(one, one._dtype) for one in self.variables.values() if one._dtype in others]
        for variable, _ in cast:
            variable._dtype = dtype
        try:
            yield
        finally:
            for variable, own in cast:
                variable._dtype = own
            keras.config.set_floatx(before)
            promoted["float64"] = narrowed

    @contextlib.contextmanager
    def _having(self, attributes: Attributes) -> Iterator[dict[tuple[int, str], Any]]:
        """Give the layer the attributes of a copy; what they are afterwards, where they are others than its own."""
        before = [dict(vars(part)) for part in self.parts]
        filled = self.filled  # also by an earlier call
        changed: dict[tuple[int, str], Any] = {}
        for (at, name), value in attributes.items():
            vars(self.parts[at])[name] = value
        try:
            yield changed
        finally:
            for at, (part, own) in enumerate(zip(self.parts, before, strict=True)):
                now = dict(vars(part))
                vars(part).clear()
                vars(part).update(own)
                for name, value in now.items():
                    if name not in OWN and (name not in own or own[name] is not value):
                        changed[at, name] = value
        if self._containers() != filled:
            raise Unsupported(
                f"a call changes a list, a dictionary or a set of {type(self.layer).__name__} in place, which all copies "
                "would share; let it assign another one"
            )

    def _containers(self) -> list[tuple[int, ...]]:
        """What stands in public containers of the layer and its parts."""
        return [
            tuple(map(id, value.values() if isinstance(value, dict) else value))
            for part in self.parts
            for name, value in vars(part).items()
            if isinstance(value, dict | list | set) and not name.startswith("_")
        ]


# Attributes by which Keras notes that a layer was called, and nothing of its state.
OWN = frozenset(("_called", "built", "_dtype_policy", "_losses", "_loss_ids"))


def _layers_by_path(
    layer: Any, path: str, seen: set[int] | None = None
) -> Iterator[tuple[str, Any]]:
    """A layer and what it holds, behind the names of the attributes that lead to it."""
    seen = set() if seen is None else seen
    if id(layer) in seen:
        return
    seen.add(id(layer))
    yield path, layer
    held = {**getattr(layer, "_modules", {}), **vars(layer)}
    public = {name: value for name, value in held.items() if not name.startswith("_")}
    for name, value in {**public, "layers": list(layer._layers)}.items():
        yield from _nested_layers(value, f"{path}{name}/", seen)


def _nested_layers(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    import keras

    if isinstance(value, keras.Layer):
        yield from _layers_by_path(value, path, seen)
    elif isinstance(value, list | tuple):
        for at, one in enumerate(value):
            yield from _nested_layers(one, f"{path}{at}/", seen)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _nested_layers(one, f"{path}{key}/", seen)


def signature_of(method: Callable[..., Any]) -> inspect.Signature:
    """That of a method without what Keras hands in itself."""
    told = inspect.signature(method)
    taken = [one for one in told.parameters.values() if one.name not in OF_KERAS]
    return told.replace(parameters=taken)
