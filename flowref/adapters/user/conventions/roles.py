"""Map and inverse among an object's methods, by names and signatures. `ROLES` is the table: the first
matching row names the map, and the inverse if that has a name of its own; a method `inverse`, and
parameters that reverse the map, apply to all rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.call_forms import (
    CallForm,
    Chosen,
    asked_name,
    called_name,
    with_more,
    with_running,
)
from flowref.adapters.user.conventions.encoder_decoder import DECODE, ENCODE, encodes
from flowref.adapters.user.conventions.names import (
    BESIDE,
    BOTH,
    INVERSE_METHODS,
    PAIRS,
    TRANSFORMS,
    sign_of,
)
from flowref.model import SpecError

# Typed values of keywords.
TYPED = {"true": True, "false": False, "1": 1, "-1": -1, "0": 0}


@dataclass(frozen=True)
class Role:
    """A row: names of a map and its inverse.

    ``words``: for the documentation; ``example``: the methods as code; ``there``: returns the map, or None;
    ``back``: inverses that go with it if there is no method `inverse`; ``named``: for JAX, where classes
    wrap methods and fields are functions, the names of the map and its inverses, if the row applies there.
    """

    words: str
    example: str
    there: Callable[[Any, Chosen], CallForm | None]
    back: Callable[[Any], list[CallForm]] = lambda obj: []
    named: tuple[str, ...] = ()


def forward_call_form(obj: Any, chosen: Chosen) -> CallForm | None:
    """The call that is the map: named by the user, or by the first matching row; None if there is none."""
    if "forward" in chosen:
        way: CallForm | None = _chosen_forward(obj, chosen)
    else:
        way = next(filter(None, (role.there(obj, chosen) for role in ROLES)), None)
    if way is None:
        return None
    return with_more(obj, way, chosen)


def inverse_call_forms(obj: Any, forward: CallForm | None, chosen: Chosen) -> list[CallForm]:
    """Candidate inverses. A method `inverse` is the only candidate, as is the user's choice."""
    return [with_more(obj, way, chosen) for way in _candidate_inverses(obj, forward, chosen)]


def _chosen_forward(obj: Any, chosen: Chosen) -> CallForm:
    """The map as the user names it: a method, or a keyword of forward, such as one that makes it return the
    log-det.
    """
    name, colon, word = chosen["forward"].partition(":")
    if colon:
        if name not in {
            one.name for one in signatures.method_parameters(obj, asked_name(obj, CallForm("")))
        }:
            raise SpecError(
                f"forward was given as {chosen['forward']!r}, and {name!r} is no keyword of it; expected one, such "
                "as return_log_det:true, or the name of a method"
            )
        value = TYPED.get(word.casefold(), word)
        way = CallForm(called_name(obj, "forward")).keeping(
            name, value, f"forward: {name}={value!r}"
        )
        return with_running(obj, way, "forward", chosen)
    signatures.demand(obj, "forward", name)
    usual = name == "forward"
    way = CallForm(called_name(obj, name), words="" if usual else f"forward: {name}()", usual=usual)
    return with_running(obj, way, name, chosen)


def _chosen_inverse(obj: Any, forward: CallForm | None, chosen: Chosen) -> list[CallForm]:
    text = chosen["inverse"]
    if text == "none":
        return []
    name, colon, word = text.partition(":")
    if not colon:
        more = "; expected one, a keyword of forward such as mode:inverse or reverse:true, or none"
        signatures.demand(obj, "inverse", name, more)
        return [with_running(obj, _back_by(obj, name), name, chosen)]
    if forward is None:
        raise SpecError(f"inverse was given as {text!r}, but there is no forward")
    value = TYPED.get(word.casefold(), word)
    return [forward.keeping(name, value, f"inverse: {name}={value!r}")]


def _candidate_inverses(obj: Any, forward: CallForm | None, chosen: Chosen) -> list[CallForm]:
    if "inverse" in chosen:
        return _chosen_inverse(obj, forward, chosen)
    role = None if forward is None else _role_of(obj, forward)
    if role in COMPLETE and (backs := role.back(obj)):
        return backs
    inverse = signatures.attribute(obj, "inverse")
    asks = signatures.required(obj, "inverse") if callable(inverse) else ()
    timed = (
        {name for name, _ in signatures.time_interval_parameters(obj, "inverse")} if asks else set()
    )
    # The time order of the inverse is not known.
    if callable(inverse) and not timed & set(asks):
        back = _back_by(obj, "inverse")
        return [
            with_running(
                obj, back if back.given else CallForm("inverse", usual=True), "inverse", chosen
            )
        ]
    if forward is None:
        return []
    return (role.back(obj) if role else []) or [*_inverse_call_forms(obj, forward, chosen)]


