"""What calls of a user's object show: which event shape it takes, and what its calls return."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.adapters.common import onto_sphere
from flowref.adapters.common.normalizers import recognition
from flowref.adapters.common.normalizers import shapes as layer_shapes
from flowref.adapters.user import calls
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.arrays import computes_in_arrays, through_arrays
from flowref.adapters.user.conventions.asking import called_with, log_prob_column
from flowref.adapters.user.conventions.call_forms import GIVEN_ONES, Chosen
from flowref.adapters.user.conventions.encoding import encodes, map_beside
from flowref.adapters.user.conventions.labels import CLASSES, labels_of, with_labels
from flowref.adapters.user.conventions.offset import without
from flowref.adapters.user.conventions.onward import onward_of
from flowref.adapters.user.conventions.samples import sampler, settle_beside, settle_sample
from flowref.adapters.user.conventions.settling import NO_LADJ, Settled, settle_map
from flowref.adapters.user.conventions.sums import settle_sum
from flowref.adapters.user.conventions.times import with_times
from flowref.adapters.user.conventions.told import settle_told
from flowref.adapters.user.inquiry import ROWS, Inquiry
from flowref.adapters.user.parts import made_of
from flowref.adapters.user.stretching import ENOUGH, stretches_tensors, told_shapes
from flowref.model import (
    Ambiguous,
    Dialect,
    Facts,
    FlowrefError,
    Shape,
    SpecError,
    TargetError,
    UnknownShape,
    one_line,
    place_of,
)

# Attributes that commonly name the number of features.
FEATURES = (
    "features", "num_features", "n_features", "dim", "dims", "d", "D", "ndim", "n_dim", "input_dim", "in_features",
    "data_dim", "input_size", "size", "num_inputs", "n_inputs", "channels", "num_channels", "n",
)  # fmt: skip
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
# Sizes of arrays up to which they are tried as numbers of features first, and at all.
SMALL, MOST = 256, 4096
# Events that are tried where nothing but calls told the one that was taken.
OTHERS = ((2,), (3,), (4,))
# Numbers of features that are tried where nothing tells any, likeliest first.
USUAL = (4, 2, 3, 1, 6, 8, 5, 7, 10, 12, 16, 20, 32, 64)


def settle(inquiry: Inquiry, x: Any, context: Any, shaped: bool = True) -> Settled:
    """How an object speaks, as far as calls show it. ``shaped``: its map is known to take points of
    this shape, so that a log-density that raises is broken.
    """
    if (count := inquiry.chosen.get(CLASSES)) and context is not None:
        rest = {name: value for name, value in inquiry.chosen.items() if name != CLASSES}
        labels = labels_of(context, int(count))
        settled = settle(replace(inquiry, chosen=rest), x, labels, shaped)
        return replace(settled, dialect=with_labels(settled.dialect, int(count)))
    inquiry = _given_alike(_mapping(inquiry, x, context))
    obj, chosen = inquiry.obj, inquiry.chosen
    settled = Settled(inquiry.dialect)
    if settled.dialect.forward is not None:
        settled = _settle_map(inquiry, x, context)
    if inquiry.dialect.log_prob is None and settled.dialect.log_prob is not None:
        settled = replace(settled, dialect=_with_samples(obj, settled.dialect, chosen))
    if settled.dialect.log_prob is not None:
        settled = _settle_density(inquiry, settled, x, context, shaped)
    dialect = settled.dialect
    if dialect.sample is not None:
        dialect, words = settle_sample(obj, dialect, x, context, chosen)
        settled = settled.saying(*words)
    dialect, words = settle_beside(obj, dialect, x, context, chosen)
    settled = settled.saying(*words)
    dialect = with_times(obj, dialect, x, context, chosen)
    if context is None:
        dialect, words = settle_told(obj, dialect, x)
        settled = settled.saying(*words)
    if "offset" in chosen:
        dialect, said = without(dialect, chosen["offset"], math.prod(x.shape[1:]))
        settled = settled.saying(said)
    return replace(settled, dialect=dialect)


def _settle_density(
    inquiry: Inquiry, settled: Settled, x: Any, context: Any, shaped: bool
) -> Settled:
    """With its log-density as calls show it; without it where that raises, and the map does not."""
    obj, dialect = inquiry.obj, settled.dialect
    if calls.method_of(dialect.log_prob) and computes_in_arrays(obj, dialect.log_prob, x, context):
        dialect = replace(dialect, log_prob=partial(through_arrays, call=dialect.log_prob))
    ask: Any = dialect.log_prob
    try:
        told = ask(obj, x, context)
    except Exception as error:
        if dialect.forward is None:
            raise
        # What is not implemented says nothing of shapes.
        if not shaped and not isinstance(error, NotImplementedError):
            raise NoWayBack(error) from error
        broken = {"log_prob": f"{one_line(error, 200)}{place_of(error)}"}
        return replace(settled, dialect=replace(dialect, log_prob=None), broken=broken)
    if getattr(ask, "func", None) is calls.log_prob_of_entries:
        method = calls.density_method(ask)
        settled = settled.saying(
            f"{method}({', '.join(signatures.required(obj, method))}) of a point"
        )
    if tuple(getattr(told, "shape", ())) == (len(x), 1) and (method := calls.method_of(ask)):
        ask = partial(log_prob_column, method=method)
        settled = settled.saying("log_prob (B,1), squeezed")
    each, said, slip = settle_sum(obj, ask, x, context, inquiry.chosen)
    settled = replace(settled, dialect=replace(dialect, log_prob=each))
    return replace(settled.saying(*filter(None, [said])), promises=settled.promises | slip)


def _given_alike(inquiry: Inquiry) -> Inquiry:
    """What is asked of one whose log-density is given what its map was settled to be given: a mask of ones, or a label."""
    name, _, kind = inquiry.chosen.get(GIVEN_ONES, "").partition("=")
    method = calls.method_of(inquiry.dialect.log_prob)
    if not name or not method or name not in signatures.required(inquiry.obj, method):
        return inquiry
    context = signatures.apart(inquiry.obj, method, 1)
    dense = partial(called_with, method=method, bound=((name, kind),), keyword=context)
    return replace(inquiry, dialect=replace(inquiry.dialect, log_prob=dense))


def _mapping(inquiry: Inquiry, x: Any, context: Any) -> Inquiry:
    """What is asked of a density that has its map in a pair of methods, such as encode and decode, or
    that is called for it and has no way back; as it was where it has none.
    """
    from flowref.adapters.user.adapter import dialect_of

    obj, dialect, chosen = inquiry.obj, inquiry.dialect, inquiry.chosen
    if dialect.forward is not None or dialect.log_prob is None or "forward" in chosen:
        return inquiry
    if onward_of(obj, dialect.log_prob, x, context):
        inquiry = inquiry.knowing(forward="forward")
    elif context is None and (pair := map_beside(obj, x)):
        inquiry = inquiry.knowing(forward=pair[0], inverse=chosen.get("inverse", pair[1]))
    else:
        return inquiry
    return replace(inquiry, dialect=dialect_of(obj, inquiry.chosen) or dialect)


def _with_samples(obj: Any, dialect: Dialect, chosen: Chosen) -> Dialect:
    """The dialect of a density that was found by a call, with its samples and its base."""
    dialect = replace(dialect, sample=sampler(obj, chosen) or dialect.sample)
    if any(hasattr(getattr(obj, name, None), "log_prob") for name in calls.BASES):
        return replace(dialect, base_log_prob=calls.base_log_prob, base_sample=calls.base_sample)
    return dialect


def _settle_map(inquiry: Inquiry, x: Any, context: Any) -> Settled:
    obj, dialect, facts, chosen = inquiry.obj, inquiry.dialect, inquiry.facts, inquiry.chosen
    volume = bool(facts.promises.get("volume-preserving"))
    if dialect.log_prob is not None and not chosen.keys() & {"returns", "forward"}:
        run = obj if callable(obj) else getattr(obj, "forward", None)
        try:
            out = None if run is None else run(x) if context is None else run(x, context)
        except Exception:  # it may want more than that
            out = None
        if len(getattr(out, "shape", (0, 0))) <= 1 < len(x.shape):
            # A density whose forward returns its log-likelihood, and no latent.
            return Settled(replace(dialect, forward=None, inverse=None, base_log_prob=None))
    try:
        settled = settle_map(obj, dialect, x, context, chosen, volume)
    except TargetError:
        if dialect.log_prob is None or "forward" in chosen or not encodes(obj):
            raise
        # A density that has an encoder besides.
        return Settled(replace(dialect, forward=None, inverse=None, base_log_prob=None))
    if facts.normalizer is not None:
        said = tuple(one for one in settled.conventions if one != NO_LADJ)
        return replace(settled, conventions=said, hints=())
    if settled.dialect.parts is not None and not made_of(obj, settled, x, context):
        return replace(settled, dialect=replace(settled.dialect, parts=None))
    return settled


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
    tried: set[Shape] = set()
    raised: list[Exception] = []
    one_way: list[Shape] = []
    loose: list[Shape] = []
    odd: list[Shape] = []
    sampled: list[Shape] = []
    likely = ((shape, facts.context_shape) for shape in shapes(obj, inquiry.state))
    usual = (shape for (shape, _), _ in taken_first(inquiry, likely))
    for shape in _with_more(usual, sampled):
        if shape in tried or (loose and (len(shape) != 1 or shape[0] < 2)):
            continue
        if odd and (len(shape) == len(odd[0]) or 1 in shape):
            continue  # an axis of one hides what another number of axes explains
        if one_way and shape[1:] == (1, 1):
            continue  # and one pixel what many show
        if len(loose) == ENOUGH:
            break
        tried.add(shape)
        try:
            point = inquiry.tried_at(shape, facts.context_shape)
            if fitting := fit(inquiry, *point):
                stated = shape in told_shapes(obj, FEATURES)
                if not stated and _odd(obj, fitting.dialect.forward, *point):
                    odd.append(shape)  # at another it may be one number for each point
                elif stated or not _loose(obj, dialect, *point):
                    return shape if stated else _of_latent(fitting, inquiry, *point)
                else:
                    loose.append(shape)  # another may fit better
        except NoWayBack as error:
            one_way.append(shape)
            raised.append(error.error)
            sampled += error.sampled
        except (Ambiguous, SpecError):
            if loose:
                continue
            raise
        except Exception as error:  # the shape does not fit; the first error is told if none does
            raised.append(error)
    if loose or odd or one_way:
        return [*loose, *odd, *one_way][0]
    if sized := [one for one in raised if isinstance(one, TargetError)]:
        raise UnknownShape(raised_most(sized))
    own = f"{raised_most(raised)}; " if raised else ""
    raise UnknownShape(
        f"{own}the event shape of {type(obj).__name__} is not known; give it as ?event=3 or "
        "?event=2,4,4 (or --event 3), "
        f"or as an attribute event_shape{_asks_for_more(obj, facts)}"
    )


def refusal(inquiry: Inquiry, event: Shape, context: Shape | None) -> Exception | None:
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
            error = refusal(inquiry, event, context)
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
            if not fit(inquiry, point, None):
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
        fitting = fit(inquiry, x.reshape(x.shape[:1] + other), context)
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
        wanted = signatures.required(obj, method) if signatures.own(obj, method) else []
        if facts.context_shape is None and len(wanted) == 2:
            return f"; {method} wants {wanted[1]} too: if that is a context, give its shape as ?context=2"
    return ""


class NoWayBack(Exception):
    """The map works on a shape, and the way back, or the log-density, raises ``error``; ``sampled``: the
    shapes that samples have instead.
    """

    def __init__(self, error: Exception, *sampled: Shape) -> None:
        super().__init__(str(error))
        self.error, self.sampled = error, sampled


def fit(inquiry: Inquiry, x: Any, context: Any) -> Settled | None:
    """How an object speaks where every call takes a batch of events and keeps the number of entries; None where one
    returns something else. Raises what a call raises, `NoWayBack` where the map alone takes it.
    """
    obj, settled = inquiry.obj, settle(inquiry, x, context, shaped=False)
    dialect, latent = settled.dialect, settled.latent
    if latent is not None and len(latent) != ROWS:
        return None
    if latent is not None and math.prod(latent.shape) != math.prod(x.shape):
        raise TargetError(
            f"forward maps an event of shape {tuple(x.shape[1:])} to {tuple(latent.shape[1:])}, and a "
            f"bijection keeps the number of entries{onto_sphere.advice(latent)}"
        )
    if latent is not None and dialect.inverse is not None:
        try:
            back, _ = dialect.inverse(obj, latent, context)
        except Exception as error:  # whose fault it is shows when other shapes are tried
            raise NoWayBack(error) from error
        if back.shape != x.shape:
            return None
    if dialect.log_prob is not None:
        if math.prod(dialect.log_prob(obj, x, context).shape) != ROWS:
            return None
        if dialect.sample is not None and context is None:
            _samples_fit(obj, dialect, x)
    return settled


def _samples_fit(obj: Any, dialect: Dialect, x: Any) -> None:
    try:
        drawn = dialect.sample(obj, 2, None)  # type: ignore[misc]  # asked before
        shape = tuple(drawn.shape)
    except Exception:  # what a sampler does is the laws' affair
        return
    if shape != (2, *x.shape[1:]):
        other = (shape[1:],) if shape[:1] == (2,) else ()
        raise NoWayBack(ValueError(f"sample(2) returned shape {shape}"), *other)


def raised_most(raised: Sequence[Exception]) -> str:
    """What an object raised, with the place in its own file: what it raised most often, the first
    among equals.
    """
    sentences = [
        str(error)
        if isinstance(error, FlowrefError)
        else f"it raised {one_line(error, 200)}{place_of(error)}"
        for error in raised
    ]
    return max(dict.fromkeys(sentences), key=sentences.count)
