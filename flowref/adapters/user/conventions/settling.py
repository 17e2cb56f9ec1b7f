"""What two calls of a copy show of how an object speaks: which way goes back, how values and
log-dets come back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from flowref.adapters.user import calls
from flowref.adapters.user.conventions import asking, signatures
from flowref.adapters.user.conventions.arrays import computes_in_arrays
from flowref.adapters.user.conventions.beside import Told, told_beside
from flowref.adapters.user.conventions.columns import packed
from flowref.adapters.user.conventions.directions import (
    Chosen,
    Way,
    forward_way,
    inverse_ways,
    running_words,
)
from flowref.adapters.user.conventions.encoding import ENCODE, refuse_autoencoder
from flowref.adapters.user.conventions.forms import reformed
from flowref.adapters.user.conventions.names import LIKELY
from flowref.adapters.user.conventions.priors import told_by_base
from flowref.adapters.user.conventions.readings import (
    Form,
    declared,
    form_of,
    is_tensor,
    read,
)
from flowref.adapters.user.conventions.signs import refuse_added
from flowref.adapters.user.conventions.simplex import DECLARED, onto_simplex, shortened
from flowref.model import Ambiguous, Dialect, Shape, TargetError, one_line

IN_ARRAYS = "calls on arrays of numpy"
BACK_ALONE = "inverse without log-det"
NO_LADJ = "no log-det was found: nothing about volume was checked"
# What is raised where numbers of two precisions meet.
MISMATCH = re.compile(
    r"same dtype|scalar type|double != float|float != double|Double.*Float|dtype mismatch|should be the same"
)


@dataclass(frozen=True)
class Settled:
    """How an object speaks.

    ``dialect``; ``latent``: what forward returned, None for a density; ``ladj_event`` and
    ``promises``: facts of its log-det; ``conventions``: what the target's line says; ``hints``:
    what to say where something was not found; ``broken``: what an ability raised, by its name.
    """

    dialect: Dialect
    latent: Any = None
    ladj_event: Shape = ()
    promises: dict[str, Any] = field(default_factory=dict)
    conventions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    broken: dict[str, str] = field(default_factory=dict)

    def saying(self, *words: str) -> Settled:
        """The same with more words on the target's line."""
        return replace(self, conventions=(*self.conventions, *words))


@dataclass(frozen=True)
class Spoken:
    """One call of an object as it is made and read: the function of the dialect, what its words
    are, how latents come as a list, and what tells its log-det beside it.
    """

    function: Any
    words: tuple[str, ...] = ()
    parts: tuple[Shape, ...] = ()
    log_prob: Any = None
    beside: Told | None = None


def settle_map(
    obj: Any, dialect: Dialect, x: Any, context: Any, chosen: Chosen, volume: bool = False
) -> Settled:
    """How forward and inverse of an object are called and read.

    ``volume``: whether it is said to preserve volume, so that no log-det means zero.
    """
    way = forward_way(obj, chosen)
    if way is None:
        raise TargetError("it has no forward")
    if way.form == "plain" and computes_in_arrays(obj, way.ask, x, context):
        way = replace(way, form="arrays", usual=False, words=way.words or IN_ARRAYS)
    way, spoken = _forward(obj, way, x, context, chosen, volume)
    latent, ladj = spoken.function(obj, x, context)
    if not is_tensor(latent):
        raise TargetError(f"forward returned a {type(latent).__name__}; expected an array")
    if way.method == ENCODE and "forward" not in chosen:
        refuse_autoencoder(obj, x, latent, ladj)
    words = [*filter(None, [way.words]), *spoken.words]
    dialect = replace(dialect, forward=spoken.function, inverse=None)
    if spoken.log_prob is not None and dialect.log_prob is None:
        dialect = replace(dialect, log_prob=spoken.log_prob)
    back: Any = None
    hints: list[str] = []
    shorter = onto_simplex(x, latent, DECLARED in chosen)
    if shorter or math.prod(latent.shape) == math.prod(x.shape):
        back, more, hints = _inverse(obj, way, spoken, (x, latent, context), chosen)
        words += more
        dialect = replace(dialect, inverse=back)
    if way.sign == "subtract" and "running" not in chosen and back is not None:
        refuse_added(obj, dialect, way, x, latent, context)
    if shorter:
        dialect, said = shortened(obj, dialect, x, context)
        latent, back = latent[..., :-1], dialect.inverse
        words.append(said)
    settled = Settled(dialect, latent)
    if ladj is None and (back is None or back(obj, latent, context)[1] is None):
        words = [word for word in words if word != BACK_ALONE]
        return replace(settled, conventions=(*dict.fromkeys(words), NO_LADJ), hints=tuple(hints))
    dialect, said = reformed(obj, dialect, (x, latent, context), chosen)
    settled = replace(settled, dialect=dialect)
    form = _form(obj, settled, x, context)
    words += [one for one in (said, form.words) if one]
    return replace(
        settled,
        ladj_event=form.event,
        promises={"scalar-ladj": True} if form.constant else {},
        conventions=tuple(dict.fromkeys(words)),
        hints=tuple(hints),
    )