def _role_of(obj: Any, forward: CallForm) -> Role | None:
    for role in ROLES:
        way = role.there(obj, {})
        if way is not None and way.method == forward.method and forward.method:
            return role
    return None


def _inverse_call_forms(obj: Any, forward: CallForm, chosen: Chosen) -> Iterator[CallForm]:
    """Inverses by a parameter that reverses the map (flag, word, sign), else by a usual method, else by
    reversed time.
    """
    named = forward.method or "forward"
    named = named if hasattr(obj, named) else ""
    ways: list[CallForm] = []
    if turned := signatures.flag(obj, named) or signatures.flag(obj, named, default=True):
        ways.append(forward.keeping(turned, True, f"inverse: {turned}=True"))
    mode, turning = signatures.mode_parameter(obj, named)
    ways += [forward.keeping(mode, word, f"inverse: {mode}={word!r}") for word in turning]
    ways += [
        with_running(obj, _back_by(obj, method), method, chosen)
        for method in INVERSE_METHODS
        if signatures.defines_method(obj, method)
        and (
            len(_required_parameters(obj, method, chosen)) == 1
            or signatures.point_part_count(obj, method)
            or _required_parameters(obj, method, chosen)[1:]
            == _required_parameters(obj, named, chosen)[1:]
        )
    ]
    yield from ways or filter(None, [_back_in_time(obj, forward)])


def _back_by(obj: Any, method: str) -> CallForm:
    """The inverse by a method; with its reconstruction flag if it has one, since latents are results of
    forward rather than noise.
    """
    if name := signatures.reconstructs(obj, method):
        return CallForm(method, given=((name, True),), words=f"inverse: {method}({name}=True)")
    return CallForm(method, words=f"inverse: {method}()")


def _required_parameters(obj: Any, method: str, chosen: Chosen) -> list[str]:
    """Required parameters of a method without a running log-det, by name or declaration, and its
    successors.
    """
    names = signatures.required(obj, method)
    runs = len(names) > 1 and bool("running" in chosen or sign_of(names[1]))
    if len(names) == 3 and runs:
        return names[:1]
    return [name for place, name in enumerate(names) if place != 1 or not runs]


def _back_in_time(obj: Any, forward: CallForm) -> CallForm | None:
    if forward.method or forward.form not in ("plain", "running"):
        return None
    if ends := signatures.time_interval_parameters(obj, "forward"):
        (first, start), (last, end) = ends
        given = dict(forward.given) | {first: end, last: start}
        words = f"inverse: from {first}={end:g} to {last}={start:g}"
        return replace(forward, given=tuple(given.items()), usual=False, words=words)
    if name := next((name for name, kind in forward.bound if kind == "span"), ""):
        turned = tuple((dict(forward.bound) | {name: "span back"}).items())
        return replace(forward, bound=turned, words=f"inverse: {name}=[1, 0]")
    return None


# Rows.


def _functions(obj: Any, chosen: Chosen) -> CallForm | None:
    pair = isinstance(obj, tuple) and len(obj) == 2 and all(map(inspect.isroutine, obj))
    return (
        CallForm("0", form="pair", words="a pair of functions: forward, inverse") if pair else None
    )


def _call_and_ladj(obj: Any, chosen: Chosen) -> CallForm | None:
    return (
        CallForm(BOTH, words=f"forward: {BOTH}()") if signatures.defines_method(obj, BOTH) else None
    )


def _inverse_object(obj: Any) -> list[CallForm]:
    other = signatures.attribute(obj, "inv")
    given = other is not None and other is not obj and callable(other)
    return [CallForm("inv", form="object", words="inverse: inv")] if given else []


def _transform(obj: Any, chosen: Chosen) -> CallForm | None:
    if not signatures.defines_method(obj, TRANSFORMS):
        return None
    way = with_running(
        obj, CallForm(TRANSFORMS, words=f"forward: {TRANSFORMS}()"), TRANSFORMS, chosen
    )
    return way if way.form == "running" else None


def _with_log_det(obj: Any, chosen: Chosen) -> CallForm | None:
    if not signatures.taken_by(obj) or not signatures.defines_method(obj, BESIDE["forward"]):
        return None
    return CallForm("forward", form="beside", words=f"log-det: {BESIDE['forward']}()")


def _with_log_det_back(obj: Any) -> list[CallForm]:
    return (
        [CallForm("inverse", form="beside")]
        if signatures.defines_method(obj, BESIDE["inverse"])
        else []
    )


