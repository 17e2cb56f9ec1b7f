"""Which call of an object goes back, and how it is read."""

from __future__ import annotations

import contextlib
import copy
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import answers, asking, signatures
from flowref.adapters.user.conventions.beside import (
    LOG_DET,
    OF_INVERSE,
    Told,
    told_beside,
    told_by_option,
    usual_log_det,
)
from flowref.adapters.user.conventions.call_forms import Chosen, Way, asked_name
from flowref.adapters.user.conventions.names import LIKELY
from flowref.adapters.user.conventions.once import Once
from flowref.adapters.user.conventions.readings import is_array
from flowref.adapters.user.conventions.returns import number_first, read
from flowref.adapters.user.conventions.roles import forward_way, inverse_ways
from flowref.adapters.user.conventions.spoken import (
    BACK_ALONE,
    Spoken,
    follows,
    of_several,
    result_of,
)
from flowref.adapters.user.conventions.stated_returns import columns, stated
from flowref.adapters.user.conventions.volumes import agrees
from flowref.model import Ambiguous, one_line

# How near a way back that iterates comes; which share of entries are near at least, and of one that is called so;
# and methods that are none and may change an object.
BACK, MOST, SOME = 1e-3, 0.6, 0.2
FOREIGN = re.compile(
    r"^_|fit|train|update|reset|init|load|save|set_|add_|register|step|loss|log_?p|sample|plot|hook"
)
# What is raised where numbers of two precisions meet.
MISMATCH = re.compile(
    r"same dtype|scalar type|double != float|float != double|Double.*Float|dtype mismatch|should be the same"
)


def way_back(
    once: Once, forward: Way, spoken: Spoken, point: tuple[Any, Any, Any], chosen: Chosen
) -> tuple[Any, list[str], list[str]]:
    """The function that goes back, or None; what the line says of it; and hints."""
    obj = once.obj
    found: list[tuple[Way, Spoken, Any]] = []
    hints: list[str] = []
    ways = inverse_ways(obj, forward, chosen)
    for way in ways:
        way = _like(obj, way, forward, point[1:])
        try:
            back = _back(obj, way, spoken, point, chosen)
            value = None if back is None else once(back.function, *point[1:])[0]
        except NotImplementedError:
            return None, ["no inverse"], ["no inverse: it raises NotImplementedError"]
        except Ambiguous:
            raise
        except (
            Exception
        ) as error:  # what inverse raises is the laws' affair; others may be for else
            if _narrow(error, point[1]):
                raise
            if way.method and signatures.refuses(obj, way.method):
                return None, ["no inverse"], [f"no inverse: it raises {one_line(error, 80)}"]
            if way.usual or "inverse" in chosen:
                return _as_it_is(obj, way, spoken), list(filter(None, [way.words])), []
            hints.append(f"{way.words.removeprefix('inverse: ')} raised {one_line(error, 80)}")
            continue
        if back is None or value is None:
            continue
        if way.usual or "inverse" in chosen or value.shape == point[0].shape:
            found.append((way, back, value))
    if not ways:
        found = _going_back(once, forward, spoken, point, chosen)
    if not found:
        return None, [], [*_missing(obj, forward, hints)]
    if len(found) > 1:  # a parameter that the code takes and forgets turns nothing around
        onward = once(spoken.function, *point[1:])[0]
        turned = [one for one in found if not (one[0].given and _same(one[2], onward))]
        found = turned or found
    others = [way for way, _, value in found[1:] if not _same(value, found[0][2])]
    if others:
        names = [way.words.removeprefix("inverse: ") for way in (found[0][0], *others)]
        raise Ambiguous(
            f"it goes back by {' and by '.join(names)}, and they disagree; say "
            f"{' or '.join(_option(way) for way in (found[0][0], *others))}"
        )
    way, back, _ = found[0]
    agreeing = [other.words.removeprefix("inverse: ") for other, _, _ in found[1:]]
    words = f"{way.words}, as {' and '.join(agreeing)}" if agreeing else way.words
    return back.function, [*filter(None, [words]), *back.words], []


