"""How the map of an object is called: with a running log-det, several tensors, halves or a tuple of one,
and what it returns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import answers, asking, signatures
from flowref.adapters.user.conventions.beside import (
    LOG_DET,
    NOTHING,
    OF_INVERSE,
    USUAL,
    told_beside,
    told_by_option,
    usual_log_det,
)
from flowref.adapters.user.conventions.call_forms import Chosen, Way, asked_name, running_words
from flowref.adapters.user.conventions.readings import is_array
from flowref.adapters.user.conventions.returns import read
from flowref.adapters.user.conventions.spoken import (
    Spoken,
    follows,
    of_several,
    result_of,
)

# What a call may write to, beside its input and its context.
RUNNING = "the running log-det that it is given"


def way_ahead(
    obj: Any, way: Way, x: Any, context: Any, chosen: Chosen, volume: bool
) -> tuple[Way, Spoken]:
    """The forward call, made once."""
    if way.form == "plain" and (wrapped := _wrapped(obj, way, x, context)):
        return wrapped
    if way.form == "running":
        try:
            spoken = _running(obj, way, x, context)
        except Exception:
            if (other := _halves(obj, way, (x, context), chosen, volume)) is None:
                raise
            return other
        if spoken is not None:
            return way, spoken
        plainly = bool(way.keyword) and not (way.words or way.given)
        way = replace(way, form="plain", sign="", keyword="", usual=plainly)
    try:
        out = way.ask(obj, x, context)
    except Exception:
        other = _gathered(obj, way, x, context) or _several(obj, way, x)
        other = other or _halves(obj, way, (x, context), chosen, volume)
        if other is None:
            raise
        return other
    # Code that takes entries of one argument by their places takes the first rows of a batch for them.
    if not _of_rows(out, x) and (other := _gathered(obj, way, x, context)):
        return other
    if any(kind == "span" for _, kind in way.bound) and _stacked(out, x):
        words = f"{way.words}, the last of its states"
        way = replace(way, around=(*way.around, asking.ended), words=words)
        out = way.ask(obj, x, context)
    return way, _read(obj, way, out, (x, context), chosen, volume)


def _stacked(out: Any, x: Any) -> bool:
    """Whether values at both ends of a time came back."""
    value = out[0] if isinstance(out, (tuple, list)) and out else out
    return tuple(getattr(value, "shape", ())) == (2, *x.shape)


def _of_rows(out: Any, x: Any) -> bool:
    """Whether what came back has a value for each point."""
    value = out[0] if isinstance(out, (tuple, list)) and out else out
    return tuple(getattr(value, "shape", ()))[:1] == (len(x),)


def _read(
    obj: Any, way: Way, out: Any, point: tuple[Any, Any], chosen: Chosen, volume: bool
) -> Spoken:
    """The forward call as what it returned is read."""
    x, context = point
    reading = read(result_of(obj, way, out, x, "forward", chosen))
    if "columns" in chosen:
        return Spoken(way.speak(reading.value, reading.ladj), reading.words)
    alone = reading.ladj is answers.none
    if alone and is_array(out):
        name = chosen.get(LOG_DET, "")
        if name and name != NOTHING:
            beside = told_by_option(obj, LOG_DET, name, way.ask, x, context)
        elif name or OF_INVERSE in chosen:
            beside = None
        else:
            beside = usual_log_det(obj) if way.usual else None
            beside = beside or told_beside(obj, way.ask, x, context, asked_name(obj, way))
        if beside is not None:
            words = () if way.usual and beside.name == USUAL else (beside.words,)
            return Spoken(beside.onward(way.ask, reading.value), words, beside=beside)
    if alone and volume:
        return Spoken(
            partial(asking.zeros, ask=way.ask, value=reading.value), reading.words, reading.parts
        )
    dense = None
    if reading.log_prob:
        dense = partial(asking.log_prob_by, ask=way.ask, entries=reading.log_prob)
    function = way.speak(reading.value, reading.ladj)
    return Spoken(
        function, reading.words, reading.parts, dense, unjudged=reading.unjudged, left=reading.left
    )


def _running(obj: Any, way: Way, x: Any, context: Any) -> Spoken | None:
    """A call that is fed a running log-det; None where it gives none back."""
    refused: Exception | None = None
    for column in (False, True):
        before = asking.running_numbers(x, column)
        given = before.clone()
        try:
            out = way.ask(obj, x, context, given)
        except Exception as error:
            refused = refused or error
            if column and not way.keyword:
                raise refused from None  # numbers in a column are asked after: the others are usual
            continue
        if not isinstance(out, (tuple, list)) or len(out) < 2 or not is_array(out[1]):
            return None
        once = not out[1].shape and not way.keyword and _silent(obj, way, x, context)
        if tuple(out[1].shape) != tuple(before.shape) and not once:
            continue
        if way.keyword and not follows(way.ask(obj, x, context, before + 1), out):
            return None
        writes = "" if bool((given == before).all()) else RUNNING
        return Spoken(way.speak(column=column), (running_words(obj, way),), writes=writes)
    return None


def _silent(obj: Any, way: Way, x: Any, context: Any) -> bool:
    """Whether a call tells a log-det only where it is fed one: what it then tells is the running one
    with its own, even where that is one number for all points.
    """
    try:
        out = replace(way, form="plain", sign="").ask(obj, x, context)
    except Exception:  # it asks for the running log-det
        return True
    return not (isinstance(out, (tuple, list)) and len(out) > 1 and is_array(out[1]))


def _halves(
    obj: Any, way: Way, point: tuple[Any, Any], chosen: Chosen, volume: bool
) -> tuple[Way, Spoken] | None:
    """A call that takes a tuple of two halves of a point, and returns one; None where it does not."""
    if asking.halved in way.around or len(point[0].shape) < 2 or point[0].shape[1] < 2:
        return None
    words = "; ".join(filter(None, (way.words, "a tuple of two halves in, and out")))
    try:
        way, spoken = way_ahead(
            obj,
            replace(way, around=(asking.halved, *way.around), usual=False, words=words),
            *point,
            chosen,
            volume,
        )
        fits = (
            asking.halved in way.around and spoken.function(obj, *point)[0].shape == point[0].shape
        )
    except Exception:  # the call as it is usual is told
        return None
    return (way, spoken) if fits else None


def _gathered(obj: Any, way: Way, x: Any, context: Any) -> tuple[Way, Spoken] | None:
    """A call that takes and returns a tuple of the value and a running log-det, with a context or
    without; None where it does not.
    """
    if len(signatures.required(obj, asked_name(obj, way))) != 1:
        return None
    for form in ("triple", "couple") if context is None else ("triple",):
        gathered = replace(way, form=form, sign="add", usual=False)
        before = asking.running_numbers(x, False)
        try:
            out = gathered.ask(obj, x, context, before.clone())
        except Exception:
            continue
        count = 3 if form == "triple" else 2
        if not isinstance(out, (tuple, list)) or len(out) != count or not is_array(out[1]):
            continue
        # Two halves of a point would be a pair as well.
        if form == "triple" or (_of_rows(out, x) and out[1].shape == before.shape):
            return gathered, Spoken(gathered.speak(), (running_words(obj, gathered),))
    return None


def _several(obj: Any, way: Way, x: Any) -> tuple[Way, Spoken] | None:
    """A call that takes several tensors, and returns as many and maybe a log-det; None where it does
    not.
    """
    method = asked_name(obj, way)
    alike = signatures.alike(obj, method)
    taken = signatures.parameters(obj, method)
    if not alike and not any(one.kind is one.VAR_POSITIONAL for one in taken):
        return None
    size = x.shape[-1]
    for count in (alike,) if alike else (2, 3):
        if size < count:
            break
        sizes = (size // count,) * (count - 1)
        several = replace(way, form="several", sizes=(*sizes, size - sum(sizes)), usual=False)
        try:
            spoken = of_several(several, several.ask(obj, x, None), x)
        except Exception:
            continue
        if spoken is not None and (alike or "no log-det" not in spoken.words[0]):
            return several, spoken
    return None


def _wrapped(obj: Any, way: Way, x: Any, context: Any) -> tuple[Way, Spoken] | None:
    """A call that takes a tuple of one tensor and returns one, with the log-det beside it; None where
    its signature does not say so, or it does not.
    """
    named = {one.name for one in signatures.parameters(obj, asked_name(obj, way))}
    if not {"rev", "jac"} <= named:
        return None
    way = replace(way, form="wrapped", usual=False)
    try:
        out = way.ask(obj, x, context)
    except Exception:
        return None
    if not isinstance(out, tuple) or len(out) != 2 or not isinstance(out[0], (tuple, list)):
        return None
    return way, Spoken(way.speak(answers.only_of), ("a tuple of one tensor in, and out",))
