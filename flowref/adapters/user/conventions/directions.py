"""Which calls of an object may be its map and which may go back, as far as signatures tell."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import answers, asking, signatures
from flowref.adapters.user.conventions.arrays import through_arrays
from flowref.adapters.user.conventions.encoding import DECODE, ENCODE, encodes
from flowref.adapters.user.conventions.names import (
    BESIDE,
    BOTH,
    METHODS,
    PAIRS,
    TRANSFORMS,
    sign_of,
)
from flowref.model import SpecError

Chosen = Mapping[str, str]
# Under this name a loaded object's choices hold the parameter that is given ones, and their kind.
GIVEN_ONES = "given ones"
# Under this name they hold how the padding of sequences is masked out.
MASKED_OUT = "masked out"
# Forms of one argument that holds the value and the running log-det.
GATHERED = ("triple", "couple")
# The option that says that points are columns.
BATCH_AXIS = "batch_axis"


@dataclass(frozen=True)
class Mask:
    """An argument that masks out the padding of sequences: its name, the axes of a batch that it has (None for
    one of length one), and whether it is of truth values.
    """

    name: str
    axes: tuple[int | None, ...]
    true: bool

    @property
    def axis(self) -> int:
        """The axis of positions."""
        return max(axis for axis in self.axes if axis is not None)

    def call(self, method: str, given: tuple[tuple[str, Any], ...] = (), context: str = "") -> Any:
        """A call under the mask. ``context``: the name of one that may be given."""
        call = partial(
            asking.called_masking,
            method=method,
            given=given,
            keyword=self.name,
            axes=self.axes,
            true=self.true,
        )
        return partial(call, named=context) if context else call

    def __str__(self) -> str:
        axes = " ".join("1" if axis is None else f"x{axis}" for axis in self.axes)
        return f"{self.name}={axes}{' true' if self.true else ''}"

    @classmethod
    def parse(cls, text: str) -> Mask:
        """From its text."""
        name, _, form = text.partition("=")
        words = form.split()
        axes = tuple(None if word == "1" else int(word[1:]) for word in words if word != "true")
        return cls(name, axes, "true" in words)


# Shapes of masks of sequences (B, C, T) or (B, T, C): (B, T), (B, 1, T), (B, T, 1).
MASK_AXES: tuple[tuple[int | None, ...], ...] = ((0, 2), (0, 1), (0, None, 2), (0, 1, None))


@dataclass(frozen=True)
class Way:
    """One way of calling an object.

    ``method``: its name, empty for the object itself; ``given``: fixed keywords; ``sign``: what it
    does to a running log-det, "" where it takes none; ``form``: "plain", "running" (a second
    argument), "triple" or "couple" (a tuple of value and running log-det, with a context or without),
    "wrapped" (a tuple of one), "several" (tensors of the ``sizes``), "pair" (a function of two, by its
    place), "array" (of numpy), "arrays" (the same, of an object that computes in numpy), "object"
    (another object that is the inverse) or "beside" (the log-det by another method); ``words``: what the
    target's line says of it, empty for what needs no words; ``usual``: whether it is forward and
    inverse as everybody spells them; ``bound``: parameters that are given ones, and of which kind;
    ``nothing``: those after a running log-det that are given None; ``keyword``: the parameter for
    the running log-det, where it is not the second; ``context``: that for a context that is taken by
    its name; ``columns``: whether points are columns; ``halves``: whether they are a tuple of two;
    ``staged``: whether states at several times come back, stacked, of which the last is meant; ``mask``: how
    the padding of sequences is masked out.
    """

    method: str
    given: tuple[tuple[str, Any], ...] = ()
    form: str = "plain"
    sign: str = ""
    words: str = ""
    usual: bool = False
    sizes: tuple[int, ...] = ()
    bound: tuple[tuple[str, str], ...] = ()
    nothing: tuple[str, ...] = ()
    keyword: str = ""
    context: str = ""
    columns: bool = False
    halves: bool = False
    staged: bool = False
    mask: Mask | None = None

    @property
    def ask(self) -> Any:
        """The call, as a function of the object, the input and the context (and of the running
        log-det, where it takes one).
        """
        if self.staged:
            return partial(asking.ended, ask=replace(self, staged=False).ask)
        if self.columns:
            return partial(asking.turned, ask=replace(self, columns=False).ask)
        if self.halves:
            return partial(asking.halved, ask=replace(self, halves=False).ask)
        if self.mask and self.form == "plain":
            call = self.mask.call(self.method, self.given, self.context)
            return partial(asking.padded, ask=call, axis=self.mask.axis)
        if (self.bound or self.context) and self.form == "plain":
            return partial(
                asking.called_with,
                method=self.method,
                given=self.given,
                bound=self.bound,
                keyword=self.context,
            )
        match self.form:
            case "several":
                return partial(
                    asking.called_on_several, sizes=self.sizes, method=self.method, given=self.given
                )
            case "pair":
                return partial(asking.called_at, index=int(self.method))
            case "array":
                return partial(asking.called_on_array, method=self.method)
            case "arrays":
                plain = partial(asking.called, method=self.method, given=self.given)
                return partial(through_arrays, call=plain)
            case "object":
                return partial(asking.called_on_inverse, attribute=self.method)
            case "beside":
                beside = BESIDE[self.method]
                return partial(asking.called_with_log_det, method=self.method, log_det=beside)
        function: Any = {
            "plain": asking.called,
            "running": asking.called_running,
            "triple": asking.called_triple,
            "couple": asking.called_couple,
            "wrapped": asking.called_on_tuple,
        }[self.form]
        if self.nothing and self.form == "running":
            function = partial(function, nothing=self.nothing)
        if self.keyword and self.form == "running":
            function = partial(function, keyword=self.keyword)
        if self.context and self.form == "running":
            function = partial(function, named=self.context)
        return partial(function, method=self.method, given=self.given)

    def on_parts(self, shapes: Any) -> Any:
        """The call with the latents as a list."""
        return partial(asking.called_on_parts, shapes=shapes, method=self.method, given=self.given)

    def speak(self, value: Any = None, ladj: Any = None, column: bool = False) -> Any:
        """The function of a dialect: by default for a value and a log-det in this order."""
        if self.form == "several":
            value, ladj = value or answers.several, ladj or partial(answers.entry, index=-1)
            return partial(asking.mapped, ask=self.ask, value=value, ladj=ladj)
        if self.form in ("running", *GATHERED):
            run = {
                "add": asking.added,
                "subtract": asking.subtracted,
                "none": asking.running_dropped,
            }[self.sign]
            return partial(run, ask=self.ask, column=column)
        value = value or partial(answers.entry, index=0)
        ladj = ladj or partial(answers.entry, index=1)
        return partial(asking.mapped, ask=self.ask, value=value, ladj=ladj)


def _name(obj: Any, method: str) -> str:
    """How a method is called: forward by calling the object, so that hooks run."""
    return "" if method == "forward" and callable(obj) else method


def forward_way(obj: Any, chosen: Chosen) -> Way | None:
    """The call that is the map."""
    way = _forward_way(obj, chosen)
    if way is None:
        return None
    way = _bound(obj, way, chosen)
    said = "; ".join(filter(None, (way.words, "the batch axis is the last" * way.columns)))
    return replace(way, words=said)


def _bound(obj: Any, way: Way, chosen: Chosen) -> Way:
    """A way with the parameter that was settled to be given ones, and with a context that is taken by
    keyword alone, if it has those.
    """
    name, _, kind = chosen.get(GIVEN_ONES, "").partition("=")
    method = way.method or ("forward" if hasattr(obj, "forward") else "")
    if way.form == "plain" and (context := signatures.by_keyword(obj, method)):
        words = way.words or f"context: {context}="
        way = replace(way, context=context, usual=False, words=words)
    running = way.form == "running" and not way.keyword
    if way.form in ("plain", "running") and not way.context:
        context = signatures.apart(obj, method, 2 if running else 1)
        way = replace(way, context=context, usual=way.usual and not context)
    if chosen.get(BATCH_AXIS) == "last" and way.form == "plain":
        way = replace(way, columns=True, usual=False)
    if text := chosen.get(MASKED_OUT):
        mask = Mask.parse(text)
        if mask.name in {one.name for one in signatures.parameters(obj, method)}:
            way = replace(way, mask=mask, usual=False)
    if not name or name not in {one.name for one in signatures.parameters(obj, method)}:
        return way
    return replace(way, bound=((name, kind),), usual=False)


def _forward_way(obj: Any, chosen: Chosen) -> Way | None:
    if "forward" in chosen:
        method, colon, _ = chosen["forward"].partition(":")
        if colon:
            return _forward_with(obj, chosen)
        if not callable(signatures.attribute(obj, method)):
            raise SpecError(f"forward was given as {method!r}, which is no method of the object")
        usual = method == "forward"
        words = "" if usual else f"forward: {method}()"
        return _running(obj, Way(_name(obj, method), words=words, usual=usual), method, chosen)
    if _is_pair(obj):
        return Way("0", form="pair", words="a pair of functions: forward, inverse")
    if signatures.own(obj, BOTH):
        return Way(BOTH, words=f"forward: {BOTH}()")
    if signatures.own(obj, TRANSFORMS):
        way = Way(TRANSFORMS, words=f"forward: {TRANSFORMS}()")
        way = _running(obj, way, TRANSFORMS, chosen)
        if way.form == "running":
            return way
    if signatures.taken_by(obj) and signatures.own(obj, BESIDE["forward"]):
        return Way("forward", form="beside", words=f"log-det: {BESIDE['forward']}()")
    if signatures.taken_by(obj):
        way = Way(_name(obj, "forward"), usual=True)
        if turned := signatures.flag(obj, "forward", default=True):  # it goes back unless told
            words = f"forward: {turned}=False"
            way = replace(way, given=_with(way, turned, False), usual=False, words=words)
        return _running(obj, _in_time(obj, way), "forward", chosen)
    if inspect.isfunction(obj):
        return _running(obj, Way("", words="forward: the function"), "", chosen)
    if _pair_of_letters(obj):
        return Way("f", words="forward: f(), inverse: g()")
    for there, back in PAIRS:
        if signatures.own(obj, there) and signatures.own(obj, back):
            return Way(there, words=f"forward: {there}(), inverse: {back}()")
    if encodes(obj):
        return Way(ENCODE, words=f"forward: {ENCODE}(), inverse: {DECODE}()")
    if all(signatures.own(obj, name) for name in ("fit", "transform", "inverse_transform")):
        return Way("transform", form="array", words="transform() and inverse_transform() of arrays")
    return None


def _forward_with(obj: Any, chosen: Chosen) -> Way:
    """Forward with a keyword that a user gives, such as one that has it return the log-det."""
    name, _, word = chosen["forward"].partition(":")
    if name not in {one.name for one in signatures.parameters(obj, _plainly(obj))}:
        raise SpecError(
            f"forward was given as {chosen['forward']!r}, and {name!r} is no keyword of it; expected one, such "
            "as return_log_det:true, or the name of a method"
        )
    value = _value(word)
    way = Way(_name(obj, "forward"), given=((name, value),), words=f"forward: {name}={value!r}")
    return _running(obj, way, "forward", chosen)


def _plainly(obj: Any) -> str:
    """The method that is asked for its signature; empty of a function."""
    return "forward" if hasattr(obj, "forward") else ""


def _value(word: str) -> Any:
    """The value of a keyword as it is typed."""
    numbers = {"true": True, "false": False, "1": 1, "-1": -1, "0": 0}
    return numbers.get(word.casefold(), word)


def _in_time(obj: Any, way: Way) -> Way:
    """A way that follows a flow from one time to another, where it asks for these."""
    ends, span = signatures.ends(obj, "forward"), signatures.span(obj, "forward")
    asked = [name for name, _ in ends if name in signatures.required(obj, "forward")]
    if asked:
        words = f"forward: from {' to '.join(f'{name}={value:g}' for name, value in ends)}"
        return replace(way, given=(*way.given, *ends), usual=False, words=words)
    if span:
        return replace(way, bound=((span, "span"),), usual=False, words=f"forward: {span}=[0, 1]")
    return way


def _back_in_time(obj: Any, forward: Way) -> Way | None:
    """The way from the later time to the earlier, where forward takes both."""
    if forward.method or forward.form not in ("plain", "running"):
        return None
    if ends := signatures.ends(obj, "forward"):
        (first, start), (last, end) = ends
        given = dict(forward.given) | {first: end, last: start}
        words = f"inverse: from {first}={end:g} to {last}={start:g}"
        return replace(forward, given=tuple(given.items()), usual=False, words=words)
    spans = dict(forward.bound)
    if name := next((name for name, kind in forward.bound if kind == "span"), ""):
        turned = tuple((spans | {name: "span back"}).items())
        return replace(forward, bound=turned, words=f"inverse: {name}=[1, 0]")
    return None


def _is_pair(obj: Any) -> bool:
    """Whether an object is a pair of functions, or of methods of an object."""
    return isinstance(obj, tuple) and len(obj) == 2 and all(map(inspect.isroutine, obj))


def _pair_of_letters(obj: Any) -> bool:
    """Whether a class without forward defines f and g."""
    return all(signatures.own(obj, name) for name in ("f", "g")) and all(
        len(signatures.required(obj, name)) == 1 for name in ("f", "g")
    )


def inverse_ways(obj: Any, forward: Way | None, chosen: Chosen) -> list[Way]:
    """The calls that may go back. A method called inverse stands alone; so does what is chosen."""
    return [_bound(obj, way, chosen) for way in _inverse_ways(obj, forward, chosen)]


def _inverse_ways(obj: Any, forward: Way | None, chosen: Chosen) -> list[Way]:
    if "inverse" in chosen:
        way = _chosen_inverse(obj, forward, chosen)
        return [] if way is None else [way]
    if forward is not None and forward.form == "pair":
        return [Way("1", form="pair")]
    if forward is not None and forward.form == "array":
        return [Way("inverse_transform", form="array")]
    if forward is not None and forward.form == "beside" and signatures.own(obj, BESIDE["inverse"]):
        return [Way("inverse", form="beside")]
    inverse = signatures.attribute(obj, "inverse")
    asks = signatures.required(obj, "inverse") if callable(inverse) else ()
    timed = {name for name, _ in signatures.ends(obj, "inverse")} if asks else set()
    # Whether a way back wants its ends in the order of time nobody says.
    if callable(inverse) and not timed & set(asks):
        back = _back_by(obj, "inverse")
        back = back if back.given else Way("inverse", usual=True)
        return [_running(obj, back, "inverse", chosen)]
    if forward is None:
        return []
    if forward.method == BOTH:
        other = signatures.attribute(obj, "inv")
        given = other is not None and other is not obj and callable(other)
        return [Way("inv", form="object", words="inverse: inv")] if given else []
    if forward.method == ENCODE and encodes(obj):
        return [Way(DECODE)]
    if forward.method == "f" and not signatures.taken_by(obj):
        return [Way("g")]
    if forward.method in dict(PAIRS):
        return [Way(dict(PAIRS)[forward.method])]
    ways: list[Way] = []
    named = forward.method or "forward"
    named = named if hasattr(obj, named) else ""
    if turned := signatures.flag(obj, named) or signatures.flag(obj, named, default=True):
        words = f"inverse: {turned}=True"
        ways.append(replace(forward, given=_with(forward, turned, True), usual=False, words=words))
    mode, turning = signatures.words(obj, named)
    for word in turning:
        words = f"inverse: {mode}={word!r}"
        ways.append(replace(forward, given=_with(forward, mode, word), usual=False, words=words))
    ways += [
        _running(obj, _back_by(obj, method), method, chosen)
        for method in METHODS
        if signatures.own(obj, method)
        and (
            len(_asked(obj, method, chosen)) == 1
            or signatures.alike(obj, method)
            or _asked(obj, method, chosen)[1:] == _asked(obj, named, chosen)[1:]
        )
    ]
    if not ways and (timely := _back_in_time(obj, forward)) is not None:
        ways.append(timely)
    return ways


def _back_by(obj: Any, method: str) -> Way:
    """The way back by a method; of one that makes latents of noise first unless it is told to
    reconstruct, the latter, since what forward returned are latents.
    """
    if name := signatures.reconstructs(obj, method):
        return Way(method, given=((name, True),), words=f"inverse: {method}({name}=True)")
    return Way(method, words=f"inverse: {method}()")


def _with(way: Way, name: str, value: Any) -> tuple[tuple[str, Any], ...]:
    """The fixed keywords of a way, with one more or another value of one."""
    return tuple((dict(way.given) | {name: value}).items())


def _asked(obj: Any, method: str, chosen: Chosen) -> list[str]:
    """Required parameters of a method, less a running log-det, by its name or as it is said to take
    one, and what may follow it.
    """
    names = signatures.required(obj, method)
    runs = len(names) > 1 and bool("running" in chosen or sign_of(names[1]))
    if len(names) == 3 and runs:
        return names[:1]
    return [name for place, name in enumerate(names) if place != 1 or not runs]


def _chosen_inverse(obj: Any, forward: Way | None, chosen: Chosen) -> Way | None:
    text = chosen["inverse"]
    if text == "none":
        return None
    name, colon, word = text.partition(":")
    if not colon:
        if not callable(signatures.attribute(obj, name)):
            raise SpecError(
                f"inverse was given as {text!r}, which is no method of the object; expected one, "
                "a keyword of forward such as mode:inverse or reverse:true, or none"
            )
        return _running(obj, _back_by(obj, name), name, chosen)
    value = _value(word)
    if forward is None:
        raise SpecError(f"inverse was given as {text!r}, but there is no forward")
    words = f"inverse: {name}={value!r}"
    return replace(forward, given=_with(forward, name, value), usual=False, words=words)


def _running(obj: Any, way: Way, method: str, chosen: Chosen) -> Way:
    """A way with the running log-det that its second parameter is for, if it is, and with the switch
    that asks for the log-det, if there is one.
    """
    named = method if method and hasattr(obj, method) else ""
    if asks := signatures.switch(obj, named):
        words = "; ".join(filter(None, (way.words, f"log-det: {asks}=True")))
        way = replace(way, given=_with(way, asks, True), usual=False, words=words)
    if signatures.alike(obj, named) and "running" not in chosen:
        return way
    name = signatures.second(obj, named)
    sign = sign_of(name)
    if name and "running" in chosen:
        sign = chosen["running"]
        if sign not in ("add", "subtract"):
            raise SpecError(f"running was given as {sign!r}; expected add or subtract")
    if not sign:
        later = [one for one in signatures.later(obj, named) if sign_of(one)]
        later = later or ([name] if signatures.from_zero(obj, named) else [])
        if len(later) != 1:
            return way
        sign = sign_of(later[0]) or "add"  # what is counted from zero is returned as it is
        return replace(way, form="running", sign=sign, usual=False, keyword=later[0])
    more = signatures.required(obj, named)[2:]
    nothing = tuple(more) if len(more) == 1 else ()
    return replace(way, form="running", sign=sign, usual=False, nothing=nothing)


def running_words(obj: Any, way: Way) -> str:
    """What the line says of a running log-det."""
    done = {"add": "added", "subtract": "subtracted"}.get(way.sign, "")
    without = "".join(f"; {name}: None" for name in way.nothing)
    if way.form in GATHERED:
        return f"running log-det in a {'triple' if way.form == 'triple' else 'pair'}, added"
    named = way.method or ("forward" if hasattr(obj, "forward") else "")
    name = way.keyword or signatures.second(obj, named)
    return f"running log-det, {done} ({name}){without}"
