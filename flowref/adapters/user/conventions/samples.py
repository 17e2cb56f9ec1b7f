"""How an object draws samples: its sampler's arguments, and the points in its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.user import calls
from flowref.adapters.user.conventions import method_calls, signatures
from flowref.adapters.user.conventions.call_forms import Chosen
from flowref.adapters.user.conventions.names import (
    BESIDE_SAMPLES,
    DENSE,
    SCORES,
    USUAL,
    normalized_name,
)
from flowref.adapters.user.conventions.stated_returns import names_of_entry
from flowref.model import Dialect, SpecError, nearest

# Parameters for the number of samples, and for their shape.
COUNTS = frozenset(
    {
        "n", "num", "numsamples", "nsamples", "samples", "count", "size", "number", "batchsize", "nums", "nsample",
        "numsample",
    }
)  # fmt: skip
SHAPES = frozenset({"sampleshape", "shape", "batchshape", "sizes"})
# What is returned beside samples if it is their log-density.
LOG_DENSITIES = {*map(normalized_name, (*USUAL, *DENSE)), "logsumexp"} - {normalized_name(SCORES)}
# Values of ?sample= for the result.
LAST, SQUEEZE = "last", "squeeze:"


class SamplerCall(NamedTuple):
    """A calling form of a sampler: ``call`` returns the result, ``points`` extracts the points; ``words``:
    the remark.
    """

    call: Any
    points: Any
    words: tuple[str, ...]


def settle_sample(
    obj: Any, dialect: Dialect, x: Any, context: Any, chosen: Chosen
) -> tuple[Dialect, tuple[str, ...]]:
    """The dialect with its sampler resolved by calls, and remarks."""
    method = calls.method_of(dialect.sample)
    if not method:
        return dialect, ()
    if (said := chosen.get("sample", method)) != method:
        return _declared_sampler(dialect, said)
    by_number: Any = dialect.sample
    by_shape: Any = partial(calls.sample_shape, method=method)
    for asked in _ways(obj, method, (by_number, by_shape), context):
        for received in RECEIVED:
            if found := received(obj, asked, x, context):
                call, words = found
                return replace(dialect, sample=call), words
    # The error for a number is reported, unless a shape is expected, or another argument is
    # required.
    needed = signatures.required(obj, method)
    if len(needed) > 1 + (context is not None):
        asks = f"no sampler: {method}({', '.join(needed)}) asks for more than how many"
        return replace(dialect, sample=None), (asks,)
    if method != "sample" and "sample" not in chosen:  # an unknown name may be something else
        return replace(dialect, sample=None), (f"no sampler: {method}() draws no points",)
    try:
        by_number(obj, 2, None if context is None else context[:2])
    except Exception as error:
        return replace(dialect, sample=by_shape if isinstance(error, TypeError) else by_number), ()
    return replace(dialect, sample=by_shape), ()


def _ways(obj: Any, method: str, usual: tuple[Any, Any], context: Any) -> Iterator[SamplerCall]:
    """Candidate calling forms of a sampler, likeliest first: with contexts, with a named context, by a
    number or shape, by a named number.
    """
    if context is not None:
        call: Any = partial(method_calls.sample_at, method=method)
        yield SamplerCall(call, call, ("sample takes the contexts alone",))
    taken = [one.name for one in signatures.method_parameters(obj, method)]
    if context is not None and (given := signatures.keyword_context_parameter(obj, method, 1)):
        call = partial(method_calls.sample_naming, method=method, count=taken[0], given=given)
        yield SamplerCall(call, call, (f"sample: {method}({given}=)",))
    named = []
    if count := next((name for name in taken[1:] if normalized_name(name) in COUNTS), ""):
        call = partial(method_calls.sample_naming, method=method, count=count, given=taken[0])
        named = [
            SamplerCall(
                call, call, (f"sample: {method}({count}=)", f"samples ({count}, contexts, ...)")
            )
        ]
    first = bool(taken) and normalized_name(taken[0]) not in COUNTS | SHAPES
    yield from named if first else ()
    for shape, points in zip((False, True), usual, strict=True):
        call = partial(method_calls.sample_of, method=method, shape=shape)
        yield SamplerCall(call, points, () if method == "sample" else (f"sample: {method}()",))
    yield from () if first else named


def _draw_two_points(obj: Any, draw: Any, contexts: Any) -> Any:
    try:
        return draw(obj, 2, contexts)
    except Exception:  # it may take a shape; any class of exception
        return None


def _states(
    obj: Any, asked: SamplerCall, x: Any, context: Any
) -> tuple[Any, tuple[str, ...]] | None:
    """A result that lists the states from the base to samples, each a batch."""
    out = _draw_two_points(obj, asked.call, None if context is None else context[:2])
    if asked.call.func is not method_calls.sample_of or not isinstance(out, list) or len(out) < 2:
        return None
    if {tuple(getattr(one, "shape", ())) for one in out} != {(2, *x.shape[1:])}:
        return None
    return partial(asked.call, at=-1), (f"sample: the last of {len(out)} states",)


def _of_one_context(
    obj: Any, asked: SamplerCall, x: Any, context: Any
) -> tuple[Any, tuple[str, ...]] | None:
    """A result with an axis of one context, from a sampler with optional contexts."""
    several = len(signatures.method_parameters(obj, asked.call.keywords["method"])) > 1
    if asked.call.func is not method_calls.sample_of or context is not None or not several:
        return None
    out = _draw_two_points(obj, asked.call, None)
    if tuple(getattr(out, "shape", ())) != (2, 1, *x.shape[1:]):
        return None
    return partial(asked.call, squeezed=1), ("samples (n, 1, ...), squeezed",)


def _for_each_context(
    obj: Any, asked: SamplerCall, x: Any, context: Any
) -> tuple[Any, tuple[str, ...]] | None:
    """A result with several points per context, first axis over points."""
    if context is None or len(context) < 3:
        return None
    out = _draw_two_points(obj, asked.points, context[:3])
    if tuple(getattr(out, "shape", ())) != (2, 3, *x.shape[1:]):
        return None
    words = asked.words[1:] or ("samples (n, contexts, ...)",)
    return partial(method_calls.sample_of_each, draw=asked.points), words


def _squeezed(
    obj: Any, asked: SamplerCall, x: Any, context: Any
) -> tuple[Any, tuple[str, ...]] | None:
    """A result without the axis of points for a single one, as in scipy and numpy."""
    event = tuple(x.shape[1:])
    if context is not None or np.shape(_draw_two_points(obj, asked.points, None)) != (2, *event):
        return None
    try:
        one = asked.points(obj, 1, None)
    except Exception:  # rejecting a single point is tested by laws
        return None
    if not isinstance(one, np.ndarray | np.generic) or one.shape != event:
        return None
    words = (*asked.words[:1], "a sample of one point has no axis of points")
    return partial(method_calls.sample_of_points, draw=asked.points), words


def _sampler_by_count(
    obj: Any, asked: SamplerCall, x: Any, context: Any
) -> tuple[Any, tuple[str, ...]] | None:
    """A result with as many points as requested, for as many contexts."""
    out = _draw_two_points(obj, asked.points, None if context is None else context[:2])
    try:
        return (asked.points, asked.words[:1]) if len(out) == 2 else None
    except TypeError:  # a number, or None
        return None


def _named_samples(
    obj: Any, asked: SamplerCall, x: Any, context: Any
) -> tuple[Any, tuple[str, ...]] | None:
    """Points as a dictionary of arrays, or a structured array of numpy."""
    method = asked.call.keywords["method"]
    named = signatures.point_names(obj, "log_prob") or signatures.point_names(obj, "forward")
    out = _draw_two_points(obj, asked.points, context)
    found = out if isinstance(out, Mapping) else getattr(getattr(out, "dtype", None), "names", None)
    if not named or not set(named) <= set(found or ()):
        return None
    call = partial(method_calls.sample_named, draw=asked.points, names=tuple(named))
    return call, (f"sample: {method}(), named arrays",)


# Forms of results, likeliest first.
RECEIVED = (
    _named_samples,
    _states,
    _of_one_context,
    _for_each_context,
    _squeezed,
    _sampler_by_count,
)


def sampler(obj: Any, chosen: Chosen) -> Any:
    """The sampler named by the user, or the usual one; None if there is none."""
    name = chosen.get("sample", "sample")
    if name != "sample" and callable(getattr(obj, name, None)):
        return partial(calls.sample_number, method=name)
    if name not in ("sample", LAST) and not name.startswith(SQUEEZE):
        raise _unheard(name)
    if callable(getattr(obj, "sample", None)):
        return partial(calls.sample_number, method="sample")
    return calls.sample_detached if callable(getattr(obj, "rsample", None)) else None


def settle_sample_log_prob(
    obj: Any, dialect: Dialect, x: Any, context: Any, chosen: Chosen
) -> tuple[Dialect, tuple[str, ...]]:
    """The dialect with a method that draws samples with their log-densities, as many as requested or one
    per context, and remarks. The method is identified by name; `Ambiguous` is raised if the name does not
    say what the numbers are. They are log-densities if each return statement names them so.
    """
    named = chosen.get("beside", "")
    if dialect.log_prob is None or dialect.sample_log_prob is not None or named == "none":
        return dialect, ()
    if named and not callable(getattr(obj, named, None)):
        methods = [name for name in dir(obj) if not name.startswith("_")]
        raise SpecError(
            f"beside was given as {named!r}; expected a method that draws, or none{nearest(named, methods)}"
        )
    found = _add_sample_log_prob(obj, dialect, x, context, (named,) if named else BESIDE_SAMPLES)
    if found is not dialect or named or context is not None:
        return found, ()
    # Where forward is no map, it may draw from a base.
    drawing = (calls.method_of(dialect.sample), "" if dialect.forward else "forward")
    for method in filter(None, drawing):
        found = _add_sample_log_prob(obj, dialect, x, None, (method,))
        if found is not dialect:
            names = set(names_of_entry(getattr(obj, method), 1))
            if names and names <= LOG_DENSITIES:
                return found, (f"log-densities of samples: {method}()",)
            words = f"{method}() returns numbers with its points, which are not tested: say ?beside={method}"
            return dialect, (f"{words} where they are log-densities",)
    return dialect, ()


def _add_sample_log_prob(
    obj: Any, dialect: Dialect, x: Any, context: Any, methods: Sequence[str]
) -> Dialect:
    for method, shape in product(methods, (False, True)):
        if not callable(getattr(obj, method, None)):
            continue
        if context is None:
            call = partial(method_calls.sampled_with_log_prob, method=method, shape=shape)
            fits = _shapes(call, obj, 2, None) == ((2, *x.shape[1:]), (2,))
        else:
            first = _contexts_first(obj, method, shape, x, context)
            call = partial(
                method_calls.sampled_with_log_prob_each,
                method=method,
                shape=shape,
                first=first is not False,
            )
            fits = first is not None
        if fits:
            return replace(dialect, sample_log_prob=call)
    return dialect


def _contexts_first(obj: Any, method: str, shape: bool, x: Any, context: Any) -> bool | None:
    """Whether the axis of contexts precedes that of draws; None if the result has neither form."""
    contexts = context[:3]
    for count in (2, 1):
        drawn = _shapes(
            lambda obj, n, given: getattr(obj, method)((n,) if shape else n, given),
            obj,
            count,
            contexts,
        )
        for axes, first in (((len(contexts), count), True), ((count, len(contexts)), False)):
            if drawn == ((*axes, *x.shape[1:]), axes):
                return first
    return None


def _shapes(call: Any, obj: Any, n: int, context: Any) -> tuple[Any, ...]:
    """The shapes of points and accompanying numbers; empty if the call raises, or integers are returned."""
    try:
        points, beside = call(obj, n, context)
        labels = "int" in str(beside.dtype)
        return () if labels else (tuple(points.shape), tuple(beside.shape))
    except Exception:  # any class of exception
        return ()


def _declared_sampler(dialect: Dialect, text: str) -> tuple[Dialect, tuple[str, ...]]:
    """The dialect with ?sample= applied to the result: ``last`` of a list, or ``squeeze:1``."""
    if text == LAST:
        return replace(dialect, sample=partial(method_calls.sample_of, at=-1)), (
            "sample: the last of a list",
        )
    axis = text.removeprefix(SQUEEZE)
    if axis != text and axis.lstrip("-").isdigit():
        squeezed = partial(method_calls.sample_of, squeezed=int(axis))
        return replace(dialect, sample=squeezed), (f"sample without axis {axis}, as declared",)
    raise _unheard(text)


def _unheard(text: str) -> SpecError:
    return SpecError(
        f"sample was given as {text!r}; expected one of its methods, last or squeeze:1"
    )


def asks_for(obj: Any, dialect: Dialect) -> str:
    """The required argument of a sampler other than a number of points; empty if there is none."""
    method = calls.method_of(dialect.sample)
    wanted = signatures.method_parameters(obj, method)[:1] if method else []
    return next(
        (one.name for one in wanted if normalized_name(one.name) not in COUNTS | SHAPES), ""
    )
