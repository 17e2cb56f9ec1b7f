"""Log-dets that are told beside the map: by a method of the input, or by what the last call left in
an attribute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import method_calls, signatures
from flowref.adapters.user.conventions.names import TELLING, VALUES, normalized_name
from flowref.model import Shape, SpecError, TargetError, nearest

# As transforms of torch.distributions tell it.
USUAL = "log_abs_det_jacobian"
# The options that name it, and what they say where nothing is meant.
LOG_DET, OF_INVERSE, NOTHING = "log_det", "inverse_log_det", "none"
# What the value of a map is called where it is an argument.
OF_VALUES = frozenset(
    (*VALUES, "v", "w", "f", "h", "fx", "outputs", "input", "inputs", "values", "zs", "ys", "xs", "image", "images")
)  # fmt: skip


@dataclass(frozen=True)
class LogDetSource:
    """What tells a log-det. ``name``: of a method or an attribute; ``arity``: of what it is asked,
    of nothing (what the last call left), of the input, or of the input and the value; ``left``:
    whether it is an attribute that is seen to be written by the call.
    """

    name: str
    arity: int
    left: bool = False

    @property
    def words(self) -> str:
        """What the target's line says of it."""
        if self.arity:
            return f"log-det: {self.name}({'x' if self.arity == 1 else 'x, z'})"
        return f"log-det: {self.name}, which each call leaves"

    def onward(self, ask: Any, value: Any) -> Any:
        """The function of a dialect for the map."""
        return partial(
            method_calls.told_beside, ask=ask, value=value, log_det=self.name, arity=self.arity
        )

    def back(self, ask: Any, value: Any) -> Any:
        """The same for the way back: what the last call left is of that call."""
        return (
            partial(self.onward(ask, value), back=True) if self.arity else self.onward(ask, value)
        )


def usual_log_det(obj: Any) -> LogDetSource | None:
    """log_abs_det_jacobian(x, z), or of the input alone; None where there is none."""
    if not hasattr(obj, USUAL):
        return None
    return LogDetSource(USUAL, 1 if len(signatures.required(obj, USUAL)) == 1 else 2)


def told_by_option(
    obj: Any, option: str, name: str, ask: Any, x: Any, context: Any
) -> LogDetSource:
    """What an option names. Raises: `SpecError` where it names nothing of the object, `TargetError` where that is no
    number for each point.
    """
    if name not in dir(obj):
        methods = [one for one in dir(obj) if not one.startswith("_")]
        raise SpecError(
            f"{option} was given as {name!r}, which is no method or attribute of the {type(obj).__name__}"
            f"{nearest(name, methods)}"
        )
    method = callable(getattr(type(obj), name, None))
    told = LogDetSource(name, len(signatures.required(obj, name)) if method else 0, left=not method)
    if told.arity > 2 or (told.arity == 2 and not _of_input(obj, told, "")):
        raise TargetError(
            f"{option} was given as {name!r}, which asks for {signatures.required(obj, name)[-1]} besides the input; "
            "name a method of the input, or of the input and the value"
        )
    seen = _log_det_shapes(obj, told, ask, x, context)
    if not seen or not _fits(told, seen, x):
        shape = f"of shape {seen[0]}" if seen else "nothing"
        raise TargetError(
            f"{option} was given as {name!r}, which gives {shape} for {len(x)} points; expected a number for each"
        )
    return told


def likely_of(obj: Any) -> list[str]:
    """The public methods and attributes that are named after a log-det, whatever they ask for."""
    names = [told.name for told in _log_det_sources(obj)]
    names += [
        name
        for base in type(obj).__mro__
        for name in vars(base)
        if signatures.defines_method(obj, name)
    ]
    return [name for name in dict.fromkeys(names) if name[0] != "_" and _is_log_det_name(name)]


