"""Separate log-dets: by a method of the input, or in an attribute that the last call wrote."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import method_calls, signatures
from flowref.adapters.user.conventions.names import TELLING, VALUES, normalized_name
from flowref.model import Shape, SpecError, TargetError, nearest

# The name in torch.distributions.
USUAL = "log_abs_det_jacobian"
# Options that name it, and their value for none.
LOG_DET, OF_INVERSE, NOTHING = "log_det", "inverse_log_det", "none"
# Parameter names of a map's value.
OF_VALUES = frozenset(
    (*VALUES, "v", "w", "f", "h", "fx", "outputs", "input", "inputs", "values", "zs", "ys", "xs", "image", "images")
)  # fmt: skip


@dataclass(frozen=True)
class LogDetSource:
    """The source of a log-det. ``name``: a method or attribute; ``arity``: its arguments: none (the last
    call), the input, or input and value; ``left``: an attribute that calls are seen to write.
    """

    name: str
    arity: int
    left: bool = False

    @property
    def words(self) -> str:
        """The remark on the target's line."""
        if self.arity:
            return f"log-det: {self.name}({'x' if self.arity == 1 else 'x, z'})"
        return f"log-det: {self.name}, which each call leaves"

    def onward(self, ask: Any, value: Any) -> Any:
        """The dialect function of the map."""
        return partial(
            method_calls.call_with_separate_log_det,
            ask=ask,
            value=value,
            log_det=self.name,
            arity=self.arity,
        )

    def back(self, ask: Any, value: Any) -> Any:
        """The dialect function of the inverse; with arity 0 the log-det is that of the inverse call itself."""
        return (
            partial(self.onward(ask, value), back=True) if self.arity else self.onward(ask, value)
        )


def usual_log_det(obj: Any) -> LogDetSource | None:
    """log_abs_det_jacobian(x, z), or of the input alone; None if there is none."""
    if not hasattr(obj, USUAL):
        return None
    return LogDetSource(USUAL, 1 if len(signatures.required(obj, USUAL)) == 1 else 2)


def log_det_source_by_option(
    obj: Any, option: str, name: str, ask: Any, x: Any, context: Any
) -> LogDetSource:
    """The source named by an option. Raises `SpecError` if the object has no such name, `TargetError` if it
    does not give a number per point.
    """
    if name not in dir(obj):
        methods = [one for one in dir(obj) if not one.startswith("_")]
        raise SpecError(
            f"{option} was given as {name!r}, which is no method or attribute of the {type(obj).__name__}"
            f"{nearest(name, methods)}"
        )
    method = callable(getattr(type(obj), name, None))
    source = LogDetSource(
        name, len(signatures.required(obj, name)) if method else 0, left=not method
    )
    if source.arity > 2 or (source.arity == 2 and not _of_input(obj, source, "")):
        raise TargetError(
            f"{option} was given as {name!r}, which asks for {signatures.required(obj, name)[-1]} besides the input; "
            "name a method of the input, or of the input and the value"
        )
    seen = _log_det_shapes(obj, source, ask, x, context)
    if not seen or not _fits(source, seen, x):
        shape = f"of shape {seen[0]}" if seen else "nothing"
        raise TargetError(
            f"{option} was given as {name!r}, which gives {shape} for {len(x)} points; expected a number for each"
        )
    return source


def likely_of(obj: Any) -> list[str]:
    """Public methods and attributes named after a log-det, whatever their arguments."""
    names = [source.name for source in _log_det_sources(obj)]
    names += [
        name
        for base in type(obj).__mro__
        for name in vars(base)
        if signatures.defines_method(obj, name)
    ]
    return [name for name in dict.fromkeys(names) if name[0] != "_" and _is_log_det_name(name)]


def separate_log_det_source(
    obj: Any, ask: Any, x: Any, context: Any, method: str, arities: tuple[int, ...] = (0, 1, 2)
) -> LogDetSource | None:
    """The log-det source of a call that returns its value alone; None if there is none, or several that
    disagree. ``method``: the called name, empty for a function; ``arities``: allowed numbers of arguments.
    """
    likely = {
        source: seen
        for source in _written(obj, _log_det_sources(obj), ask, x, context)
        if source.arity in arities
        and _of_input(obj, source, method)
        and (seen := _log_det_shapes(obj, source, ask, x, context))
    }
    found = [source for source, seen in likely.items() if _fits(source, seen, x)]
    # Laws test the form of a method of the input.
    found = found or [source for source in likely if source.arity]
    if len(found) > 1 and _log_dets_agree(obj, found, ask, x, context):
        # A public getter of the attribute that a call wrote.
        found = sorted(found, key=lambda source: source.name.startswith("_"))[:1]
    return found[0] if len(found) == 1 else None