def _going_back(
    once: Once, forward: Way, spoken: Spoken, point: tuple[Any, Any, Any], chosen: Chosen
) -> list[tuple[Way, Spoken, Any]]:
    """The method that brings most entries of latents back to where they came from, whatever it is called, some
    of them where it is called as a way back is; none where several go elsewhere, or where the map moves little.
    """
    x, latent, _ = point
    plain = forward.form == "plain" and is_array(latent) and latent.shape == x.shape
    if not plain or _share(latent, x) >= 1 - SOME:
        return []
    back = []
    for name in signatures.methods(once.obj):
        if name in (forward.method, "forward") or FOREIGN.search(name):
            continue
        with contextlib.suppress(Exception):  # it may want anything
            obj = copy.deepcopy(once.obj)
            way = Way(name, words=f"inverse: {name}(), which goes back")
            found = _back(obj, way, spoken, point, chosen)
            if found is None:
                continue
            value = found.function(obj, latent.clone(), point[2])[0]
            if _share(value, x) >= (SOME if name in LIKELY else MOST):
                back.append((way, found, value))
    return back[:1] if all(_same(value, back[0][2]) for _, _, value in back) else []


def _share(one: Any, other: Any) -> float:
    """The share of entries that are the same, but for what an iteration leaves."""
    if one.shape != other.shape:
        return 0.0
    near: Any = abs(one - other) <= BACK * (1 + abs(other))
    return float(near.sum() / math.prod(one.shape))


def _like(obj: Any, way: Way, forward: Way, point: tuple[Any, Any]) -> Way:
    """A way back that is given what forward is given; as it is, where it refuses a value and a running log-det in one
    argument, and takes a value alone.
    """
    latent, context = point
    alike = way.like(forward)
    if alike is way or not alike.running or way.running:
        return alike
    try:
        alike.ask(obj, latent, context, asking.running_numbers(latent, False))
    except Exception as error:
        try:
            way.ask(obj, latent, context)
        except Exception:  # it is broken, in the form that takes a tuple for one
            return way if "tuple" in str(error) else alike
        return way
    return alike


def _narrow(error: Exception, latent: Any) -> bool:
    """Whether a way back raises because it computes in single precision, whatever it is given: the
    object is judged in that.
    """
    return "float64" in str(latent.dtype) and MISMATCH.search(str(error)) is not None


def _option(way: Way) -> str:
    if way.given:
        name, value = way.given[0]
        return f"?inverse={name}:{str(value).lower() if value is True else value}"
    return f"?inverse={way.method}"


def _same(one: Any, other: Any) -> bool:
    return one.shape == other.shape and bool(
        ((one == other) | ((one != one) & (other != other))).all()
    )


def _as_it_is(obj: Any, way: Way, spoken: Spoken) -> Any:
    """An inverse that raises here, for the laws to report."""
    if spoken.parts:
        ask = way.on_parts(spoken.parts)
        return partial(asking.mapped, ask=ask, value=answers.whole, ladj=answers.none)
    if way.form != "plain":
        return way.speak()
    if not way.usual:
        return partial(asking.mapped, ask=way.ask, value=answers.whole, ladj=answers.none)
    if told := usual_log_det(obj):
        return told.back(way.ask, answers.whole)
    return way.speak(answers.first_of, answers.second_of)


def _back_beside(obj: Any, way: Way, told: Told, latent: Any, context: Any) -> Spoken:
    """A way back that returns its value alone, of an object that tells its log-det beside the map."""
    name = asked_name(obj, way)
    if told.arity or told_beside(obj, way.ask, latent, context, name, (0,)):
        return Spoken(told.back(way.ask, answers.whole))
    return Spoken(way.speak(answers.whole, answers.none), (BACK_ALONE,))


def _back(
    obj: Any, way: Way, forward: Spoken, point: tuple[Any, Any, Any], chosen: Chosen
) -> Spoken | None:
    """One way back, called once on a latent; None where it is nothing of the kind. ``forward``: how
    the map was read.
    """
    x, latent, context = point
    parts = forward.parts
    if parts:
        out = way.on_parts(parts)(obj, latent, context)
        reading = read(result_of(obj, way, out, x, "inverse"))
        function = partial(
            asking.mapped, ask=way.on_parts(parts), value=reading.value, ladj=reading.ladj
        )
        return Spoken(function)
    if way.form == "several":
        back = of_several(way, way.ask(obj, latent, context), x)
        if back is None:
            return Spoken(way.speak())
        alone = "no log-det" in back.words[0] and "no log-det" not in forward.words[0]
        return replace(back, words=(BACK_ALONE,) if alone else ())
    if way.running:
        spoken = _back_running(obj, way, point, chosen)
        if spoken is not None or not way.keyword:
            return spoken
        way = replace(way, form="plain", sign="", keyword="", usual=way.method == "inverse")
    if way.form == "wrapped":
        return Spoken(way.speak(answers.only_of))
    out = way.ask(obj, latent, context)
    result = result_of(obj, way, out, x, "inverse", chosen)
    if packed := columns(result):
        return Spoken(way.speak(packed.value, packed.ladj))
    if is_array(out) and (name := chosen.get(OF_INVERSE, "")):
        told = told_by_option(obj, OF_INVERSE, name, way.ask, latent, context)
        said = f"log-det of {asked_name(obj, way)}: {name}"
        return Spoken(told.onward(way.ask, answers.whole), (said,))
    if is_array(out) and forward.beside is not None:
        return _back_beside(obj, way, forward.beside, latent, context)
    if way.usual and is_array(out) and (usual := usual_log_det(obj)):
        return Spoken(usual.back(way.ask, answers.whole))
    if is_array(out) and way.form == "plain" and LOG_DET not in chosen:
        name = asked_name(obj, way)
        if own := told_beside(obj, way.ask, latent, context, name, (1,)):
            return _of_its_input(obj, own, way, latent, context)
    if alike := stated(result):
        return Spoken(way.speak(alike.value, alike.ladj))
    first = number_first(result)
    if way.usual and not first and (is_array(out) or (isinstance(out, tuple) and is_array(out[0]))):
        words = () if isinstance(out, tuple) and out[1:2] != (None,) else (BACK_ALONE,)
        return Spoken(way.speak(answers.first_of, answers.second_of), words)
    reading = read(result_of(obj, way, out, x, "inverse"))
    words = (BACK_ALONE,) if reading.ladj is answers.none else ()
    return Spoken(way.speak(reading.value, reading.ladj), words)


