"""Calls of a Keras layer with external values: ``keras.StatelessScope`` lends it variables, and attributes
set by a call are removed, so that one layer serves many copies.
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
# Dtypes replaced by the tested one.
OTHER = {"float64": ("float32",), "float32": ("float64",)}
# Arguments that Keras itself passes.
OF_KERAS = ("training", "mask")
# Names of unnamed variables.
COUNTED = re.compile(r"^variable(_\d+)?$")
# Attributes changed by a call, by index of the part and name.
Attributes = Mapping[tuple[int, str], Any]


@dataclass(frozen=True)
class Stateless:
    """A built layer whose own variables no call changes. Copies are represented by the values of variables,
    by `names`, and by attributes.
    """

    layer: Any

    @cached_property
    def variables(self) -> dict[str, Any]:
        """Variables by their path from the layer: "gamma", "hidden/kernel", "layers/0/kernel". Keras' own
        paths number the objects of a process. Generator states are excluded: they follow the framework's
        seed.
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
        """The layer and all layers inside."""
        return list(self.layer._flatten_layers())

    @cached_property
    def filled(self) -> list[tuple[int, ...]]:
        """The contents of its containers before the first call."""
        return self._containers()

    def call(
        self,
        run: Callable[[], T],
        values: Mapping[str, Any],
        attributes: Attributes,
        dtype: str,
    ) -> tuple[T, dict[str, Any], dict[tuple[int, str], Any]]:
        """The result of ``run``, which calls the layer, the changed values, and attributes that differ from
        the layer's own. ``dtype``: of floating values.
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
        """Let the layer compute in a dtype: layers have policies, and cast their inputs. Keras promotes
        float64 to float32 "to be aligned with JAX's default", which would hide errors behind rounding.
        """
        import keras
        from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE as promoted

        before, narrowed = keras.config.floatx(), promoted["float64"]
        keras.config.set_floatx(dtype)
        promoted["float64"] = dtype if dtype == "float64" else narrowed
        policy, others = keras.DTypePolicy(dtype), OTHER.get(dtype, ())
        for part in self.parts:  # restored afterwards
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
        """Set the attributes of a copy; yields a dictionary that afterwards holds those that differ from
        the layer's own.
        """
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
        """The contents of public containers of the layer and its parts, as ids."""
        return [
            tuple(map(id, value.values() if isinstance(value, dict) else value))
            for part in self.parts
            for name, value in vars(part).items()
            if isinstance(value, dict | list | set) and not name.startswith("_")
        ]


# Attributes with which Keras records calls, and that are no state.
OWN = frozenset(("_called", "built", "_dtype_policy", "_losses", "_loss_ids"))


def _layers_by_path(
    layer: Any, path: str, seen: set[int] | None = None
) -> Iterator[tuple[str, Any]]:
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
    """The signature of a method without Keras' own arguments."""
    whole = inspect.signature(method)
    taken = [one for one in whole.parameters.values() if one.name not in OF_KERAS]
    return whole.replace(parameters=taken)