def told_beside(
    obj: Any, ask: Any, x: Any, context: Any, method: str, arities: tuple[int, ...] = (0, 1, 2)
) -> LogDetSource | None:
    """What tells the log-det of a call that returns its value alone; None where nothing does, or
    more than one thing. ``method``: the name of the call, empty of a function; ``arities``: of what it
    may be asked: of nothing, where the way back is one whose log-det a method of the input tells, too.
    """
    likely = {
        told: seen
        for told in _written(obj, _log_det_sources(obj), ask, x, context)
        if told.arity in arities
        and _of_input(obj, told, method)
        and (seen := _log_det_shapes(obj, told, ask, x, context))
    }
    found = [told for told, seen in likely.items() if _fits(told, seen, x)]
    # Laws of its form are for a method of the input that gives another one.
    found = found or [told for told in likely if told.arity]
    if len(found) > 1 and _log_dets_agree(obj, found, ask, x, context):
        # A method that hands out what a call left in an attribute, of which the name is public.
        found = sorted(found, key=lambda told: told.name.startswith("_"))[:1]
    return found[0] if len(found) == 1 else None


def log_det_methods(obj: Any, method: str) -> list[LogDetSource]:
    """The methods that are named after a log-det, and take the input of a method, or it and its value."""
    asked = (told for told in _log_det_sources(obj) if told.arity)
    return [told for told in asked if _of_input(obj, told, method)]


def _log_dets_agree(obj: Any, found: list[LogDetSource], ask: Any, x: Any, context: Any) -> bool:
    """Whether all of them tell the same numbers of one call, and these are not all the same; or hand out one
    and the same array.
    """
    value = ask(obj, x, context)
    if (
        all(told.arity == 0 for told in found)
        and len({id(getattr(obj, told.name)) for told in found}) == 1
    ):
        return True
    first, *others = (
        method_calls.log_det_value(obj, told.name, (x, value)[: told.arity]).reshape(-1)
        for told in found
    )
    same = all(one.shape == first.shape and bool((one == first).all()) for one in others)
    return same and (len(first) < 2 or bool((first != first[0]).any()))


def _log_det_sources(obj: Any) -> Iterator[LogDetSource]:
    """Methods and attributes that are named after a log-det."""
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
    """Candidates, with a mark on the attributes that hold another object after a call."""
    found = list(candidates)
    before = {told.name: vars(obj).get(told.name, obj) for told in found if told.arity == 0}
    if before:
        try:
            ask(obj, x, context)
        except Exception:  # another call tells what it raises
            before = {}
    for told in found:
        kept = before.get(told.name, obj)
        yield replace(told, left=kept is not obj and vars(obj).get(told.name) is not kept)


def _is_log_det_name(name: str) -> bool:
    return TELLING.fullmatch(normalized_name(name)) is not None


def _of_input(obj: Any, told: LogDetSource, method: str) -> bool:
    """Whether a method of one argument calls it as the map calls its input: another name may be that
    of its value; one of two arguments calls the second as a value is called.
    """
    if told.arity == 2:  # of the input and the value, not of what a helper is handed
        return normalized_name(signatures.required(obj, told.name)[1]) in OF_VALUES
    if told.arity != 1:
        return True
    names = [signatures.required(obj, name)[:1] for name in (told.name, method)]
    return names[0] == names[1]


def _fits(told: LogDetSource, seen: list[Shape], x: Any) -> bool:
    """Whether it tells as many numbers as there are points, one for each entry, or, asked of
    them, one for all; what the last call left is another for another batch. One number that a call on
    vectors leaves may be for all points or a sum over them: which it is, is asked of the calls.
    """
    one = (told.arity > 0 or (told.left and x.dim() == 2)) and all(
        math.prod(shape) == 1 for shape in seen
    )
    return one or all(
        shape in ((rows,), (rows, 1), (rows, *x.shape[1:]))
        for shape, rows in zip(seen, (len(x), len(x) - 1), strict=True)
    )


def _log_det_shapes(obj: Any, told: LogDetSource, ask: Any, x: Any, context: Any) -> list[Shape]:
    """The shapes of what it gives for a batch and for one of a point less; none where it raises."""
    try:
        seen = []
        for rows in (slice(None), slice(1, None)):
            value = ask(obj, x[rows], None if context is None else context[rows])
            log_det = method_calls.log_det_value(obj, told.name, (x[rows], value)[: told.arity])
            seen.append(tuple(log_det.shape))
    except Exception:  # which error is no affair of the map
        return []
    return seen