def _of_its_input(obj: Any, told: Told, way: Way, latent: Any, context: Any) -> Spoken:
    """A way back whose log-det a method of its own input tells. One that tells its negative may mean the map, or
    have the wrong sign: nobody knows, and it is not judged.
    """
    name, own = asked_name(obj, way), told.onward(way.ask, answers.whole)
    turned = partial(asking.negated, call=own)
    if agrees(obj, turned, latent, context) and not agrees(obj, own, latent, context):
        words = f"not judged: {told.name}(z) is minus the log-det of {name}: told of the map, or with the wrong sign"
        return Spoken(way.speak(answers.whole, answers.none), (words,))
    return Spoken(own, (f"log-det of {name}: {told.name}(z)",))


def _back_running(obj: Any, way: Way, point: tuple[Any, Any, Any], chosen: Chosen) -> Spoken | None:
    """One way back that is fed a running log-det."""
    x, latent, context = point
    for column in (False, True):
        before = asking.running_numbers(x, column)
        try:
            out = way.ask(obj, latent, context, before.clone())
        except NotImplementedError:
            raise
        except Exception:
            if column:
                raise
            continue
        if not isinstance(out, (tuple, list)):
            plain = replace(way, form="plain", sign="")
            reading = read(result_of(obj, way, out, x, "inverse"))
            return Spoken(plain.speak(reading.value, reading.ladj), (BACK_ALONE,))
        if tuple(getattr(out[1], "shape", ())) != tuple(before.shape):
            continue
        if way.keyword and not follows(way.ask(obj, latent, context, before + 1), out):
            return None
        given = chosen.get("inverse_ladj") == "given"
        unchanged = bool((out[1] == before).all())
        if unchanged and not given and _forward_changes(obj, way, point, before):
            return Spoken(replace(way, sign="none").speak(column=column), (BACK_ALONE,))
        return Spoken(way.speak(column=column))
    return None


def _forward_changes(obj: Any, way: Way, point: tuple[Any, Any, Any], before: Any) -> bool:
    """Whether the map itself changes the running log-det that its inverse hands back untouched."""
    forward = forward_way(obj, {})
    if forward is None or forward.form == "plain":
        return True
    x, _, context = point
    forward = replace(forward, form=way.form, sign=way.sign, around=way.around)
    out = forward.ask(obj, x, context, before.clone())
    return not bool((out[1] == before).all())


def _missing(obj: Any, forward: Way, hints: list[str]) -> Iterator[str]:
    """What to say where no inverse was found."""
    if signatures.attribute(obj, "inverse") is None and hasattr(obj, "inverse"):
        yield "no inverse: the attribute is None"
        return
    named = [
        name
        for name in LIKELY
        if name != forward.method
        and signatures.own(obj, name)
        and len(signatures.required(obj, name)) == 1
    ]
    mode, words = signatures.words(obj, asked_name(obj, forward))
    if named:
        yield f"no inverse found; it has {named[0]}(z): say ?inverse={named[0]}"
    elif mode and not words:
        yield f"no inverse found; forward takes {mode}: say ?inverse={mode}:WORD"
    elif hints:
        yield f"no inverse found; {'; '.join(hints)}"
    else:
        yield "no inverse found"