def _entries(x: Any) -> int:
    return math.prod(x.shape[1:])


def _forward(
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
        other = _triple(obj, way, x, context) or _several(obj, way, x)
        other = other or _halves(obj, way, (x, context), chosen, volume)
        if other is None:
            raise
        return other
    return way, _read(obj, way, out, (x, context), chosen, volume)


def _read(
    obj: Any, way: Way, out: Any, point: tuple[Any, Any], chosen: Chosen, volume: bool
) -> Spoken:
    """The forward call as what it returned is read."""
    x, context = point
    if "columns" in chosen:
        reading = packed(out, len(x), _entries(x), chosen["columns"], "forward")
        return Spoken(way.speak(reading.value, reading.ladj), reading.words)
    told = "" if "returns" in chosen else told_by_base(obj, out, len(x), _entries(x))
    if told:
        choice = {**chosen, "returns": told}
        reading = declared(out, len(x), _entries(x), choice, "as its base tells")
    else:
        reading = read(out, len(x), _entries(x), chosen, "forward")
    alone = reading.ladj is asking.none
    if alone and is_tensor(out) and not hasattr(obj, "log_abs_det_jacobian"):
        beside = told_beside(obj, way.ask, x, context)
        if beside is not None:
            function = beside.onward(way.ask, reading.value)
            return Spoken(function, (beside.words,), beside=beside)
    if alone and volume and not hasattr(obj, "log_abs_det_jacobian"):
        return Spoken(
            partial(asking.zeros, ask=way.ask, value=reading.value), reading.words, reading.parts
        )
    if way.usual and reading.usual:
        if hasattr(obj, "log_abs_det_jacobian") and is_tensor(out):
            one = len(signatures.required(obj, "log_abs_det_jacobian")) == 1
            return Spoken(calls.forward_single_of_input if one else calls.forward_single)
        return Spoken(calls.forward_single if alone else calls.forward_pair)
    dense = None
    if reading.log_prob:
        dense = partial(asking.log_prob_by, ask=way.ask, entries=reading.log_prob)
    return Spoken(way.speak(reading.value, reading.ladj), reading.words, reading.parts, dense)


def _running(obj: Any, way: Way, x: Any, context: Any) -> Spoken | None:
    """A call that is fed a running log-det; None where it gives none back."""
    for column in (False, True):
        before = asking.running_numbers(x, column)
        given = before.clone()
        try:
            out = way.ask(obj, x, context, given)
        except Exception:
            if column and not way.keyword:
                raise
            continue
        if not isinstance(out, (tuple, list)) or len(out) < 2 or not is_tensor(out[1]):
            return None
        if tuple(out[1].shape) != tuple(before.shape):
            continue
        if way.keyword and not _follows(way.ask(obj, x, context, before + 1), out):
            return None
        written = "" if bool((given == before).all()) else ", written to the tensor that came in"
        return Spoken(way.speak(column=column), (running_words(obj, way) + written,))
    return None


def _follows(later: Any, out: Any) -> bool:
    """Whether the log-det is larger by one where the running one is."""
    moved = later[1] - out[1] - 1
    return bool((moved.abs() < 1e-4).all())


def _halves(
    obj: Any, way: Way, point: tuple[Any, Any], chosen: Chosen, volume: bool
) -> tuple[Way, Spoken] | None:
    """A call that takes a tuple of two halves of a point, and returns one; None where it does not."""
    if way.halves or len(point[0].shape) < 2 or point[0].shape[1] < 2:
        return None
    words = "; ".join(filter(None, (way.words, "a tuple of two halves in, and out")))
    try:
        way, spoken = _forward(
            obj, replace(way, halves=True, usual=False, words=words), *point, chosen, volume
        )
        fits = way.halves and spoken.function(obj, *point)[0].shape == point[0].shape
    except Exception:  # the call as it is usual is told
        return None
    return (way, spoken) if fits else None


def _triple(obj: Any, way: Way, x: Any, context: Any) -> tuple[Way, Spoken] | None:
    """A call that takes and returns a triple; None where it does not."""
    if len(signatures.required(obj, way.method or _named(obj))) != 1:
        return None
    way = replace(way, form="triple", sign="add", usual=False)
    try:
        out = way.ask(obj, x, context, asking.running_numbers(x, False))
    except Exception:
        return None
    if not isinstance(out, (tuple, list)) or len(out) != 3 or not is_tensor(out[1]):
        return None
    return way, Spoken(way.speak(), (running_words(obj, way),))


def _several(obj: Any, way: Way, x: Any) -> tuple[Way, Spoken] | None:
    """A call that takes several tensors, and returns as many and maybe a log-det; None where it does
    not.
    """
    method = way.method or _named(obj)
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
            spoken = _of_several(several, several.ask(obj, x, None), x)
        except Exception:
            continue
        if spoken is not None and (alike or "no log-det" not in spoken.words[0]):
            return several, spoken
    return None


def _of_several(way: Way, out: Any, x: Any) -> Spoken | None:
    """A call that gave as many tensors as it took, which make up a point, with a log-det after them
    or without one; None where it did not.
    """
    count = len(way.sizes)
    if not isinstance(out, (tuple, list)) or not all(map(is_tensor, out)):
        return None
    if len(out) == count + 1:
        return Spoken(way.speak(), (f"{count} tensors in, {count} out; log-det last",))
    if len(out) != count or sum(math.prod(one.shape) for one in out) != math.prod(x.shape):
        return None
    words = f"{count} tensors in, {count} out, no log-det"
    return Spoken(way.speak(asking.joined, asking.none), (words,))


def _wrapped(obj: Any, way: Way, x: Any, context: Any) -> tuple[Way, Spoken] | None:
    """A call that takes a tuple of one tensor and returns one, with the log-det beside it; None where
    its signature does not say so, or it does not.
    """
    named = {one.name for one in signatures.parameters(obj, way.method or _named(obj))}
    if not {"rev", "jac"} <= named:
        return None
    way = replace(way, form="wrapped", usual=False)
    try:
        out = way.ask(obj, x, context)
    except Exception:
        return None
    if not isinstance(out, tuple) or len(out) != 2 or not isinstance(out[0], (tuple, list)):
        return None
    return way, Spoken(way.speak(asking.only_of), ("a tuple of one tensor in, and out",))


def _named(obj: Any) -> str:
    return "forward" if hasattr(obj, "forward") else ""


def _inverse(
    obj: Any, forward: Way, spoken: Spoken, point: tuple[Any, Any, Any], chosen: Chosen
) -> tuple[Any, list[str], list[str]]:
    """The function that goes back, or None; what the line says of it; and hints."""
    found: list[tuple[Way, Spoken, Any]] = []
    hints: list[str] = []
    ways = inverse_ways(obj, forward, chosen)
    for way in ways:
        if forward.form == "triple" and way.form == "plain":
            way = replace(way, form="triple", sign="add", usual=False)
        if forward.form == "arrays" and way.form == "plain":
            way = replace(way, form="arrays", usual=False)
        if forward.form == "wrapped" and way.form == "plain":
            way = replace(way, form="wrapped", usual=False)
        if forward.halves and way.form in ("plain", "running"):
            way = replace(way, halves=True, usual=False)
        if forward.form == "several":
            way = replace(way, form="several", sizes=forward.sizes, usual=False)
        try:
            back = _back(obj, way, spoken, point, chosen)
            value = None if back is None else back.function(obj, *point[1:])[0]
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
    if not found:
        return None, [], [*_missing(obj, forward, hints)]
    if len(found) > 1:  # a parameter that the code takes and forgets turns nothing around
        onward = spoken.function(obj, *point[1:])[0]
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
        return partial(asking.mapped, ask=ask, value=asking.whole, ladj=asking.none)
    if way.form != "plain":
        return way.speak()
    if not way.usual:
        return partial(asking.mapped, ask=way.ask, value=asking.whole, ladj=asking.none)
    single = spoken.function in (calls.forward_single, calls.forward_single_of_input)
    return calls.inverse_single if single else calls.inverse_pair


def _back_beside(obj: Any, way: Way, told: Told, latent: Any, context: Any) -> Spoken:
    """A way back that returns its value alone, of an object that tells its log-det beside the map."""
    if told.arity or told_beside(obj, way.ask, latent, context, back=True):
        return Spoken(told.back(way.ask, asking.whole))
    return Spoken(way.speak(asking.whole, asking.none), (BACK_ALONE,))


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
        reading = read(out, len(x), _entries(x), {}, "inverse")
        function = partial(
            asking.mapped, ask=way.on_parts(parts), value=reading.value, ladj=reading.ladj
        )
        return Spoken(function)
    if way.form == "several":
        back = _of_several(way, way.ask(obj, latent, context), x)
        if back is None:
            return Spoken(way.speak())
        alone = "no log-det" in back.words[0] and "no log-det" not in forward.words[0]
        return replace(back, words=(BACK_ALONE,) if alone else ())
    if way.form in ("running", "triple"):
        spoken = _back_running(obj, way, point, chosen)
        if spoken is not None or not way.keyword:
            return spoken
        way = replace(way, form="plain", sign="", keyword="", usual=way.method == "inverse")
    if way.form == "wrapped":
        return Spoken(way.speak(asking.only_of))
    out = way.ask(obj, latent, context)
    if "columns" in chosen and is_tensor(out) and tuple(out.shape) != tuple(x.shape):
        reading = packed(out, len(x), _entries(x), chosen["columns"], "inverse")
        return Spoken(way.speak(reading.value, reading.ladj))
    if is_tensor(out) and forward.beside is not None:
        return _back_beside(obj, way, forward.beside, latent, context)
    if way.usual and hasattr(obj, "log_abs_det_jacobian") and is_tensor(out):
        one = len(signatures.required(obj, "log_abs_det_jacobian")) == 1
        return Spoken(calls.inverse_single_of_input if one else calls.inverse_single)
    if way.usual and (is_tensor(out) or (isinstance(out, tuple) and is_tensor(out[0]))):
        words = () if isinstance(out, tuple) and out[1:2] != (None,) else (BACK_ALONE,)
        return Spoken(calls.inverse_pair, words)
    reading = read(out, len(x), _entries(x), {}, "inverse")
    words = (BACK_ALONE,) if reading.ladj is asking.none else ()
    if way.usual and reading.usual:
        return Spoken(calls.inverse_pair, words)
    return Spoken(way.speak(reading.value, reading.ladj), words)


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
            reading = read(out, len(x), _entries(x), {}, "inverse")
            return Spoken(plain.speak(reading.value, reading.ladj), (BACK_ALONE,))
        if tuple(getattr(out[1], "shape", ())) != tuple(before.shape):
            continue
        if way.keyword and not _follows(way.ask(obj, latent, context, before + 1), out):
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
    forward = replace(forward, form=way.form, sign=way.sign, halves=way.halves)
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
    mode, words = signatures.words(obj, forward.method or _named(obj))
    if named:
        yield f"no inverse found; it has {named[0]}(z): say ?inverse={named[0]}"
    elif mode and not words:
        yield f"no inverse found; forward takes {mode}: say ?inverse={mode}:WORD"
    elif hints:
        yield f"no inverse found; {'; '.join(hints)}"
    else:
        yield "no inverse found"


def _form(obj: Any, settled: Settled, x: Any, context: Any) -> Form:
    """The form of the log-dets of both directions, where they agree; the usual one, to which laws
    hold it, where they do not.
    """
    forms = [
        form
        for call, given in ((settled.dialect.forward, x), (settled.dialect.inverse, settled.latent))
        if call is not None and (form := _form_of_call(obj, call, given, context)) is not Form
    ]
    if not forms or None in forms or any(form != forms[0] for form in forms):
        return Form()
    return forms[0] or Form()


def _form_of_call(obj: Any, call: Any, given: Any, context: Any) -> Any:
    """The form of one call's log-det; the class itself where it returns none."""
    fewer = None if context is None else context[1:]
    try:
        ladjs = call(obj, given, context)[1], call(obj, given[1:], fewer)[1]
    except Exception:  # which error is the laws' affair
        return Form
    if ladjs[0] is None:
        return Form
    return form_of(ladjs, (len(given), len(given) - 1), tuple(given.shape[1:]))