def _forward(obj: Any, chosen: Chosen) -> CallForm | None:
    if not signatures.taken_by(obj):
        return None
    way = CallForm(called_name(obj, "forward"), usual=True)
    if turned := signatures.flag(obj, "forward", default=True):  # the default is the inverse
        way = way.keeping(turned, False, f"forward: {turned}=False")
    ends, span = (
        signatures.time_interval_parameters(obj, "forward"),
        signatures.span(obj, "forward"),
    )
    if any(name in signatures.required(obj, "forward") for name, _ in ends):
        words = f"forward: from {' to '.join(f'{name}={value:g}' for name, value in ends)}"
        way = replace(way, given=(*way.given, *ends), usual=False, words=words)
    elif span:
        way = replace(way, bound=((span, "span"),), usual=False, words=f"forward: {span}=[0, 1]")
    return with_running(obj, way, "forward", chosen)


def _function(obj: Any, chosen: Chosen) -> CallForm | None:
    if not inspect.isfunction(obj):
        return None
    return with_running(obj, CallForm("", words="forward: the function"), "", chosen)


def _forward_by_call(obj: Any, chosen: Chosen) -> CallForm | None:
    method = "__call__"
    if not signatures.defines_method(obj, method):
        return None
    turned = signatures.flag(obj, method) or signatures.flag(obj, method, default=True)
    if not turned and not any(
        signatures.defines_method(obj, name) for name in ("inverse", *INVERSE_METHODS)
    ):
        return None  # densities and multi-purpose functions are callable as well
    way = CallForm(method, words="forward: the object is called")
    if signatures.flag(obj, method, default=True):  # the default is the inverse
        way = way.keeping(turned, False, f"forward: {turned}=False")
    return with_running(obj, way, method, chosen)


def _named_direction_pair(
    *names: str, single: bool = False
) -> Callable[[Any, Chosen], CallForm | None]:
    """The first of several methods that all belong to the object's class. ``single``: each takes one
    argument.
    """

    def there(obj: Any, chosen: Chosen) -> CallForm | None:
        own = all(signatures.defines_method(obj, name) for name in names)
        if not own or (single and any(len(signatures.required(obj, name)) != 1 for name in names)):
            return None
        return CallForm(names[0], words=f"forward: {names[0]}(), inverse: {names[1]}()")

    return there


def _encoder(obj: Any, chosen: Chosen) -> CallForm | None:
    return (
        CallForm(ENCODE, words=f"forward: {ENCODE}(), inverse: {DECODE}()")
        if encodes(obj)
        else None
    )


def _estimator(obj: Any, chosen: Chosen) -> CallForm | None:
    if not all(
        signatures.defines_method(obj, name) for name in ("fit", "transform", "inverse_transform")
    ):
        return None
    return CallForm(
        "transform", form="array", words="transform() and inverse_transform() of arrays"
    )


def _in_jax(obj: Any, chosen: Chosen) -> CallForm | None:
    """Never matches in torch, where `method_names` reads this row; JAX uses `named`."""
    return None


def _back(method: str, form: str = "plain") -> Callable[[Any], list[CallForm]]:
    return lambda obj: [CallForm(method, form=form)]


ROLES = (
    Role("a pair of functions", "return forward, inverse", _functions, _back("1", "pair")),
    Role("a call with its log-det, and the inverse as another object", "call_and_ladj(x), inv", _call_and_ladj, _inverse_object),
    Role("a transform with a running log-det", "forward_transform(x, logdet)", _transform),
    Role("forward, and a method for its log-det", "forward(x), forward_log_det_jacobian(x)", _with_log_det, _with_log_det_back),
    Role("the usual names", "forward(x), inverse(z)", _forward, named=("forward", "inverse", *INVERSE_METHODS)),
    Role("one function for both", "def flow(x, inverse=False)", _function),
    Role("single letters, if there is no forward", "f(x), g(z)", _named_direction_pair("f", "g", single=True), _back("g")),
    *(
        Role("unambiguous names", f"{there}(x), {back}(z)", _named_direction_pair(there, back), _back(back), (there, back))
        for there, back in PAIRS
    ),
    Role("a transform", "transform(x), inverse(z)", _in_jax, named=("transform", "inverse")),
    Role("an encoder that returns a log-det", "encode(x), decode(z)", _encoder, _back(DECODE), (ENCODE, DECODE)),
    Role(
        "a callable object with an inverse", "__call__(x), inverse(z)", _forward_by_call,
        named=("__call__", "inverse", "inv"),
    ),
    Role("an estimator, on arrays", "fit(x), transform(x), inverse_transform(z)", _estimator, _back("inverse_transform", "array")),
)  # fmt: skip
# Rows whose inverse takes precedence over a method `inverse`.
COMPLETE = [role for role in ROLES if role.there in (_functions, _with_log_det, _estimator)]
