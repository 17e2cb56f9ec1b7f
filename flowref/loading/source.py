"""First stage: from a target to its builder."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flowref import registry
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.event_shapes import FEATURES
from flowref.loading.estimators import USUAL, correlated, fitting
from flowref.loading.inner import part_of, place_of_part
from flowref.loading.live_objects import LIVE
from flowref.loading.options import own_kind, parse_shape
from flowref.loading.ownership import framework
from flowref.loading.user_code import target_value
from flowref.loading.weights import Weights, build_with_weights, loading, weights_of
from flowref.model import (
    OBJECT,
    USER,
    Adapter,
    Dialect,
    Facts,
    SpecError,
    Target,
    TargetError,
    nearest,
)
from flowref.model.declaration import FLOW
from flowref.registry.definitions import is_file


@dataclass(frozen=True)
class Statement:
    """What an adapter states of a construction of its library."""

    adapter: Adapter
    dialect: Dialect
    facts: Facts


@dataclass(frozen=True)
class Source:
    """How a target is built.

    ``build()``: returns a new object. ``statement``: of a library's construction, None for user objects.
    ``instance``: whether ``build`` copies one object. ``factory``: the function that makes a user's object,
    whose attributes describe it. ``weights``: trained weights that ``build`` loads. ``declared``: options
    from `__flow__`, except those in ``undeclared``. ``fitted``: the data to which ``build`` fits, in words.
    """

    target: Target
    build: Callable[[], Any]
    statement: Statement | None = None
    instance: bool = False
    factory: Any = None
    weights: Weights | None = None
    fitted: str = ""
    declared: Mapping[str, str] = field(default_factory=dict)
    undeclared: frozenset[str] = frozenset()

    @property
    def options(self) -> dict[str, str]:
        """Options of the spec over those of the declaration; promises are joined."""
        given = dict(self.target.options)
        promises = [one["promises"] for one in (self.declared, given) if "promises" in one]
        return {**self.declared, **given} | ({"promises": ",".join(promises)} if promises else {})

    @property
    def _call(self) -> tuple[Any, dict[str, Any]]:
        """The user's factory or class, and its keywords."""
        made = self.build
        while isinstance(made, functools.partial) and made.func in (
            build_with_weights,
            part_of,
            fitting,
            _both,
        ):
            made = made.args[0]
        if isinstance(made, functools.partial):
            return made.args[0], made.keywords
        return made, {}

    @property
    def of_part(self) -> bool:
        """Whether the target is a part of what a user's factory builds."""
        return isinstance(self.build, functools.partial) and self.build.func is part_of

    def way(self) -> str:
        """The Python expression from the built object to the audited part; empty for the whole."""
        if isinstance(self.build, functools.partial) and self.of_part:
            return place_of_part(self.build.args[0](), self.build.args[1])[0]
        return ""

    def takes(self) -> dict[str, inspect.Parameter]:
        """The parameters of a user's factory or class."""
        own = self.statement is None and not self.instance
        return parameters_of(self._call[0]) if own else {}

    def wanted(self) -> dict[str, str]:
        """Required parameters that no option gives, with their annotations as text."""
        given = self._call[1]
        return {
            name: inspect.formatannotation(one.annotation).strip("'")
            if one.annotation is not one.empty
            else ""
            for name, one in self.takes().items()
            if one.default is one.empty
            and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
            and name not in given
        }

    def unknown(self) -> list[str]:
        """Keywords that the factory or class does not accept."""
        takes = self.takes()
        if any(one.kind is one.VAR_KEYWORD for one in takes.values()) or not _signature(
            self._call[0]
        ):
            return []
        return [name for name in self._call[1] if name not in takes]


def source_of(target: Target) -> Source:
    """The source of a target. Raises `TargetError` or `SpecError` in one sentence."""
    if target.adapter == OBJECT:
        if target not in LIVE:
            raise TargetError(
                f"{target} was an object in another process; audit it again from Python"
            )
        return _copies(target, LIVE[target])
    if target.adapter != USER:
        return _weighted(_construction(target))
    source, part = _weighted(_user_code(target)), target.option(registry.PART)
    if part is None or registry.PART in source.takes():
        return source
    return replace(source, build=functools.partial(part_of, source.build, part), factory=None)


def _weighted(source: Source) -> Source:
    takes = parameters_of(source.factory) if source.factory is not None else {}
    weights = weights_of(source.target, takes)
    if weights is None or weights.own:
        return replace(source, weights=weights)
    return replace(source, weights=weights, build=loading(source.build, weights))


