"""The search over the tables, for a map and for its inverse: which call allowed by `ROLES` and `ARGUMENTS`
runs and returns what its row says, how `RETURNS` reads the result, and where the log-det is if the result
has none.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import method_calls, return_forms, signatures
from flowref.adapters.user.conventions.call_forms import (
    ARGUMENTS,
    BATCH_AXIS,
    CallForm,
    Chosen,
    asked_name,
    running_words,
)
from flowref.adapters.user.conventions.named_points import (
    fits_any_size,
    named_reading,
    named_words,
    unread_names,
)
from flowref.adapters.user.conventions.readings import Result, entry_count, is_array
from flowref.adapters.user.conventions.returns import number_first, return_reading
from flowref.adapters.user.conventions.separate_log_dets import (
    LOG_DET,
    NOTHING,
    OF_INVERSE,
    USUAL,
    LogDetSource,
    log_det_source_by_option,
    separate_log_det_source,
    usual_log_det,
)
from flowref.adapters.user.conventions.stated_returns import columns_reading, stated_reading
from flowref.adapters.user.conventions.volumes import agrees
from flowref.model import FlowrefError, Shape, TargetError

BACK_ALONE = "inverse without log-det"
# Arguments that a call may write to, besides input and context.
RUNNING = "the running log-det that it is given"


@dataclass(frozen=True)
class ResolvedCall:
    """A resolved call of an object: its ``way``, the dialect function, remarks, shapes of a list of
    latents, a separate log-det, remarks on untested and unrecognized results, and the arguments that it
    writes to.
    """

    way: CallForm
    function: Any
    words: tuple[str, ...] = ()
    parts: tuple[Shape, ...] = ()
    log_prob: Any = None
    beside: LogDetSource | None = None
    unjudged: str = ""
    left: str = ""
    writes: str = ""


@dataclass(frozen=True)
class Request:
    """One direction of an object, called at given points.

    ``x``: points on the data side; ``points``: the input, latents for the inverse; ``volume``: declared to
    preserve volume; ``onward``: the resolved map, for an inverse.
    """

    obj: Any
    x: Any
    points: Any
    context: Any
    chosen: Chosen
    volume: bool = False
    onward: ResolvedCall | None = None

    def result(self, way: CallForm, out: Any) -> Result:
        """The result of a call, with its context for reading."""
        method, name = asked_name(self.obj, way), "inverse" if self.onward else "forward"
        code = getattr(type(self.obj), method, None) if method else self.obj
        rows, entries = len(self.x), math.prod(self.x.shape[1:])
        return Result(out, rows, entries, name, self.chosen, self.obj, code)

    def answer(self, way: CallForm, *before: Any) -> Any:
        """The return value of a call."""
        return way.ask(self.obj, self.points, self.context, *before)


def candidates(request: Request, way: CallForm) -> Iterator[CallForm]:
    """Candidate argument forms of a way, likeliest first: for a map by its signature, for an inverse as for
    its map, then by the value alone.
    """
    if request.onward is None:
        given = request.obj, way, request.x, request.context
        suited = [(row.sure, one) for row in ARGUMENTS.values() for one in row.suits(*given)]
        yield from (one for sure, one in suited if sure)
        yield way
        if any(kind == "span" for _, kind in way.bound):
            words = f"{way.words}, the last of its states"
            yield replace(way, around=(*way.around, method_calls.ended), words=words)
        yield from (one for sure, one in suited if not sure)
        plainly = way.form == "plain" and not way.bound and BATCH_AXIS not in request.chosen
        if plainly and request.context is None and len(request.x.shape) == 2:
            yield way.turned()
    elif request.onward.parts:
        yield replace(way, form="levels", shapes=request.onward.parts)
    else:
        alike = way.like(request.onward.way)
        yield alike
        if alike.running and not way.running:
            yield way


def resolve(request: Request, ways: Sequence[CallForm]) -> ResolvedCall | None:
    """The first way that runs and returns what its row says; None if those that run do not.

    Raises the first exception if none runs; `TargetError` and `Ambiguous` if a result cannot be read.
    """
    raised: Exception | None = None
    unsure: tuple[CallForm, Any] | None = None
    for way in ways:
        try:
            resolved = _resolved_running_call(request, way) if way.running else None
            if resolved is not None:
                return resolved
            if way.running:
                if way.form != "running" or (request.onward and not way.keyword):
                    continue
                usual = bool(way.keyword) and not (way.words or way.given)
                way = replace(way, form="plain", sign="", keyword="", usual=usual)
            out = request.answer(way)
        except FlowrefError:
            raise
        except Exception as error:  # another way may be meant
            raised = raised or error
            continue
        if way.form == "several":
            resolved = _several(request, way, out)
        elif way.form == "wrapped":
            resolved = _wrapped(request, way, out)
        elif way.keys:
            resolved = _named_arrays(request, way, out)
        elif (
            method_calls.call_with_columns in way.around
            and BATCH_AXIS not in request.chosen
            and not request.onward
        ):
            # A log-det per column shows undeclared points as columns.
            resolved = (
                _resolved_return(request, way, out)
                if _shapes(out)[1] == (len(request.x),)
                else None
            )
        elif request.onward is None and not _of_rows(out, request.x):
            # Code that unpacks its argument takes the first rows of a batch for its entries.
            unsure = unsure or (way, out)
        else:
            return _resolved_return(request, way, out)
        if resolved is not None:
            return resolved
    if unsure is not None:
        return _resolved_return(request, *unsure)
    if raised is None:
        return None
    if request.onward is None and (halves := _halves(request, ways)) is not None:
        return halves
    if request.onward is None and (
        why := unread_names(request.obj, asked_name(request.obj, ways[0]))
    ):
        raise TargetError(why) from raised
    raise raised


def _shapes(out: Any) -> tuple[Shape, Shape]:
    parts = [*out, None] if isinstance(out, (tuple, list)) and out else [out, None]
    value, beside = (tuple(getattr(part, "shape", ())) for part in parts[:2])
    return value, beside


def _of_rows(out: Any, x: Any) -> bool:
    """Whether a result has a value per point, and no log-det per column."""
    value, ladj = _shapes(out)
    columns = len(x.shape) == 2 and ladj == x.shape[1:] != x.shape[:1]
    return value[:1] == (len(x),) and not columns


def _halves(request: Request, ways: Sequence[CallForm]) -> ResolvedCall | None:
    """A map of tuples of two halves of a point; None if it is not one."""
    x, way = request.x, ways[0]
    if method_calls.call_with_halves in way.around or len(x.shape) < 2 or x.shape[1] < 2:
        return None
    words = "; ".join(filter(None, (way.words, "a tuple of two halves in, and out")))
    way = replace(
        way, around=(method_calls.call_with_halves, *way.around), usual=False, words=words
    )
    try:
        resolved = resolve(request, [way])
        fits = resolved and resolved.function(request.obj, x, request.context)[0].shape == x.shape
    except Exception:  # the error of the usual call is reported
        return None
    return resolved if fits else None


# Checks of results against rows.


def follows(later: Any, out: Any) -> bool:
    """Whether the log-det increases by one with the running one."""
    moved = later[1] - out[1] - 1
    return bool((moved.abs() < 1e-4).all())


def _resolved_running_call(request: Request, way: CallForm) -> ResolvedCall | None:
    """A call with a running log-det, as ``(n,)`` or ``(n, 1)``; None if it returns none."""
    refused: Exception | None = None
    row, alone = ARGUMENTS[way.form], replace(way, form="plain", sign="")
    columns_too = (False, True) if row.column else (False,)
    for column in columns_too:
        before = method_calls.running_numbers(request.x, column)
        given = before.clone()
        try:
            out = request.answer(way, given)
        except Exception as error:
            refused = refused or error
            if column is columns_too[-1] and not way.keyword:
                raise refused from None  # columns come second, since the others are usual
            continue
        if request.onward and not isinstance(out, (tuple, list)):
            reading = return_reading(request.result(way, out))
            return ResolvedCall(
                way, alone.dialect_function(reading.value, reading.ladj), (BACK_ALONE,)
            )
        if not isinstance(out, (tuple, list)) or len(out) < row.returned or not is_array(out[1]):
            return None
        if way.form != "running" and (len(out) > row.returned or not _of_rows(out, request.x)):
            return None  # two halves of a point would be a pair as well
        once = not out[1].shape and not way.keyword and _silent(request, alone)
        if tuple(out[1].shape) != tuple(before.shape) and not once:
            continue
        if way.keyword and not follows(request.answer(way, before + 1), out):
            return None
        if request.onward is None:
            writes = "" if bool((given == before).all()) else RUNNING
            words = (running_words(request.obj, way),)
            return ResolvedCall(way, way.dialect_function(column=column), words, writes=writes)
        unchanged = bool((out[1] == before).all())
        meant = request.chosen.get("inverse_ladj") == "given"
        if (
            unchanged
            and not meant
            and _updates_running_log_det(request.onward.way, request, before)
        ):
            return ResolvedCall(
                way, replace(way, sign="none").dialect_function(column=column), (BACK_ALONE,)
            )
        return ResolvedCall(way, way.dialect_function(column=column))
    return None


def _silent(request: Request, alone: CallForm) -> bool:
    """Whether a call returns a log-det only if it gets one: then it returns the running one plus its own,
    even if that is constant.
    """
    try:
        out = request.answer(alone)
    except Exception:  # it requires the running log-det
        return True
    return not (isinstance(out, (tuple, list)) and len(out) > 1 and is_array(out[1]))


def _updates_running_log_det(onward: CallForm, request: Request, before: Any) -> bool:
    """Whether a map changes the running log-det that its inverse returns unchanged."""
    if not onward.running:
        return True
    out = onward.ask(request.obj, request.x, request.context, before.clone())
    return not bool((out[1] == before).all())


def _several(request: Request, way: CallForm, out: Any) -> ResolvedCall | None:
    """A call that returns as many arrays as it takes, which make up a point, with or without a log-det
    after them.
    """
    count, onward = len(way.sizes), request.onward
    sizes = [*map(entry_count, out)] if isinstance(out, (tuple, list)) else [-1]
    arrays, whole = min(sizes, default=-1) >= 0, sum(sizes) == entry_count(request.x)
    values_alone = arrays and whole and len(sizes) == count
    alone = way.dialect_function(return_forms.flattened_latents, return_forms.none)
    if onward is not None:
        lost = values_alone and "no log-det" not in onward.words[0]
        function = alone if values_alone else way.dialect_function()
        return ResolvedCall(way, function, (BACK_ALONE,) if lost else ())
    if arrays and len(sizes) == count + 1:
        return ResolvedCall(
            way, way.dialect_function(), (f"{count} tensors in, {count} out; log-det last",)
        )
    if values_alone and signatures.point_part_count(request.obj, asked_name(request.obj, way)):
        return ResolvedCall(way, alone, (f"{count} tensors in, {count} out, no log-det",))
    return None


def _named_arrays(request: Request, way: CallForm, out: Any) -> ResolvedCall | None:
    """A call that takes named arrays and returns some that make up a point, with or without a log-det
    among or after them.
    """
    first = request.onward.way.keys if request.onward else way.keys
    found = named_reading(out, request.x, first, way.keys)
    if found is None or not all(isinstance(one, type(request.x)) for one in found.point.values()):
        return None
    value, ladj = found.reading.value, found.reading.ladj
    if request.onward is None and _fits_any_size(request, way, ladj(out), ladj):
        return None
    way = replace(way, latents=found.latents)
    if request.onward is not None:
        lost = ladj is return_forms.none
        return ResolvedCall(way, way.dialect_function(value, ladj), (BACK_ALONE,) if lost else ())
    return ResolvedCall(way, way.dialect_function(value, ladj), found.reading.words)


def _fits_any_size(request: Request, way: CallForm, log_det: Any, ladj: Any) -> bool:
    def log_det_of(way: CallForm, x: Any) -> Any:
        return ladj(way.ask(request.obj, x, request.context))

    return fits_any_size(request.obj, way, request.x, log_det, log_det_of)


def named_density(obj: Any, method: str, x: Any, context: Any) -> tuple[Any, Any, str] | None:
    """A log-density of named arrays as a function of object, points and context, its values ``(n,)``, and a
    remark; None if it takes one array, or no method is called.
    """
    for way in ARGUMENTS["named"].suits(obj, CallForm(method), x, context) if method else ():
        with contextlib.suppress(Exception):  # another form may be meant
            values = way.ask(obj, x, context)
            if entry_count(values) == len(x):
                return way.ask, values, named_words(way)
    return None


def _wrapped(request: Request, way: CallForm, out: Any) -> ResolvedCall | None:
    """A call that takes and returns a one-tuple, possibly with the log-det."""
    pair = isinstance(out, tuple) and len(out) == 2 and isinstance(out[0], (tuple, list))
    words = () if request.onward else ("a tuple of one tensor in, and out",)
    return (
        ResolvedCall(way, way.dialect_function(return_forms.only_of), words)
        if pair or request.onward
        else None
    )


# Reading of results.


def _resolved_return(request: Request, way: CallForm, out: Any) -> ResolvedCall:
    """A call with its result read, and a separate log-det if the value is alone."""
    result = request.result(way, out)
    if packed := columns_reading(result):
        return ResolvedCall(way, way.dialect_function(packed.value, packed.ladj), packed.words)
    if (
        is_array(out)
        and way.form != "levels"
        and (source := _separate_log_det_call(request, way)) is not None
    ):
        return source
    usual = (
        request.onward is not None
        and way.usual
        and way.form == "plain"
        and not stated_reading(result)
    )
    first = out[0] if isinstance(out, tuple) else out
    if usual and not number_first(result) and is_array(first):
        words = () if isinstance(out, tuple) and out[1:2] != (None,) else (BACK_ALONE,)
        return ResolvedCall(
            way, way.dialect_function(return_forms.first_of, return_forms.second_of), words
        )
    reading = return_reading(result)
    alone = reading.ladj is return_forms.none
    if request.onward is not None:
        function = way.dialect_function(reading.value, reading.ladj)
        return ResolvedCall(
            way, function, (BACK_ALONE,) if alone and not request.onward.parts else ()
        )
    if alone and request.volume:
        function = partial(method_calls.zeros, ask=way.ask, value=reading.value)
        return ResolvedCall(way, function, reading.words, reading.parts)
    dense = None
    if reading.log_prob:
        dense = partial(method_calls.log_prob_by, ask=way.ask, entries=reading.log_prob)
    return ResolvedCall(
        way,
        way.dialect_function(reading.value, reading.ladj),
        reading.words,
        reading.parts,
        dense,
        unjudged=reading.unjudged,
        left=reading.left,
    )


def _separate_log_det_call(request: Request, way: CallForm) -> ResolvedCall | None:
    """A call that returns its value alone, with a separate log-det; None if none is found."""
    obj, chosen, onward, name = (
        request.obj,
        request.chosen,
        request.onward,
        asked_name(request.obj, way),
    )
    point = obj, way.ask, request.points, request.context
    option = LOG_DET if onward is None else OF_INVERSE
    said, value = chosen.get(option, ""), return_forms.whole_return
    usual = usual_log_det(obj) if way.usual else None
    if said and said != NOTHING:
        source = log_det_source_by_option(obj, option, said, *point[1:])
        line = source.words if onward is None else f"log-det of {name}: {said}"
        return ResolvedCall(way, source.onward(way.ask, value), (line,), beside=source)
    if onward is None:
        found = (
            None if said or OF_INVERSE in chosen else usual or separate_log_det_source(*point, name)
        )
        if found is None:
            return None
        silent = way.usual and found.name == USUAL
        words = () if silent else (found.words,)
        return ResolvedCall(way, found.onward(way.ask, value), words, beside=found)
    alone = way.dialect_function(value, return_forms.none)
    if onward.beside is not None:
        source = onward.beside
        if source.arity or separate_log_det_source(*point, name, (0,)):
            return ResolvedCall(way, source.back(way.ask, value))
        return ResolvedCall(way, alone, (BACK_ALONE,))
    if usual is not None:
        return ResolvedCall(way, usual.back(way.ask, value))
    own = (
        separate_log_det_source(*point, name, (1,))
        if way.form == "plain" and LOG_DET not in chosen
        else None
    )
    if own is None:
        return None
    call = own.onward(way.ask, value)
    turned = partial(method_calls.negated, call=call)
    if agrees(obj, turned, *point[2:]) and not agrees(obj, call, *point[2:]):
        # It may be that of the map, or have the wrong sign.
        line = f"not judged: {own.name}(z) is minus the log-det of {name}: it is that of the map, or has the wrong sign"
        return ResolvedCall(way, alone, (line,))
    return ResolvedCall(way, call, (f"log-det of {name}: {own.name}(z)",))


def raising_inverse(request: Request, way: CallForm) -> Any:
    """An inverse that raises, kept for laws to report."""
    if way.form not in ("plain", "levels"):
        return way.dialect_function()
    if way.form == "levels" or not way.usual:
        return way.dialect_function(return_forms.whole_return, return_forms.none)
    if source := usual_log_det(request.obj):
        return source.back(way.ask, return_forms.whole_return)
    return way.dialect_function(return_forms.first_of, return_forms.second_of)
