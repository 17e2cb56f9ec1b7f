"""Second stage: the object, built once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from flowref import backends, registry
from flowref.adapters.user.conventions.inverse import MISMATCH
from flowref.adapters.user.conventions.user_choices import chosen_of
from flowref.backends import Backend
from flowref.loading.declaration import declaration_of
from flowref.loading.estimators import fitted_estimator, fitting, is_estimator
from flowref.loading.factory import attributes
from flowref.loading.ownership import embedded, embedding, framework
from flowref.loading.source import Source
from flowref.model import (
    PROMISES,
    FlowrefError,
    Shape,
    Target,
    TargetError,
    nearest,
    one_line,
    untraceable,
    user_code_location,
)
from flowref.model.promises import canonical

# Phrases in errors about points outside of a domain, and the hint for each.
OUTSIDE = re.compile(r"\[0|\(0|between|positive|negative|domain|range|interval|support")
EVENT = "?event=3 or ?event=2,4,4 (or --event 3)"
GIVE_DOMAIN = ", or the domain, as in ?domain=unit, ?domain=positive or ?domain=(-1,1)"
GIVE_SHAPE = f"the shape of one event as {EVENT}"


class Refusal(Exception):
    """A target that cannot be built or called in a dtype: on events of ``shape`` it raised ``error``.
    Another dtype may work.
    """

    def __init__(self, shape: Shape, error: Exception) -> None:
        super().__init__(str(error))
        self.shape, self.error = shape, error

    def sentence(self, target: Target) -> str:
        """The message if the target runs in no dtype."""
        raised = f"{target} raised {one_line(self.error, 200)}{user_code_location(self.error)}"
        if said := untraceable(self.error):
            return f"{raised}, {said}"
        given = target.option("event") is not None
        domain = GIVE_DOMAIN if OUTSIDE.search(str(self.error).casefold()) else ""
        other = (
            ", the shape that ?event= gives"
            if given
            else f". If its events have another shape, say {EVENT}"
        )
        return f"{raised}, so it cannot be called on a batch of events of shape {self.shape}{other}{domain}"


class OtherPrecision(TargetError):
    """A factory that mixes two precisions; it may build in another one."""


@dataclass(frozen=True)
class Instance:
    """A built object in one floating dtype. It is inspected and copied, and never called itself."""

    source: Source
    obj: Any
    backend: Backend
    dtype: str

    def copy(self) -> Any:
        """A copy to call; built anew if the object cannot be copied."""
        try:
            return self.backend.duplicate(self.obj)
        except Exception:  # any class of exception
            return self.backend.cast(self.source.build(), self.dtype)

    def resting(self) -> Any:
        """A copy in eval mode."""
        obj = self.copy()
        self.backend.set_mode(obj, False)
        return obj

    def chosen(self, obj: Any, **more: str) -> dict[str, str]:
        """The choices for ambiguous conventions: from options, the factory, a copy ``obj``, and ``more``
        options.
        """
        options = {**self.source.options, **more}
        return chosen_of(obj, attributes(self.source.factory), options)


def meant(source: Source) -> str:
    """Options that a factory or class does not accept, each with the parameters or the promise it may mean."""
    return "".join(
        f"; there is no option {name!r}"
        + (nearest(name, source.takes()) or promised(name) or nearest(name, registry.OURS))
        for name in source.unknown()
    )


def promised(name: str) -> str:
    """A hint at the promise of this name, or an empty string."""
    return f" (did you mean promises={canonical(name)}?)" if canonical(name) in PROMISES else ""


def instance_of(source: Source, dtype: str) -> Instance:
    """Build a target in the random state of a condition with seed 0.

    Raises `TargetError` in one sentence if a user's factory raises (`OtherPrecision` if it may build in
    float32), and `Refusal` if a library's builder does.
    """
    seed = backends.build_seed(0)
    if source.statement is not None:
        backend = backends.find(source.statement.adapter.backend)
        try:
            with backend.sandbox(seed, dtype):
                return Instance(source, backend.cast(source.build(), dtype), backend, dtype)
        except FlowrefError:
            raise
        except Exception as error:
            raise Refusal(source.statement.facts.event_shape, error) from error
    with backends.sandbox(seed, dtype):
        try:
            obj = source.build()
        except FlowrefError:
            raise
        except (Exception, SystemExit) as error:
            place = user_code_location(error)
            if wanted := source.wanted():
                known = source.target
                for name in source.unknown():
                    known = known.without(name)
                said = registry.needing(str(known), wanted)
                raise TargetError(f"{source.target} {said}{meant(source)}") from error
            mixed = dtype == "float64" and MISMATCH.search(str(error))
            raise (OtherPrecision if mixed else TargetError)(
                f"{source.target}: calling the factory raised {one_line(error, 300)}{place}"
                f"{meant(source)}. A factory is "
                "called with the options after ? as keywords and must return the object to audit"
            ) from error
        if is_estimator(obj):
            obj, words = fitted_estimator(obj, source.target)
            if words:
                build = partial(fitting, source.build, source.target)
                source = replace(source, build=build, fitted=words)
        if (ways := method_pair_names(obj)) is not None:
            obj, source = obj[0].__self__, of_methods(source, ways)
        if (other := embedded(obj)) is not obj:
            obj, source = other, replace(source, build=partial(embedding, source.build))
        backend = framework(obj)
        stated = declaration_of(obj, source.factory, str(source.target))
        declared = {name: text for name, text in stated.items() if name not in source.undeclared}
        source = replace(source, declared=declared)
        return Instance(source, backend.cast(obj, dtype), backend, dtype)


def method_pair_names(obj: Any) -> tuple[str, str] | None:
    """The names of two bound methods of one object that form a pair (forward, inverse); else None."""
    if not isinstance(obj, tuple) or len(obj) != 2 or not all(map(inspect.ismethod, obj)):
        return None
    there, back = obj
    one = there.__self__ is back.__self__ and not isinstance(there.__self__, type)
    return (there.__name__, back.__name__) if one else None


def of_methods(source: Source, ways: tuple[str, str]) -> Source:
    """The source of the object whose methods a factory returns; the methods define its calls."""
    said = dict(zip(("forward", "inverse"), ways, strict=True))
    chosen = {name: way for name, way in said.items() if way != name}
    named = vars(attributes(source.factory) or SimpleNamespace())
    build = partial(owner_of, source.build)
    return replace(source, build=build, factory=SimpleNamespace(**{**named, **chosen}))


def owner_of(build: Callable[[], Any]) -> Any:
    """The object whose methods a factory returns."""
    return build()[0].__self__