def _construction(target: Target) -> Source:
    component = registry.find_component(target)
    options = registry.builder_options(target) | _context_of(target, component.build)
    _refuse_unknown(target, options, component.build)
    try:
        facts = component.facts(**options) if callable(component.facts) else component.facts
    except TypeError as error:
        raise SpecError(f"{target}: {error}; check the options after ?") from error
    adapter = registry.adapters()[target.adapter]
    statement = Statement(adapter, component.dialect, facts)
    return Source(target, functools.partial(component.build, **options), statement)


def _context_of(target: Target, build: Callable[..., Any]) -> dict[str, Any]:
    """The context size, which implies its shape, for a builder with such a parameter."""
    text = target.option("context")
    if text is None or not text.isdigit() or "context" not in inspect.signature(build).parameters:
        return {}
    return {"context": int(text)}


def _refuse_unknown(target: Target, options: dict[str, Any], build: Callable[..., Any]) -> None:
    parameters = inspect.signature(build).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    for name in options:
        if name not in parameters:
            taken = f"it takes {', '.join(parameters)}" if parameters else "it takes none"
            raise SpecError(
                f"{target}: there is no option {name!r}{nearest(name, (*parameters, registry.WEIGHTS))}; {taken}"
            )


def _user_code(target: Target) -> Source:
    """The source of a user's target: factories and classes are called, instances are copied."""
    value = target_value(target)
    other = target.option("inverse") or ""
    place = other.rpartition(":")[0]
    if is_file(place) or "." in place:
        return _with_inverse(target.without("inverse"), other)
    made = isinstance(value, type)
    # A tuple of names: a factory names the methods of its object.
    methods = (getattr(value, name, None) for name in ("forward", "log_prob"))
    if not made and any(one is not None and not isinstance(one, str) for one in methods):
        return _copies(target, value)
    if not callable(value):
        name = target.component.rpartition(":")[2]
        raise TargetError(
            f"{target}: {name} is a {type(value).__name__}; expected a factory, a class or a flow "
            "object"
        )
    if is_map(value, target):
        return _copies(target, value)
    takes = parameters_of(value)
    options = registry.builder_options(target, takes)
    if own_kind(target, takes):
        options["kind"] = registry.literal(target.option("kind") or "")
        target = target.without("kind")
    build = functools.partial(built, value, target.option("event"), **options)
    return Source(target, build, factory=None if made else value)


def _with_inverse(target: Target, other: str) -> Source:
    """The source of a map whose inverse is another object with a spec of its own."""
    there, back = _user_code(target), _user_code(registry.parse_target(other))
    return replace(there, build=functools.partial(_both, there.build, back.build))


def _both(there: Callable[[], Any], back: Callable[[], Any]) -> tuple[Any, Any]:
    return there(), back()


def built(factory: Callable[..., Any], event: str | None, /, **options: Any) -> Any:
    """What a factory makes; an object with its own fit and no trainable parameters is fitted to a drawn
    sample.
    """
    obj = factory(**options)
    if not fits_itself(obj):
        return obj
    sizes = (getattr(obj, name, None) for name in FEATURES)
    own = next((size for size in sizes if type(size) is int), USUAL)
    sample = correlated(math.prod(parse_shape(event, "event")) if event else own)
    return _fitted(obj, framework(obj).tensor(sample, "float64"))


def fits_itself(obj: Any) -> bool:
    """Whether an object has a log-density and its own method to fit it to points."""
    if not (signatures.defines_method(obj, "fit") and signatures.defines_method(obj, "log_prob")):
        return False
    trained = any(one.requires_grad for one in getattr(obj, "parameters", list)())
    return not trained and len(signatures.required(obj, "fit")) == 1


def _fitted(obj: Any, sample: Any) -> Any:
    """The object fitted to a sample; unchanged if that raises."""
    other = framework(obj).duplicate(obj)
    try:
        other.fit(sample)
    except Exception:  # audited unfitted
        return obj
    return other


def _signature(factory: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(factory)
    except (TypeError, ValueError):
        return None


def parameters_of(factory: Any) -> dict[str, inspect.Parameter]:
    """The parameters of a factory or class; empty if it has no signature."""
    signature = _signature(factory)
    return {} if signature is None else dict(signature.parameters)


def is_map(value: Any, target: Target) -> bool:
    """Whether a function is a map rather than a factory: it has one required argument that no option gives,
    and a parameter that reverses it.
    """
    if not inspect.isfunction(value):
        return False
    wanted = [
        name
        for name, one in parameters_of(value).items()
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        and target.option(name) is None
    ]
    turned = bool(signatures.flag(value, "")) or bool(signatures.mode_parameter(value, "")[1])
    chosen = any(target.option(name) for name in ("inverse", "running"))
    stated = getattr(value, FLOW, None)
    chosen |= isinstance(stated, Mapping) and "forward" not in stated
    return len(wanted) == 1 and (turned or chosen)


def _copies(target: Target, obj: Any) -> Source:
    return Source(target, functools.partial(framework(obj).duplicate, obj), instance=True)