def log_det_methods(obj: Any, method: str) -> list[LogDetSource]:
    """Methods named after a log-det that take a method's input, or input and value."""
    asked = (source for source in _log_det_sources(obj) if source.arity)
    return [source for source in asked if _of_input(obj, source, method)]


def _log_dets_agree(obj: Any, found: list[LogDetSource], ask: Any, x: Any, context: Any) -> bool:
    """Whether all sources agree on one call with varying numbers, or return the same array."""
    value = ask(obj, x, context)
    if (
        all(source.arity == 0 for source in found)
        and len({id(getattr(obj, source.name)) for source in found}) == 1
    ):
        return True
    first, *others = (
        method_calls.log_det_value(obj, source.name, (x, value)[: source.arity]).reshape(-1)
        for source in found
    )
    same = all(one.shape == first.shape and bool((one == first).all()) for one in others)
    return same and (len(first) < 2 or bool((first != first[0]).any()))


def _log_det_sources(obj: Any) -> Iterator[LogDetSource]:
    left = [name for name in getattr(obj, "__dict__", {}) if _is_log_det_name(name)]
    yield from (LogDetSource(name, 0) for name in left if not callable(getattr(obj, name, None)))
    for base in type(obj).__mro__:
        for name, value in vars(base).items():
            if not _is_log_det_name(name) or name in left:
                continue
            if isinstance(value, property):
                yield LogDetSource(name, 0)
            elif signatures.defines_method(obj, name) and len(signatures.required(obj, name)) <= 2:
                yield LogDetSource(name, len(signatures.required(obj, name)))


def _written(
    obj: Any, candidates: Iterator[LogDetSource], ask: Any, x: Any, context: Any
) -> Iterator[LogDetSource]:
    """The candidates, with attributes marked that hold another object after a call."""
    found = list(candidates)
    before = {source.name: vars(obj).get(source.name, obj) for source in found if source.arity == 0}
    if before:
        try:
            ask(obj, x, context)
        except Exception:  # reported by another call
            before = {}
    for source in found:
        kept = before.get(source.name, obj)
        yield replace(source, left=kept is not obj and vars(obj).get(source.name) is not kept)


def _is_log_det_name(name: str) -> bool:
    return TELLING.fullmatch(normalized_name(name)) is not None


def _of_input(obj: Any, source: LogDetSource, method: str) -> bool:
    """Whether a method's argument has the name of the map's input (another name may be that of its value);
    with two arguments, whether the second has a name of values.
    """
    if source.arity == 2:  # input and value, rather than a helper's arguments
        return normalized_name(signatures.required(obj, source.name)[1]) in OF_VALUES
    if source.arity != 1:
        return True
    names = [signatures.required(obj, name)[:1] for name in (source.name, method)]
    return names[0] == names[1]


def _fits(source: LogDetSource, seen: list[Shape], x: Any) -> bool:
    """Whether it gives one number per point or per entry, or a constant if it is a method; attributes must
    change with the batch. A single number after a call on vectors may be constant or a sum, which calls
    decide.
    """
    one = (source.arity > 0 or (source.left and x.dim() == 2)) and all(
        math.prod(shape) == 1 for shape in seen
    )
    return one or all(
        shape in ((rows,), (rows, 1), (rows, *x.shape[1:]))
        for shape, rows in zip(seen, (len(x), len(x) - 1), strict=True)
    )


def _log_det_shapes(obj: Any, source: LogDetSource, ask: Any, x: Any, context: Any) -> list[Shape]:
    """The shapes for a batch and for one with a point fewer; empty if it raises."""
    try:
        seen = []
        for rows in (slice(None), slice(1, None)):
            value = ask(obj, x[rows], None if context is None else context[rows])
            log_det = method_calls.log_det_value(obj, source.name, (x[rows], value)[: source.arity])
            seen.append(tuple(log_det.shape))
    except Exception:  # any exception means no
        return []
    return seen
