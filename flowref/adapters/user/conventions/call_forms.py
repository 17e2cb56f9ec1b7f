"""How an object is called: which method, which fixed keywords, and in what form it gets points. `ARGUMENTS`
is the table of arguments; results are in `returns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import method_calls, return_forms, signatures
from flowref.adapters.user.conventions.arrays import through_arrays
from flowref.adapters.user.conventions.names import BESIDE, sign_of
from flowref.model import Shape, SpecError

Chosen = Mapping[str, str]
# Internal keys of choices: the parameter that gets ones, with their kind; and the padding mask.
GIVEN_ONES, MASKED_OUT = "given ones", "masked out"
# Containers of value and running log-det.
GATHERED = {"triple": "triple", "couple": "pair", "state": "dictionary"}
# The option for points as columns.
BATCH_AXIS = "batch_axis"


@dataclass(frozen=True)
class Mask:
    """An argument that masks padding: its name, its axes among those of a batch (None for an axis of length
    one), and whether it is boolean.
    """

    name: str
    axes: tuple[int | None, ...]
    true: bool

    @property
    def axis(self) -> int:
        """The axis of positions."""
        return max(axis for axis in self.axes if axis is not None)

    def call(self, method: str, given: tuple[tuple[str, Any], ...] = (), context: str = "") -> Any:
        """A call under the mask. ``context``: the name of a context parameter."""
        call = partial(
            method_calls.called_masking,
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
        """Parse its text form."""
        name, _, form = text.partition("=")
        words = form.split()
        axes = tuple(None if word == "1" else int(word[1:]) for word in words if word != "true")
        return cls(name, axes, "true" in words)


# Shapes of masks of sequences (B, C, T) or (B, T, C): (B, T), (B, 1, T), (B, T, 1).
MASK_AXES: tuple[tuple[int | None, ...], ...] = ((0, 2), (0, 1), (0, None, 2), (0, 1, None))


@dataclass(frozen=True)
class CallForm:
    """One form of the call of an object.

    ``method``: its name, empty for the object itself; ``given``: fixed keywords;
    ``form``: of its arguments, a key of `ARGUMENTS`;
    ``sign``: its operation on a running log-det, "" without one;
    ``words``: a remark for the target's line, empty for usual calls; ``usual``: forward and inverse by
        these names;
    ``sizes``: features of several arrays; ``shapes``: of a list of latents; ``keys``: of a dictionary;
    ``latents``: keys of a returned dictionary, with the features of each;
    ``bound``: parameters that get ones, with their kind; ``nothing``: parameters after a running log-det
        that get None;
    ``keyword``: the parameter of the running log-det, if not second; ``context``: a context parameter
        passed by name;
    ``mask``: the padding mask;
    ``around``: wrappers from `method_calls` for input and output, innermost first.
    """

    method: str
    given: tuple[tuple[str, Any], ...] = ()
    form: str = "plain"
    sign: str = ""
    words: str = ""
    usual: bool = False
    sizes: tuple[int, ...] = ()
    shapes: tuple[Shape, ...] = ()
    keys: tuple[str, ...] = ()
    latents: tuple[tuple[str, int], ...] = ()
    bound: tuple[tuple[str, str], ...] = ()
    nothing: tuple[str, ...] = ()
    keyword: str = ""
    context: str = ""
    mask: Mask | None = None
    around: tuple[Any, ...] = ()

    @property
    def running(self) -> bool:
        """Whether it takes a running log-det."""
        return ARGUMENTS[self.form].returned > 0

    @property
    def ask(self) -> Any:
        """The call as a function of object, input and context (and running log-det, if it takes one)."""
        call = ARGUMENTS[self.form].call(self)
        for change in self.around:
            call = partial(change, ask=call)
        return call

    def dialect_function(self, value: Any = None, ladj: Any = None, column: bool = False) -> Any:
        """The function of a dialect; by default the result is a pair of value and log-det."""
        if self.running:
            return partial(
                method_calls.call_running_log_det, ask=self.ask, sign=self.sign, column=column
            )
        several = self.form == "several"
        value = value or (return_forms.several if several else partial(return_forms.entry, index=0))
        ladj = ladj or partial(return_forms.entry, index=-1 if several else 1)
        return partial(method_calls.call_with_log_det, ask=self.ask, value=value, ladj=ladj)

    def keeping(self, name: str, value: Any, words: str) -> CallForm:
        """The way with a fixed keyword added or replaced."""
        given = tuple((dict(self.given) | {name: value}).items())
        return replace(self, given=given, usual=False, words=words)

    def like(self, forward: CallForm) -> CallForm:
        """The inverse with the argument form of ``forward``, if that form applies to both directions."""
        if self.form == "plain" and forward.latents:
            keys, sizes = zip(*forward.latents, strict=True)
            return replace(
                self, form=forward.form, keys=keys, sizes=sizes, around=forward.around, usual=False
            )
        if self.form == "plain" and ARGUMENTS[forward.form].both:
            return replace(
                self,
                form=forward.form,
                sign=forward.sign,
                sizes=forward.sizes,
                keys=forward.keys,
                usual=False,
            )
        for change in (method_calls.call_with_halves, method_calls.call_with_columns):
            missing = change in forward.around and change not in self.around
            if missing and self.form in ("plain", "running"):
                return replace(self, around=(change, *self.around), usual=False)
        if through_arrays in forward.around:
            return self.on_arrays()
        return self

    def on_arrays(self) -> CallForm:
        """The way with numpy arrays."""
        if self.form == "plain":
            return replace(self, form="arrays", usual=False)
        return replace(self, around=(*self.around, through_arrays), usual=False)

    def turned(self) -> CallForm:
        """The way with points as columns."""
        return replace(self, around=(*self.around, method_calls.call_with_columns), usual=False)


def _plain_call(way: CallForm) -> Any:
    if way.mask:
        call = way.mask.call(way.method, way.given, way.context)
        return partial(method_calls.padded, ask=call, axis=way.mask.axis)
    if way.bound or way.context:
        return _with_method(method_calls.called_with)(way, bound=way.bound, keyword=way.context)
    return _with_method(method_calls.call_method)(way)


def _running_log_det_call(way: CallForm) -> Any:
    settings = {"nothing": way.nothing, "keyword": way.keyword, "named": way.context}
    return _with_method(method_calls.called_running)(
        way, **{key: one for key, one in settings.items() if one}
    )


def _with_method(function: Any) -> Any:
    """A function of `method_calls` with the method and its fixed keywords bound."""

    def call(way: CallForm, **settings: Any) -> Any:
        return partial(function, **settings, method=way.method, given=way.given)

    return call


def _in_arrays(way: CallForm) -> Any:
    return partial(through_arrays, ask=_with_method(method_calls.call_method)(way))


def _with_log_det(way: CallForm) -> Any:
    return partial(method_calls.called_with_log_det, method=way.method, log_det=BESIDE[way.method])


@dataclass(frozen=True)
class Arguments:
    """A row: one form of arguments.

    ``example``: the call as code, empty if a row of `roles` shows it;
    ``call``: a function of object, input and context;
    ``suits``: ways to make such a call, from the signature of a map and the available arguments;
    ``sure``: whether they precede all other forms;
    ``returned``: number of returned things with a running log-det, which is second; 0 without one;
    ``column``: whether the running log-det may be a column;
    ``both``: whether the inverse takes the same form.
    """

    words: str
    example: str
    call: Callable[[CallForm], Any]
    suits: Callable[[Any, CallForm, Any, Any], Iterable[CallForm]] = lambda obj, way, x, context: ()
    sure: bool = False
    returned: int = 0
    column: bool = True
    both: bool = False


def _takes_one(obj: Any, way: CallForm) -> bool:
    return len(signatures.required(obj, asked_name(obj, way))) == 1


def _as_triple(obj: Any, way: CallForm, x: Any, context: Any) -> Iterator[CallForm]:
    if _takes_one(obj, way):
        yield replace(way, form="triple", sign="add", usual=False)


def _as_couple(obj: Any, way: CallForm, x: Any, context: Any) -> Iterator[CallForm]:
    if context is None and _takes_one(obj, way):
        yield replace(way, form="couple", sign="add", usual=False)


def _as_state(obj: Any, way: CallForm, x: Any, context: Any) -> Iterator[CallForm]:
    keys = signatures.keys(obj, asked_name(obj, way))
    if context is None and keys:
        yield replace(way, form="state", sign=sign_of(keys[1]), keys=keys, usual=False)


def _as_several(obj: Any, way: CallForm, x: Any, context: Any) -> Iterator[CallForm]:
    method, size = asked_name(obj, way), x.shape[-1]
    alike = signatures.point_part_count(obj, method)
    many = any(one.kind is one.VAR_POSITIONAL for one in signatures.method_parameters(obj, method))
    for count in (alike,) if alike else (2, 3) if many else ():
        if size >= count:
            sizes = (size // count,) * (count - 1)
            sizes = (*sizes, size - sum(sizes))
            yield replace(way, form="several", sizes=sizes, usual=False)


def _as_named(obj: Any, way: CallForm, x: Any, context: Any) -> Iterator[CallForm]:
    found = signatures.point_names(obj, asked_name(obj, way))
    if way.form not in ("plain", "arrays") or not found or len(x.shape) != 2:
        return
    entries, count = x.shape[1], len(found)
    sizes = tuple(found.values())
    if sum(size or 1 for size in sizes) != entries:
        shared = count == 1 or signatures.stated_point_names(obj)
        if any(sizes) or entries % count or not shared:
            return
        sizes = (entries // count,) * count
    named = replace(way, form="named", keys=tuple(found), sizes=sizes, around=(), usual=False)
    arrays = replace(named, around=(through_arrays,))
    if signatures.keyword_names(obj, asked_name(obj, way)):
        yield from (replace(one, form="keywords") for one in (named, arrays))
    else:
        yield from (named, arrays, replace(arrays, form="structured"))


def _named_call(way: CallForm) -> Any:
    run = _with_method(method_calls.called_on_named)
    return run(way, names=way.keys, sizes=way.sizes, form=way.form)


def _as_wrapped(obj: Any, way: CallForm, x: Any, context: Any) -> Iterator[CallForm]:
    named = {one.name for one in signatures.method_parameters(obj, asked_name(obj, way))}
    if way.form == "plain" and {"rev", "jac"} <= named:
        yield replace(way, form="wrapped", usual=False)


ARGUMENTS: dict[str, Arguments] = {
    "plain": Arguments("points, and a context", "forward(x), forward(x, context)", _plain_call),
    "running": Arguments(
        "points and a running log-det", "forward(x, logdet), forward(x, logdet=None)", _running_log_det_call, returned=2
    ),
    "triple": Arguments(
        "value, running log-det and context in one", "x, logdet, context = inputs", _with_method(method_calls.called_triple),
        _as_triple, returned=3, both=True,
    ),
    "couple": Arguments(
        "value and running log-det in one", "x, logdet = inputs", _with_method(method_calls.called_couple),
        _as_couple, returned=2, column=False, both=True,
    ),
    "state": Arguments(
        "value and running log-det in one dictionary", 'state["x"], state["logdet"]',
        lambda way: _with_method(method_calls.called_state)(way, keys=way.keys), _as_state, returned=2, both=True,
    ),
    "wrapped": Arguments(
        "a tuple of one array, and contexts in a list", "forward((x,), [context], rev=False, jac=True)",
        _with_method(method_calls.called_on_tuple), _as_wrapped, sure=True, both=True,
    ),
    "several": Arguments(
        "parts of a point as several arrays", "forward(x1, x2), forward(*parts)",
        lambda way: _with_method(method_calls.called_on_several)(way, sizes=way.sizes), _as_several, both=True,
    ),
    "named": Arguments(
        "parts of a point as named arrays", 'parts["mass"], parts["spin"]', _named_call, _as_named, both=True
    ),
    "structured": Arguments(
        "parts of a point as a structured array of numpy", 'points["mass"], points["spin"]', _named_call, both=True
    ),
    "keywords": Arguments(
        "parts of a point by keyword", "forward(mass=m, spin=s)", _named_call, both=True
    ),
    "levels": Arguments(
        "latents as a list", "", lambda way: _with_method(method_calls.called_on_parts)(way, shapes=way.shapes)
    ),
    "pair": Arguments(
        "points, of one of two functions", "",
        lambda way: partial(method_calls.called_at, index=int(way.method)),
    ),
    "array": Arguments(
        "arrays of numpy, of an estimator", "",
        lambda way: partial(method_calls.called_on_array, method=way.method),
    ),
    "arrays": Arguments("arrays of numpy", "forward(x.numpy())", _in_arrays, both=True),
    "object": Arguments(
        "points, of another object that is the inverse", "",
        lambda way: partial(method_calls.called_on_inverse, attribute=way.method),
    ),
    "beside": Arguments("points, of two methods", "", _with_log_det),
}  # fmt: skip


def called_name(obj: Any, method: str) -> str:
    """The name used in a call; empty for forward, which is called through the object so that hooks run."""
    return "" if method == "forward" and callable(obj) else method


def asked_name(obj: Any, way: CallForm) -> str:
    """The method whose signature applies; empty for a function."""
    return way.method or ("forward" if hasattr(obj, "forward") else "")


def running_said(chosen: Chosen) -> str:
    """The user's choice for a running log-det; empty if not given. Raises `SpecError`."""
    said = chosen.get("running", "")
    if said not in ("add", "subtract", ""):
        raise SpecError(f"running was given as {said!r}; expected add or subtract")
    return said


