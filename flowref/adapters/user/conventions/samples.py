"""How an object draws samples: by a number or a shape, of what it returns the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flowref.adapters.user import calls
from flowref.adapters.user.conventions import asking, signatures
from flowref.adapters.user.conventions.directions import Chosen
from flowref.adapters.user.conventions.names import BESIDE_SAMPLES, plain
from flowref.model import Dialect, SpecError, nearest

# Parameters of a sampler that say how many points it draws.
COUNTS = frozenset(
    {
        "n",
        "num",
        "numsamples",
        "nsamples",
        "samples",
        "count",
        "size",
        "number",
        "batchsize",
        "nums",
        "nsample",
        "numsample",
    }
)
# Those that say it by a shape.
SHAPES = frozenset({"sampleshape", "shape", "batchshape", "sizes"})
# What ?sample= may say of what comes back.
LAST, SQUEEZE = "last", "squeeze:"


def settle_sample(
    obj: Any, dialect: Dialect, x: Any, context: Any, chosen: Chosen
) -> tuple[Dialect, tuple[str, ...]]:
    """The dialect with samples as calls show them, and what the line says of them."""
    method = calls.method_of(dialect.sample)
    if not method:
        return dialect, ()
    if (said := chosen.get("sample", method)) != method:
        return _chosen(dialect, said)
    each = partial(asking.sample_at, method=method)
    if context is not None and _draws(obj, each, context):
        return replace(dialect, sample=each), ("sample takes the contexts alone",)
    for shaped in (False, True):
        states = partial(asking.sample_of, method=method, shape=shaped)
        if count := _states(obj, states, x, context):
            last = partial(states, at=-1)
            return replace(dialect, sample=last), (f"sample: the last of {count} states",)
    if context is None and signatures.parameters(obj, method)[1:]:
        # Of what takes a context, too, there may be an axis of contexts: of one, where none is given.
        for shaped in (False, True):
            one = partial(asking.sample_of, method=method, shape=shaped, squeezed=1)
            if _shape(obj, partial(one, squeezed=None)) == (2, 1, *x.shape[1:]):
                return replace(dialect, sample=one), ("samples (n, 1, ...), squeezed",)
    if context is not None and (given := signatures.apart(obj, method, 1)):
        call: Any = partial(
            asking.sample_naming, method=method, count=_first(obj, method), given=given
        )
        if _draws(obj, call, context):
            return replace(dialect, sample=call), (f"sample: {method}({given}=)",)
    if named := _named(obj, method):
        call = partial(asking.sample_naming, method=method, count=named, given=_first(obj, method))
        if _ahead(obj, call, x, context):
            ahead = partial(asking.sample_of_each, draw=call)
            return replace(dialect, sample=ahead), (f"samples ({named}, contexts, ...)",)
        if _draws(obj, call, context) and not _draws(obj, dialect.sample, context):
            return replace(dialect, sample=call), (f"sample: {method}({named}=)",)
    by_shape: Any = calls.sample_shape
    if method != "sample":
        by_shape = partial(calls.sample_shape, method=method)
    by_number = dialect.sample
    for first in (None, dialect.forward or dialect.log_prob):
        for draw in (by_number, by_shape):
            if _ahead(obj, draw, x, context):
                ahead = partial(asking.sample_of_each, draw=draw)
                return replace(dialect, sample=ahead), ("samples (n, contexts, ...)",)
            if _draws(obj, draw, context):
                return replace(dialect, sample=draw), _of_its_name(method)
        if first is None or not _made(obj, first, x, context):
            break
    for draw in (by_number, by_shape):
        if _draws(obj, draw, context):
            first = dialect.forward or dialect.log_prob
            shape = tuple(x.shape[1:])
            later = partial(asking.sample_after_a_call, draw=draw, first=first, shape=shape)
            return replace(dialect, sample=later), ("sample after a first call",)
    # Neither works. What the object raises by a number says why, unless a number is no size to it, or it
    # asks for what nobody gives.
    if asked := _unasked(obj, method, context):
        words = f"no sampler: {method}({', '.join(asked)}) asks for more than how many"
        return replace(dialect, sample=None), (words,)
    if method != "sample" and "sample" not in chosen:  # what its name may as well not say
        return replace(dialect, sample=None), (f"no sampler: {method}() draws no points",)
    complaint = _complaint(obj, by_number, context)
    wanted = isinstance(complaint, TypeError) or complaint is None
    return replace(dialect, sample=by_shape if wanted else by_number), ()


def _of_its_name(method: str) -> tuple[str, ...]:
    return () if method == "sample" else (f"sample: {method}()",)


def sampler(obj: Any, chosen: Chosen) -> Any:
    """How an object draws, by the method that a user names or by the usual one; None where it does
    not.
    """
    name = chosen.get("sample", "sample")
    if name != "sample" and callable(getattr(obj, name, None)):
        return partial(calls.sample_number, method=name)
    if name not in ("sample", LAST) and not name.startswith(SQUEEZE):
        raise _unheard(name)
    if callable(getattr(obj, "sample", None)):
        return calls.sample_number
    return calls.sample_detached if callable(getattr(obj, "rsample", None)) else None


def settle_beside(
    obj: Any, dialect: Dialect, x: Any, context: Any, chosen: Chosen
) -> tuple[Dialect, tuple[str, ...]]:
    """The dialect with samples that come with their log-densities, where one method draws them: as
    many points as it is asked for, with a number each, or one for each context. What such numbers are is known by a
    name alone, and asked where it says nothing.
    """
    told = chosen.get("beside", "")
    if dialect.log_prob is None or dialect.sample_log_prob is not None or told == "none":
        return dialect, ()
    if told and not callable(getattr(obj, told, None)):
        methods = [name for name in dir(obj) if not name.startswith("_")]
        raise SpecError(
            f"beside was given as {told!r}; expected a method that draws, or none{nearest(told, methods)}"
        )
    if context is not None:
        return _beside_each(obj, dialect, x, context, told), ()
    found = _beside(obj, dialect, x, (told,) if told else BESIDE_SAMPLES)
    if found is not dialect or told:
        return found, ()
    drawing = calls.method_of(dialect.sample)
    if not drawing or _beside(obj, dialect, x, (drawing,)) is dialect:
        return dialect, ()
    words = (
        f"{drawing}() returns numbers beside its points, which nobody reads: say ?beside={drawing}"
    )
    return dialect, (f"{words} where they are log-densities",)


def _beside(obj: Any, dialect: Dialect, x: Any, methods: Sequence[str]) -> Dialect:
    for method in methods:
        if not callable(getattr(obj, method, None)):
            continue
        for shape in (False, True):
            call = partial(asking.sampled_beside, method=method, shape=shape)
            try:
                points, beside = call(obj, 2, None)
                fits = tuple(points.shape) == (2, *x.shape[1:]) and tuple(beside.shape) == (2,)
            except Exception:  # it wants something else
                continue
            if fits:
                return replace(dialect, sample_log_prob=call)
    return dialect


def _beside_each(obj: Any, dialect: Dialect, x: Any, context: Any, told: str) -> Dialect:
    rows = len(context)
    for method in (told,) if told else BESIDE_SAMPLES:
        if not callable(getattr(obj, method, None)):
            continue
        try:
            points, beside = getattr(obj, method)(1, context)
            shapes = tuple(points.shape), tuple(beside.shape)
        except Exception:  # it wants something else
            continue
        if shapes == ((rows, 1, *x.shape[1:]), (rows, 1)):
            call = partial(asking.sampled_beside_each, method=method)
            return replace(dialect, sample_log_prob=call)
    return dialect


def _unasked(obj: Any, method: str, context: Any) -> list[str]:
    """What a method that draws cannot do without, where that is more than a number, and a context if there
    is one; nothing where it raises for another reason.
    """
    names = signatures.required(obj, method)
    return names if len(names) > 1 + (context is not None) else []


def _complaint(obj: Any, draw: Any, context: Any) -> Exception | None:
    try:
        draw(obj, 2, None if context is None else context[:2])
    except Exception as error:
        return error
    return None


def _made(obj: Any, first: Any, x: Any, context: Any) -> bool:
    try:
        first(obj, x, context)
    except Exception:  # the laws report it
        return False
    return True


def _chosen(dialect: Dialect, text: str) -> tuple[Dialect, tuple[str, ...]]:
    """What ?sample= says of what comes back: ``last`` of a list, or ``squeeze:1``."""
    if text == LAST:
        return replace(dialect, sample=partial(asking.sample_of, at=-1)), (
            "sample: the last of a list",
        )
    axis = text.removeprefix(SQUEEZE)
    if axis != text and axis.lstrip("-").isdigit():
        squeezed = partial(asking.sample_of, squeezed=int(axis))
        return replace(dialect, sample=squeezed), (f"sample without axis {axis}, as declared",)
    raise _unheard(text)


def _unheard(text: str) -> SpecError:
    return SpecError(
        f"sample was given as {text!r}; expected one of its methods, last or squeeze:1"
    )


def _ahead(obj: Any, draw: Any, x: Any, context: Any) -> bool:
    """Whether a call draws several points for each context, of which the first axis is that of the points."""
    if context is None or len(context) < 3:
        return False
    try:
        return tuple(draw(obj, 2, context[:3]).shape) == (2, 3, *x.shape[1:])
    except Exception:  # it may want as many points as contexts
        return False


def _named(obj: Any, method: str) -> str:
    """The parameter that says how many points are drawn, where it is not the first."""
    later = [one.name for one in signatures.parameters(obj, method)[1:]]
    return next((name for name in later if plain(name) in COUNTS), "")


def asks_for(obj: Any, dialect: Dialect) -> str:
    """What a sampler asks for that is no number of points, by its name; empty where it asks for one."""
    method = calls.method_of(dialect.sample)
    wanted = signatures.parameters(obj, method)[:1] if method else []
    return next((one.name for one in wanted if plain(one.name) not in COUNTS | SHAPES), "")


def _first(obj: Any, method: str) -> str:
    return signatures.parameters(obj, method)[0].name


def _shape(obj: Any, draw: Any) -> Any:
    """The shape of two points; None where they cannot be drawn so."""
    try:
        return tuple(draw(obj, 2, None).shape)
    except Exception:  # it may want a shape
        return None


def _states(obj: Any, draw: Any, x: Any, context: Any) -> int:
    """How many states on the way from the base to samples a call lists, each a batch of points; 0 where it
    lists none.
    """
    try:
        out = draw(obj, 2, None if context is None else context[:2])
        fits = isinstance(out, list) and {tuple(one.shape) for one in out} == {(2, *x.shape[1:])}
    except Exception:  # it may want a shape
        return 0
    return len(out) if fits and len(out) > 1 else 0


def _draws(obj: Any, draw: Any, context: Any) -> bool:
    """Whether a call draws as many points as it is asked for, of as many contexts."""
    try:
        return len(draw(obj, 2, None if context is None else context[:2])) == 2
    except Exception:  # it may want a shape; which error says so is the object's affair
        return False
