"""Candidate event shapes of a user's object, and the first of them at which its calls work."""

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
from flowref.adapters.user.event_broadcast import stated_event_shapes, stretches_tensors
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

# Usual attributes for the number of features.
FEATURES = (
    "features", "num_features", "n_features", "dim", "dims", "d", "D", "ndim", "n_dim", "input_dim", "in_features",
    "data_dim", "input_size", "size", "num_inputs", "n_inputs", "channels", "num_channels", "n",
)  # fmt: skip
# Usual attributes for the shape of an event.
WHOLE = ("input_shape", "data_shape", "in_shape", "x_shape", "image_shape")
# Usual attributes for the number of channels of images or sequences.
CHANNELS = (
    "channels", "num_channels", "n_channels", "in_channels", "in_channel", "num_features", "c_in", "c",
)  # fmt: skip
# Sides of tried images, and lengths of tried sequences.
SIDE = 4
LENGTH = 6
# Sizes of images: height differs from width, so that axes are told apart; some are divisible by
# four.
SIDES = ((SIDE, LENGTH), (SIDE, 2 * SIDE), (SIDE, SIDE), (2 * SIDE, 2 * SIDE))
# An event shape and its context shape.
Pair = tuple[Shape, Shape | None]
# Messages about the number of axes, which no size can fix.
AXES = re.compile(r"dimension|subscript|unpack|indices|\dD\b")
# Sizes of arrays up to which they are tried first as numbers of features, and at all; also for
# stated shapes.
SMALL, MOST = 256, 4096
# Alternative events, if only calls determined the shape.
OTHERS = ((2,), (3,), (4,))
# Numbers of features tried without any hint, likeliest first.
USUAL = (4, 2, 3, 1, 6, 8, 5, 7, 10, 12, 16, 20, 32, 64)


def shapes(obj: Any, state: Sequence[Shape]) -> Iterator[Shape]:
    """Candidate event shapes, likeliest first; ``state``: the shapes of the object's arrays."""
    own = getattr(obj, "event_shape", None)
    if isinstance(own, tuple) and not own:  # events are scalars
        yield ()
    for method in ("forward", "log_prob"):
        if len(parts := signatures.point_names(obj, method)) > 1:
            yield (sum(entries or 1 for entries in parts.values()),)
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
    # Flattened images come last, since inner layers are often wider than events.
    yield from (
        (sizes[-1],) for sizes in state if len(sizes) in (1, 2) and SMALL < sizes[-1] < MOST
    )
    yield ()
    stated = [getattr(obj, name, None) for name in CHANNELS]
    named = [size for size in stated if type(size) is int and 0 < size < 4096]
    # A size of one is broadcast, seldom a number of channels.
    found = {size for sizes in state for size in sizes if size <= 64}
    channels = [*dict.fromkeys(named), *sorted(found, key=lambda size: (size == 1, size))]
    for count in dict.fromkeys((*channels, 2, 1, 3, 4)):
        for sides in SIDES:
            yield (count, *sides)
            yield (2 * count, *sides)
    for count in dict.fromkeys((*channels, 2, 3, 4)):
        if count == SIDE:  # as many channels as positions would be ambiguous
            yield (count, LENGTH)
        yield (count, SIDE)
        yield (SIDE, count)
    # Images, channels last.
    yield from ((*sides, count) for count in dict.fromkeys((*channels, 1, 2, 3)) for sides in SIDES)
    # Vectors written as images of one pixel.
    yield from ((size, 1, 1) for count in (*channels, 2, 3, 4) for size in (count, 2 * count))


def stretched(sizes: Shape) -> Shape:
    """The event shape for which an array holds one number per channel, broadcast along other axes; empty if
    it does not.
    """
    if len(sizes) < 3 or sizes[0] != 1 or sum(size > 1 for size in sizes) != 1:
        return ()
    # Equal numbers of positions and channels, or of rows and columns, would be ambiguous.
    sides = itertools.cycle((LENGTH, SIDE) if SIDE in sizes else (SIDE, LENGTH))
    return tuple(size if size > 1 else next(sides) for size in sizes[1:])