def with_running(obj: Any, way: CallForm, method: str, chosen: Chosen) -> CallForm:
    """A way with a running log-det, if its second parameter is one, and with the flag that requests the
    log-det, if there is one.
    """
    named = method if method and hasattr(obj, method) else ""
    if asks := signatures.switch(obj, named):
        way = way.keeping(asks, True, "; ".join(filter(None, (way.words, f"log-det: {asks}=True"))))
    if signatures.point_part_count(obj, named) and "running" not in chosen:
        return way
    name = signatures.second(obj, named)
    sign = (running_said(chosen) if name else "") or sign_of(name)
    if not sign:
        later = [one for one in signatures.later(obj, named) if sign_of(one)]
        later = later or ([name] if signatures.from_zero(obj, named) else [])
        if len(later) != 1:
            return way
        sign = sign_of(later[0]) or "add"  # a sum that starts at zero is returned unnegated
        return replace(way, form="running", sign=sign, usual=False, keyword=later[0])
    more = signatures.required(obj, named)[2:]
    nothing = tuple(more) if len(more) == 1 else ()
    return replace(way, form="running", sign=sign, usual=False, nothing=nothing)


def with_more(obj: Any, way: CallForm, chosen: Chosen) -> CallForm:
    """A way with its further arguments: a parameter found to need ones, a context passed by name, the
    padding mask, and the axis of points.
    """
    method = asked_name(obj, way)
    takes = {one.name for one in signatures.method_parameters(obj, method)}
    if way.form == "plain" and (context := signatures.by_keyword(obj, method)):
        words = way.words or f"context: {context}="
        way = replace(way, context=context, usual=False, words=words)
    running = way.form == "running" and not way.keyword
    if way.form in ("plain", "running") and not way.context:
        context = signatures.keyword_context_parameter(obj, method, 2 if running else 1)
        way = replace(way, context=context, usual=way.usual and not context)
    if (
        chosen.get(BATCH_AXIS) == "last"
        and way.form == "plain"
        and method_calls.call_with_columns not in way.around
    ):
        way = way.turned()
    if (text := chosen.get(MASKED_OUT)) and (mask := Mask.parse(text)).name in takes:
        way = replace(way, mask=mask, usual=False)
    name, _, kind = chosen.get(GIVEN_ONES, "").partition("=")
    return replace(way, bound=((name, kind),), usual=False) if name and name in takes else way


def running_words(obj: Any, way: CallForm) -> str:
    """The remark on a running log-det."""
    done = {"add": "added", "subtract": "subtracted"}.get(way.sign, "")
    if way.form in GATHERED:
        return f"running log-det in a {GATHERED[way.form]}, {done}"
    without = "".join(f"; {name}: None" for name in way.nothing)
    name = way.keyword or signatures.second(obj, asked_name(obj, way))
    return f"running log-det, {done} ({name}){without}"
