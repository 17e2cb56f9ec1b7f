"""A Keras layer on torch as a torch module: trainable variables are parameters, others buffers, and the
module's mode is passed on.

Keras' own layers are modules, too, but take their mode as an argument, are not reached by
``functional_call``, and are copied through a file.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flowref.adapters.keras.calls import Stateless, signature_of
from flowref.backends.process import standing_in
from flowref.model import TargetError

# The method of a layer's map.
FORWARD = "call"
# The end of the names of shapes that ``build`` takes, after the names of arguments.
SHAPE = "_shape"
# Conventions of the framework's own layers, which users' layers follow.
CONVENTIONS = {"momentum": "keep", "running_var": "biased"}


def embeds(obj: Any) -> Any:
    """The torch module for a layer; None for other objects. Raises `TargetError` for a layer without
    variables, or of another backend.
    """
    import keras

    if not isinstance(obj, keras.Layer):
        return None
    name = type(obj).__name__
    if keras.backend.backend() != "torch":
        raise TargetError(
            f"{name} is a layer of Keras on {keras.backend.backend()}; it is audited on torch: set KERAS_BACKEND=torch "
            "in the environment, before Keras is imported"
        )
    if not obj.built:
        raise TargetError(
            f"{name} is not built yet, so its variables have no shape; let the factory call "
            f"layer.build((None, 4)){_other_shapes(obj)}, or call the layer once"
        )
    return module_of(obj)


def _other_shapes(layer: Any) -> str:
    """The further shapes that ``build`` takes, for a sentence."""
    _, *others = inspect.signature(layer.build).parameters
    names = [one.removesuffix(SHAPE) for one in others if one.endswith(SHAPE)]
    return "".join(f", with {name}{SHAPE}=(None, 2) if it is called with {name}" for name in names)


def module_of(layer: Any) -> Any:
    """The module of a built layer, of a class of its own with the names of the layer's."""
    import keras

    kind, bases = _module_base_class(), type(layer).__mro__
    stateless = Stateless(layer)
    usual = set(dir(keras.Model)) - {FORWARD}
    for base in reversed(bases[: bases.index(keras.Layer)]):
        own = {
            "forward" if name == FORWARD else name: delegated(name, method)
            for name, method in vars(base).items()
            if inspect.isfunction(method) and not name.startswith("_") and name not in usual
        }
        # Keras' own docstrings do not describe this object.
        text = None if base.__module__.startswith("keras.") else base.__doc__
        named = {"__module__": base.__module__, "__doc__": text, "stateless": stateless}
        kind = type(base.__name__, (kind,), {**own, **named})
    stated = getattr(layer, "promises", {})
    kind.promises = CONVENTIONS | (
        dict(stated) if isinstance(stated, Mapping) else dict.fromkeys(stated, True)
    )
    return kind()


def delegated(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A module method that calls the layer's, in the module's mode."""
    takes = name == FORWARD or "training" in inspect.signature(method).parameters

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        layer = self.stateless.layer
        call = layer if name == FORWARD else getattr(layer, name)
        mode = {"training": self.training} if takes else {}
        return self._called_with_state(lambda: call(*args, **mode, **kwargs), args)

    run.__signature__ = signature_of(method)  # type: ignore[attr-defined]
    return run


def _restored(layer: Any, state: Mapping[str, Any]) -> Any:
    """A module rebuilt from a layer that Keras saved and loaded."""
    module = module_of(layer)
    vars(module).update(state)
    return module


class _Seeds:
    """Replaces Keras' generator for draws without one."""

    def next(self, ordered: bool = True) -> Any:
        """The next seed, from torch's generator, which ``keras.utils.set_random_seed`` seeds as well."""
        import torch

        return torch.randint(0, 2**30, (2,))


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """Let Keras, and generators of layers, draw by torch's seed without changing their states."""
    from keras.src.backend.common import global_state
    from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR, SeedGenerator

    before = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, _Seeds())
    try:
        with standing_in(SeedGenerator, next=_Seeds.next):
            yield
    finally:
        global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, before)


@functools.cache
def _module_base_class() -> Any:
    import torch

    class KerasModule(torch.nn.Module):
        """The common base; ``stateless``: the layer of the class."""

        __module__ = "keras"

        stateless: Stateless
        promises: Mapping[str, Any]

        def __init__(self) -> None:
            super().__init__()
            layer = self.stateless.layer
            self.held: dict[tuple[int, str], Any] = {}
            for name, value in vars(layer).items():
                if type(value) is float and not name.startswith("_"):
                    setattr(self, name, value)
            for name, variable in self.stateless.variables.items():
                value = variable.value.detach().clone()
                if variable.trainable:
                    self.register_parameter(name, torch.nn.Parameter(value))
                else:
                    self.register_buffer(name, value)

        def _called_with_state(self, run: Callable[[], Any], args: tuple[Any, ...] = ()) -> Any:
            """The result of ``run``, which calls the layer with this module's values; changes are stored in
            the module.
            """
            values = {name: getattr(self, name) for name in self.stateless.variables}
            floats = (*values.values(), *args)
            dtypes = [
                one.dtype for one in floats if torch.is_tensor(one) and one.is_floating_point()
            ]
            dtype = str((*dtypes, torch.get_default_dtype())[0]).removeprefix("torch.")
            own = {(0, name): value for name, value in vars(self).items() if type(value) is float}
            with _seeded():
                out, moved, changed = self.stateless.call(run, values, {**self.held, **own}, dtype)
            with torch.no_grad():
                for name, value in moved.items():
                    values[name].copy_(value)
            self.held = {at: value for at, value in changed.items() if at not in own}
            for _, name in own:
                setattr(self, name, changed.get((0, name), getattr(self.stateless.layer, name)))
            return out

        def __deepcopy__(self, memo: dict[int, Any]) -> Any:
            made = memo[id(self)] = type(self).__new__(type(self))
            vars(made).update(copy.deepcopy(vars(self), memo))
            return made

        def __reduce__(self) -> Any:
            return _restored, (self.stateless.layer, vars(self))

        def __getattr__(self, name: str) -> Any:
            """Numbers and strings in the layer's attributes."""
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("_"):
                    raise
                value = getattr(self.stateless.layer, name, None)
                entries = value if isinstance(value, tuple) else (value,)
                if all(isinstance(one, bool | int | float | str) for one in entries):
                    return value
                raise

    return KerasModule