def infer_shape(inquiry: Inquiry) -> Shape:
    """The first candidate shape at which all calls work and keep the number of entries; if inverse,
    log-density or samples work at none, the first at which the map does.

    Raises `UnknownShape` with the most frequent error if there is none.
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
            return None  # an axis of size one hides a wrong number of axes
        if one_way and shape[1:] == (1, 1):
            return None  # a single pixel hides a wrong layout
        try:
            point = inquiry.tried_at(shape, facts.context_shape)
            if not (fitting := resolve_object(inquiry, *point)):
                return None
            if shape in stated_event_shapes(obj, FEATURES):
                return Fit.WELL, shape
            if _odd(obj, fitting.dialect.forward, *point):
                return Fit.ODD, shape  # at another shape it may be one number per point
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
        # The shape does not fit; the first error is reported if none does
        except Exception as error:
            raised.append(error)
        return None

    likely = ((shape, facts.context_shape) for shape in shapes(obj, inquiry.state))
    usual = (shape for (shape, _), _ in taken_first(inquiry, likely))
    candidates = itertools.chain(usual, _of_samples(inquiry))
    found = first_event(_with_more(candidates, sampled), fits)
    if found is not None:
        return found
    if sized := [one for one in raised if isinstance(one, TargetError)]:
        raise UnknownShape(raised_most(sized))
    raise unknown_shape(obj, raised, _asks_for_more(obj, facts))


def _of_samples(inquiry: Inquiry) -> Iterator[Shape]:
    """The shape of samples of a density, if they come along a first axis."""
    dialect = inquiry.dialect
    if dialect.sample is None or dialect.forward is not None or inquiry.facts.context_shape:
        return
    for count in (ROWS, (ROWS,)):
        try:
            drawn = inquiry.backend.array(dialect.sample(inquiry.obj, count, None))
        except Exception:  # sampling needs other arguments
            continue
        if np.ndim(drawn) and len(drawn) == ROWS:
            yield tuple(np.shape(drawn)[1:])
            return


def call_refusal(inquiry: Inquiry, event: Shape, context: Shape | None) -> Exception | None:
    """The exception of the map's usual call, made once, since resolving its return takes several calls.
    None if it returns, or another calling form may be meant.
    """
    way = inquiry.way
    if way is None or way.form != "plain":
        return None
    try:
        way.ask(inquiry.obj, *inquiry.tried_at(event, context))
    except Exception as error:  # reported where the return is resolved
        return error
    return None


def taken_first(inquiry: Inquiry, pairs: Iterable[Pair]) -> Iterator[tuple[Pair, bool]]:
    """Candidate event and context shapes that calls accept, then the others, each with whether it is
    accepted.
    """
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
            # An error about too few axes applies to all sizes.
            said = str(error).replace(f"{ROWS}, {event[0]}", "")
            words.add("" if said in words else said)
    yield from ((pair, True) for pair in others)


def _with_more(usual: Iterator[Shape], found: list[Shape]) -> Iterator[Shape]:
    """The usual shapes, each followed by shapes found meanwhile."""
    for shape in usual:
        yield shape
        while found:
            yield found.pop()


def alternatives(inquiry: Inquiry) -> tuple[Shape, ...]:
    """Further event shapes that calls accept, if neither attributes nor arrays determine it. A single
    feature only if events may be scalars, since code with an axis is meant for several.
    """
    obj, dialect, shape = inquiry.obj, inquiry.dialect, inquiry.facts.event_shape
    sizes = {size for array in inquiry.state for size in array if size > 1}
    if len(shape) != 1 or shape in stated_event_shapes(obj, FEATURES) or shape[0] in sizes:
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
    """The event shape of points, or of latents if both differ by axes of size one and only latents can be
    inverted, as for a map that takes vectors and computes on images of one pixel.
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
    return tuple(size for size in shape if size > 1)


def _odd(obj: Any, forward: Any, x: Any, context: Any) -> bool:
    """Whether the log-det at a guessed event is neither per point, per entry, nor constant, as if axes of
    another event were summed.
    """
    ladj = None if forward is None else forward(obj, x, context)[1]
    if ladj is None:
        return False
    entries = math.prod(getattr(ladj, "shape", ()))
    if entries == 1 < len(x):  # the first axis of the event may have been taken for the batch
        differs = ladj != forward(obj, 0.5 * x + 0.1, context)[1]
        return bool(differs.any() if hasattr(differs, "any") else differs)
    return entries not in (len(x), math.prod(x.shape))


def _loose(obj: Any, dialect: Dialect, x: Any, context: Any) -> bool:
    """Whether the map broadcasts a per-point number over several entries of a guessed event."""
    if dialect.forward is None or len(x.shape) != 2:
        return False
    return stretches_tensors(partial(dialect.forward, obj, x, context), ROWS)


def _asks_for_more(obj: Any, facts: Facts) -> str:
    """A hint about a required argument besides points, if no context is given."""
    for method in ("forward", "log_prob", "inverse"):
        wanted = signatures.required(obj, method) if signatures.defines_method(obj, method) else []
        if facts.context_shape is None and len(wanted) == 2:
            return f"; {method} wants {wanted[1]} too: if that is a context, give its shape as ?context=2"
    return ""
