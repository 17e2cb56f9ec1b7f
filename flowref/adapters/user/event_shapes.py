"""Event shapes that a user's object may take, and the first of them at which its calls fit."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.common.events import Fit, Fits, Seen, first_event
from flowref.adapters.common.normalizers import recognition
from flowref.adapters.common.normalizers import shapes as layer_shapes
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.call_evidence import Settled
from flowref.adapters.user.event_broadcast import stretches_tensors, told_shapes
from flowref.adapters.user.inquiry import ROWS, Inquiry
from flowref.adapters.user.probe_calls import NoWayBack, raised_most, resolve_object, unknown_shape
from flowref.model import (
    Ambiguous,
    Dialect,
    Facts,
    Shape,
    SpecError,
    TargetError,
    UnknownShape,
)

# Attributes that commonly name the number of features.
FEATURES = (
    "features", "num_features", "n_features", "dim", "dims", "d", "D", "ndim", "n_dim", "input_dim", "in_features",
    "data_dim", "input_size", "size", "num_inputs", "n_inputs", "channels", "num_channels", "n",
)  # fmt: skip
# Those that say the shape of an event.
WHOLE = ("input_shape", "data_shape", "in_shape", "x_shape", "image_shape")
# Attributes that commonly name the number of channels, of images or of sequences.
CHANNELS = (
    "channels", "num_channels", "n_channels", "in_channels", "in_channel", "num_features", "c_in", "c",
)  # fmt: skip
# Positions on a side of an image, and in a sequence, that are tried.
SIDE = 4
LENGTH = 6
# Those of images: rows that are no columns show which are counted; some have to be halved twice.
SIDES = ((SIDE, LENGTH), (SIDE, 2 * SIDE), (SIDE, SIDE), (2 * SIDE, 2 * SIDE))
# An event shape with that of its contexts.
Pair = tuple[Shape, Shape | None]
# What is said of the number of axes, of whatever size they are.
AXES = re.compile(r"dimension|subscript|unpack|indices|\dD\b")
# Sizes of arrays up to which they are tried as numbers of features first, and at all; those of stated shapes too.
SMALL, MOST = 256, 4096
# Events that are tried where nothing but calls told the one that was taken.
OTHERS = ((2,), (3,), (4,))
# Numbers of features that are tried where nothing tells any, likeliest first.
USUAL = (4, 2, 3, 1, 6, 8, 5, 7, 10, 12, 16, 20, 32, 64)


def shapes(obj: Any, state: Sequence[Shape]) -> Iterator[Shape]:
    """Event shapes that an object may take, likeliest first; ``state``: the shapes of its arrays."""
    own = getattr(obj, "event_shape", None)
    if isinstance(own, tuple) and not own:  # it says that its events are numbers
        yield ()
    for name in FEATURES:
        value = getattr(obj, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST:
            yield (value,)
        elif isinstance(value, (tuple, list)) and value and all(isinstance(v, int) for v in value):
            yield tuple(value)
    for value in (getattr(obj, name, None) for name in WHOLE):
        if isinstance(value, (tuple, list)) and all(isinstance(v, int) for v in value):
            yield from (tuple(value),) if 0 < math.prod(value) <= SMALL else ()
    for sizes in state:
        if len(sizes) >= 3 and min(sizes[-3:]) >= 1 and sizes[-1] > 3:
            yield tuple(sizes[-3:])
    yield from filter(None, map(stretched, state))
    for sizes in state:
        if len(sizes) in (1, 2) and 0 < sizes[-1] <= SMALL:
            yield (sizes[-1],)
            yield (sizes[0],)
    yield from ((features,) for features in USUAL)
    # Images as vectors; layers within are often wider than events, so these come last.
    yield from (
        (sizes[-1],) for sizes in state if len(sizes) in (1, 2) and SMALL < sizes[-1] < MOST
    )
    yield ()
    told = [getattr(obj, name, None) for name in CHANNELS]
    named = [size for size in told if type(size) is int and 0 < size < 4096]
    # One is what other sizes are stretched from, seldom a number of channels.
    found = {size for sizes in state for size in sizes if size <= 64}
    channels = [*dict.fromkeys(named), *sorted(found, key=lambda size: (size == 1, size))]
    for count in dict.fromkeys((*channels, 2, 1, 3, 4)):
        for sides in SIDES:
            yield (count, *sides)
            yield (2 * count, *sides)
    for count in dict.fromkeys((*channels, 2, 3, 4)):
        if count == SIDE:  # channels that are no positions show which is meant
            yield (count, LENGTH)
        yield (count, SIDE)
        yield (SIDE, count)
    # Images with their channels last.
    yield from ((*sides, count) for count in dict.fromkeys((*channels, 1, 2, 3)) for sides in SIDES)
    # Vectors that are written as images of one pixel.
    yield from ((size, 1, 1) for count in (*channels, 2, 3, 4) for size in (count, 2 * count))


def stretched(sizes: Shape) -> Shape:
    """The event that an array is made for which has one number for each channel and is stretched
    along all other axes; empty if it is none.
    """
    if len(sizes) < 3 or sizes[0] != 1 or sum(size > 1 for size in sizes) != 1:
        return ()
    # As many positions as channels, or as many rows as columns, would not show which of them is meant.
    sides = itertools.cycle((LENGTH, SIDE) if SIDE in sizes else (SIDE, LENGTH))
    return tuple(size if size > 1 else next(sides) for size in sizes[1:])


def infer_shape(inquiry: Inquiry) -> Shape:
    """The first shape at which every call works in a dtype and keeps the number of entries, or where
    the way back, the log-density or the samples fit at none, the first at which the map does;
    `UnknownShape` if there is none, with what the object raised.
    """
    obj, dialect, facts = inquiry.obj, inquiry.dialect, inquiry.facts
    if facts.normalizer is not None and (
        shape := layer_shapes.first_taken(obj)
        or recognition.infer_shape(obj, dialect, inquiry.tensor(np.zeros(1)).dtype)
    ):
        return shape
    raised: list[Exception] = []
    sampled: list[Shape] = []

    def fits(shape: Shape, seen: Seen) -> Fits[Shape]:
        odd, one_way = seen[Fit.ODD], seen[Fit.ONE_WAY]
        if odd and (len(shape) == len(odd[0]) or 1 in shape):
            return None  # an axis of one hides what another number of axes explains
        if one_way and shape[1:] == (1, 1):
            return None  # and one pixel what many show
        try:
            point = inquiry.tried_at(shape, facts.context_shape)
            if not (fitting := resolve_object(inquiry, *point)):
                return None
            if shape in told_shapes(obj, FEATURES):
                return Fit.WELL, shape
            if _odd(obj, fitting.dialect.forward, *point):
                return Fit.ODD, shape  # at another it may be one number for each point
            if _loose(obj, dialect, *point):
                return Fit.STRETCHED, shape
            return Fit.WELL, _of_latent(fitting, inquiry, *point)
        except NoWayBack as error:
            raised.append(error.error)
            sampled.extend(error.sampled)
            return Fit.ONE_WAY, shape
        except (Ambiguous, SpecError):
            if not seen[Fit.STRETCHED]:
                raise
        except Exception as error:  # the shape does not fit; the first error is told if none does
            raised.append(error)
        return None

    likely = ((shape, facts.context_shape) for shape in shapes(obj, inquiry.state))
    usual = (shape for (shape, _), _ in taken_first(inquiry, likely))
    found = first_event(_with_more(usual, sampled), fits)
    if found is not None:
        return found
    if sized := [one for one in raised if isinstance(one, TargetError)]:
        raise UnknownShape(raised_most(sized))
    raise unknown_shape(obj, raised, _asks_for_more(obj, facts))


def call_refusal(inquiry: Inquiry, event: Shape, context: Shape | None) -> Exception | None:
    """What the map raises where it is called as it is written, once: to read what it returns takes several calls. None
    where it raises nothing, and where another call may be meant.
    """
    way = inquiry.way
    if way is None or way.form != "plain":
        return None
    try:
        way.ask(inquiry.obj, *inquiry.tried_at(event, context))
    except Exception as error:  # which error is told where it is read
        return error
    return None


def taken_first(inquiry: Inquiry, pairs: Iterable[Pair]) -> Iterator[tuple[Pair, bool]]:
    """Event shapes with those of contexts that are not refused, and then the others, of which it is said."""
    others, words = [], set[str]()
    for event, context in dict.fromkeys(pairs):
        vector, error = context is None and len(event) == 1, None
        if not vector or "" not in words:
            error = call_refusal(inquiry, event, context)
            if error is None:
                yield (event, context), False
                continue
        others.append((event, context))
        if vector and AXES.search(str(error)):
            # What says of two sizes that they have too few axes says it of all.
            said = str(error).replace(f"{ROWS}, {event[0]}", "")
            words.add("" if said in words else said)
    yield from ((pair, True) for pair in others)


def _with_more(usual: Iterator[Shape], found: list[Shape]) -> Iterator[Shape]:
    """The usual shapes, and at once those that are found on the way."""
    for shape in usual:
        yield shape
        while found:
            yield found.pop()


def alternatives(inquiry: Inquiry) -> tuple[Shape, ...]:
    """Event shapes that calls fit as well as the one that was found, where neither attributes nor
    arrays tell any; a single feature only where events may as well be numbers, since code that
    speaks of an axis means more than one.
    """
    obj, dialect, shape = inquiry.obj, inquiry.dialect, inquiry.facts.event_shape
    sizes = {size for array in inquiry.state for size in array if size > 1}
    if len(shape) != 1 or shape in told_shapes(obj, FEATURES) or shape[0] in sizes:
        return ()
    rng = np.random.default_rng(0)

    def fitting(other: Shape) -> bool:
        try:
            point = inquiry.tensor(rng.uniform(0.25, 0.75, (ROWS, *other)))
            if not resolve_object(inquiry, point, None):
                return False
            ladj = None if dialect.forward is None else dialect.forward(obj, point, None)[1]
            return ladj is None or math.prod(ladj.shape) in (1, ROWS, point.numel())
        except Exception:  # the shape does not fit
            return False

    others = [other for other in OTHERS if other != shape and fitting(other)]
    return ((1,), *others) if shape != (1,) and fitting(()) else tuple(others)


def _of_latent(settled: Settled, inquiry: Inquiry, x: Any, context: Any) -> Shape:
    """The event shape of points, or that of their latents where these differ by axes of one and the
    map has a way back there alone, as has one that takes vectors and works on images of one pixel.
    """
    shape = tuple(x.shape[1:])
    other = () if settled.latent is None else tuple(settled.latent.shape[1:])
    if settled.dialect.inverse is not None or other == shape or _long(other) != _long(shape):
        return shape
    try:
        fitting = resolve_object(inquiry, x.reshape(x.shape[:1] + other), context)
        return other if fitting and fitting.dialect.inverse is not None else shape
    except Exception:  # the shape does not fit
        return shape


def _long(shape: Shape) -> Shape:
    """The axes of a shape that are longer than one."""
    return tuple(size for size in shape if size > 1)


def _odd(obj: Any, forward: Any, x: Any, context: Any) -> bool:
    """Whether the log-det at a guessed event is neither a number for each point or each entry, nor
    one for all, as it is where axes of another event are added up.
    """
    ladj = None if forward is None else forward(obj, x, context)[1]
    entries = math.prod(getattr(ladj, "shape", ()))
    return ladj is not None and entries not in (1, len(x), math.prod(x.shape))


def _loose(obj: Any, dialect: Dialect, x: Any, context: Any) -> bool:
    """Whether the map stretches one number of each point over several entries of a guessed event."""
    if dialect.forward is None or len(x.shape) != 2:
        return False
    return stretches_tensors(partial(dialect.forward, obj, x, context), ROWS)


def _asks_for_more(obj: Any, facts: Facts) -> str:
    """What to say of an argument besides points that an object wants, where no context is given."""
    for method in ("forward", "log_prob", "inverse"):
        wanted = signatures.required(obj, method) if signatures.defines_method(obj, method) else []
        if facts.context_shape is None and len(wanted) == 2:
            return f"; {method} wants {wanted[1]} too: if that is a context, give its shape as ?context=2"
    return ""
