"""Trial calls of a user's JAX object: single events or batches, its results, and its event shape."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref import backends
from flowref.adapters.common.broadcast_detection import stretches
from flowref.adapters.common.events import Fit, Fits, Seen, first_event
from flowref.adapters.common.jax_events import ROWS
from flowref.adapters.common.normalizers import jax as jax_normalizers
from flowref.adapters.common.onto_simplex import simplex_words
from flowref.adapters.common.signatures import required
from flowref.adapters.user.conventions import scores
from flowref.adapters.user.conventions.call_evidence import NO_LADJ, refuse_unread
from flowref.adapters.user.conventions.call_forms import GATHERED, running_words
from flowref.adapters.user.conventions.named_points import named_words
from flowref.adapters.user.conventions.separate_log_dets import LOG_DET, OF_INVERSE
from flowref.adapters.user.event_broadcast import stated_event_shapes
from flowref.adapters.user.event_shapes import FEATURES, SIDE, SIDES, shapes
from flowref.adapters.user.extras import KINDS, NUMBERS, given, several, stated_context_shape
from flowref.adapters.user.inquiry import Inquiry
from flowref.adapters.user.jax.event_or_batch import (
    NamesUnread,
    OneNumber,
    Unmapped,
    as_arrays,
    close_arrays,
    domain_batch,
    of_density,
    of_map,
    of_sampler,
    owner_of,
    refuse_added,
    run_eagerly,
    shallow_copy,
    with_batches,
    with_form,
    with_key,
    with_running,
)
from flowref.adapters.user.jax.jax_abilities import (
    FROM,
    KEYS,
    NAMED,
    ONTO,
    PAIR,
    CallForm,
    Methods,
    batch_log_prob,
    batch_map,
    batch_samples,
    method_of,
    running_of,
    stochastic_batch_map,
)
from flowref.adapters.user.jax.traces import key_reaches, of_traces
from flowref.adapters.user.probe_calls import raised_most, unknown_shape
from flowref.adapters.user.processes.noise_processes import process_words
from flowref.model import Ambiguous, Dialect, Facts, Kernel, Shape, TargetError

# Keys tried for randomness: random signs agree for some keys.
KEYS_TRIED = 8
# Attributes, besides `FEATURES`, with the shape of an event.
SHAPES = ("shape", "input_shape", "image_shape", "data_shape", "x_shape", "in_shape")
# Errors of arrays in code that takes dictionaries or named tuples, and what is said of them.
PYTREE = re.compile(r"(Tracer|ArrayImpl\b)[^;]* has no attribute |string indexing")
PYTREES = (
    ": points are one array in JAX, or dictionaries of arrays that an attribute event_shapes = "
    "{'mu': (), 'scale': (2,)} states; state these, or audit a wrapper that takes flat arrays "
    "(jax.flatten_util.ravel_pytree)"
)
# Maximal channels and sides of tried images, and sizes of contexts.
MOST_CHANNELS, MOST_SIDE = 32, 32
CONTEXT_SIZES = (*range(1, 9), 10, 12, 16, 32)
Settled = tuple[Dialect, Facts, tuple[str, ...]]


def resolve_jax_object(obj: Any, dialect: Dialect, facts: Facts, state: Sequence[Shape]) -> Settled:
    """The calling conventions and facts of an object, and remarks. Raises `TargetError` or `UnknownShape`
    in one sentence.
    """
    if dialect.push is not None:
        return of_kernel(obj, dialect, facts)
    if dialect.is_process:
        return dialect, facts, process_words(dialect)
    if (layer := jax_normalizers.settled(obj, dialect, facts)) is not None:
        return with_way_back(obj, *layer)
    if facts.context_shape is None and (name := asked_for(obj, dialect)):
        asked = given(Inquiry(obj, dialect, backends.find("jax"), "", facts, {}), name, (SIZED,))
        return asked.dialect, asked.facts, asked.said
    if facts.event_shape or getattr(obj, "event_shape", None) == ():
        return _settled(obj, dialect, facts)
    raised: list[Exception] = []
    stated = set(stated_event_shapes(owner_of(obj), (*FEATURES, *SHAPES)))

    def fits(shape: Shape, seen: Seen) -> Fits[Settled]:
        if len(shape) != 1 and any(isinstance(one, OneNumber) for one in raised):
            return None  # sums over vectors also run along the last axis of images
        try:
            found = _settled(obj, dialect, replace(facts, event_shape=shape))
            draws = dialect.sample is None or found[0].sample is not None
            if draws and (shape in stated or not _loose(obj, *found[:2])):
                return Fit.WELL, found
        except (Drawing, Ambiguous):
            raise
        except Exception as error:  # the shape does not fit; the most frequent error is reported
            raised.append(error)
            return None
        return Fit.STRETCHED, found  # another shape may fit better

    found = first_event(event_shapes(obj, state), fits)
    if found is not None:
        shape = found[1].event_shape
        return found if shape in stated else guessed(obj, dialect, found, state)
    if none := next((one for one in raised if "which is no bijection" in str(one)), None):
        raise none
    if sure := next((one for one in raised if isinstance(one, NamesUnread | Unmapped)), None):
        raise sure
    if raised and PYTREE.search(why := raised_most(raised)):
        raise TargetError(f"{why}{PYTREES}")
    raise unknown_shape(obj, raised)


def of_kernel(obj: Any, dialect: Dialect, facts: Facts) -> Settled:
    """The conventions of a possibly random layer, on batches or event by event. Latents may have any shape;
    contributions are one number per row.
    """
    import jax

    key, (x, context) = jax.random.key(0), as_arrays(*domain_batch(facts))
    push, value = of_draws(obj, dialect.push, x, context, key)
    pull = None if dialect.pull is None else of_draws(obj, dialect.pull, value, context, key)[0]
    onward = key_reaches(obj, push, x, context)
    back = pull is None or key_reaches(obj, pull, value, context)
    kernel = replace(facts.kernel or Kernel(), reached=(onward, back))
    facts = replace(facts, latent_shape=tuple(value.shape[1:]), kernel=kernel)
    one = push.keywords["way"].single
    return replace(dialect, push=push, pull=pull), facts, ("one event at a time",) if one else ()


def of_draws(obj: Any, call: Any, x: Any, context: Any, key: Any) -> tuple[Any, Any]:
    """The convention of one direction, and its values."""
    raised: Exception | None = None
    for single in (False, True):
        call_form = partial(stochastic_batch_map, way=replace(way_of(call), single=single))
        try:
            value, ladj = call_form(obj, x, context, key)
        except Exception as error:  # another convention may fit
            raised = raised or error
            continue
        if value.shape[:1] == (len(x),) and (ladj is None or np.shape(ladj) == (len(x),)):
            return call_form, value
    raise raised or TargetError(
        f"{way_of(call).method} gives no value and no contribution for each of {len(x)} events"
    )


def with_way_back(obj: Any, dialect: Dialect, facts: Facts, said: tuple[str, ...]) -> Settled:
    """A batch norm with the convention of its inverse; without inverse if no call succeeds."""
    if dialect.inverse is None:
        return dialect, facts, said
    z = np.random.default_rng(2).standard_normal((ROWS, *facts.event_shape))
    try:
        way = replace(way_of(dialect.inverse), log_det="", arguments=1, negated=False, inverse=True)
        back = partial(batch_map, way=of_map(obj, way, z, None))
    except Exception:  # not an inverse of batches
        back = None
    return replace(dialect, inverse=back), facts, said


def event_shapes(obj: Any, state: Sequence[Shape]) -> Iterator[Shape]:
    """Candidate event shapes, likeliest first; images also with channels last, as usual in JAX."""
    owner = owner_of(obj)
    yield from stated_event_shapes(owner, SHAPES)
    yield from shapes(owner, state)
    yield from image_shapes(state)


def image_shapes(state: Sequence[Shape]) -> Iterator[Shape]:
    """Images and sequences, channels last, with channel numbers from sizes of arrays."""
    sizes = sorted({size for shape in state for size in shape if 1 < size <= MOST_CHANNELS})
    for sides in SIDES:
        yield from ((*sides, count) for count in (*sizes, 1))
    yield from ((SIDE, count) for count in sizes)


def guessed(obj: Any, dialect: Dialect, found: Settled, state: Sequence[Shape]) -> Settled:
    """The conventions with further event shapes that calls accept, if no attribute states it: other sizes,
    unless an array has that size, and images if calls accept any rank.
    """
    settled, facts, said = found
    shape = facts.event_shape
    sizes = {size for one in state for size in one if size > 1}
    others: list[Shape] = []
    if len(shape) == 1:
        others += [] if shape[0] in sizes else [(1,), (2,), (3,), (4,)]
        if not settled.forward or not way_of(settled.forward).single:
            sides = {side for side in _integer_attributes(owner_of(obj)) if side <= MOST_SIDE} | {
                SIDE
            }
            others += [(side, side, shape[0]) for side in sorted(sides)]
            others += [(SIDE, shape[0])]

    def fits(other: Shape) -> bool:
        try:
            _settled(obj, dialect, replace(facts, event_shape=other, latent_shape=None))
        except Exception:  # it does not
            return False
        return True

    fitting = tuple(other for other in others if other != shape and fits(other))
    return settled, replace(facts, guessed=fitting), said


def _integer_attributes(obj: Any) -> Iterator[int]:
    for value in getattr(obj, "__dict__", {}).values():
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, int) and not isinstance(one, bool) and one > 1:
                yield one


def way_of(call: Any) -> Any:
    """The convention of a call of this adapter."""
    return call.keywords["way"]


def asked_for(obj: Any, dialect: Dialect) -> str:
    """A required argument of the map, or of the log-density, besides a point and a key; empty if there is
    none.
    """
    call = dialect.forward or dialect.log_prob
    if call is None:
        return ""
    run = method_of(obj, way_of(call).method)
    known = {*KEYS, *running_of(run), *dict(way_of(call).given)}
    names = [name for name in required(run) if name not in known]
    return names[1] if len(names) == 2 else ""


def _sizes(inquiry: Inquiry, name: str, found: list[Inquiry]) -> Iterator[Inquiry]:
    for size in stated_context_shape(owner_of(inquiry.obj)) or CONTEXT_SIZES:
        if len(found) < 2 or found[0].facts.context_shape == (1,):
            yield inquiry.having(context_shape=(size,))


def _taking_size(inquiry: Inquiry, name: str) -> Inquiry:
    dialect, facts, said = resolve_jax_object(
        inquiry.obj, inquiry.dialect, inquiry.facts, inquiry.state
    )
    return replace(inquiry, dialect=dialect, facts=facts, said=said)


def _of_one_size(inquiry: Inquiry, name: str, found: list[Inquiry]) -> Inquiry:
    if len(found) > 1 and found[0].facts.context_shape == (1,):
        del found[0]  # one number broadcasts over all
    if len(found) > 1:
        raise several(name, found, inquiry.facts)
    return found[0].knowing(f"{name} of {math.prod(found[0].facts.context_shape or ())} numbers")


# Contexts of numbers, of a stated size, or of the only size that all calls accept.
SIZED = replace(NUMBERS, drawn=_sizes, read=_taking_size, settled=_of_one_size, of=KINDS)


def _loose(obj: Any, dialect: Dialect, facts: Facts) -> bool:
    """Whether the map broadcasts a per-point number over several entries of a guessed event."""
    import jax

    if dialect.forward is None or len(facts.event_shape) != 1:
        return False
    try:
        points = as_arrays(*domain_batch(replace(facts, declared=False), ordinary=True))
        closed = jax.make_jaxpr(partial(dialect.forward, shallow_copy(obj)))(*points)
    except Exception:  # an untraceable call shows nothing
        return False
    return stretches(closed.jaxpr, ROWS)


def _settled(obj: Any, dialect: Dialect, facts: Facts) -> Settled:
    x, context = domain_batch(facts, ordinary=True)
    said: list[str] = []
    onto = ""
    if facts.codomain is not None and facts.codomain.kind == "simplex":
        # A simplex is tested in coordinates, one fewer, whose range has no name.
        onto, facts = ONTO, replace(facts, codomain=None)
    if dialect.forward is not None:
        way = of_map(obj, replace(way_of(dialect.forward), simplex=onto), x, context)
        if dialect.inverse is not None:
            way = with_batches(obj, way, way_of(dialect.inverse), x, context)
        dialect = replace(dialect, forward=partial(batch_map, way=way))
        said += ["one event at a time"] if way.single else []
        said += [simplex_words(way.excess)] if way.simplex else []
        said += way.reading.words
        if way.running:
            said.append(running_words(Methods(obj, way.keyed), way))
        value, ladj = run_eagerly(batch_map, obj, x, context, way)
        facts = replace(facts, latent_shape=tuple(value.shape[1:]))
        facts, more = of_keys(obj, "forward", batch_map, facts, x, context, way)
        said += more
        if ladj is None:
            said.append(NO_LADJ)
        else:
            facts = with_form(obj, way, facts, ladj, x, context)
        if dialect.inverse is not None:
            y = np.asarray(value)
            back = replace(way_of(dialect.inverse), single=way.single, inverse=True)
            if way.reading.parts:
                back = replace(back, form="levels", shapes=way.reading.parts)
            elif way.form in GATHERED:
                back = replace(back, form=way.form, sign=way.sign, keys=way.keys)
            elif way.form == NAMED:
                taken = tuple(zip(way.keys, way.sizes, strict=True))
                back = replace(back.like(way), latents=taken)
            if way.simplex:
                back = replace(back, simplex=FROM, excess=-way.excess)
            back = with_running(obj, with_key(obj, back))
            with contextlib.suppress(Exception):  # exceptions of the inverse are reported by laws
                back = of_map(obj, back, y, context)
            refuse_added(obj, (way, back), (x, y), context)
            if way.alone and back.alone and not {LOG_DET, OF_INVERSE} & dict(way.chosen).keys():
                refuse_unread(owner_of(obj))
            dialect = replace(dialect, inverse=partial(batch_map, way=back))
            said += [f"inverse: {name}={value}" for name, value in back.given]
            facts, more = of_keys(obj, "inverse", batch_map, facts, y, context, back)
            said += more
        facts, more = of_traces(obj, dialect, facts, x, context, value)
        said += more
        if way.reading.log_prob and dialect.log_prob is None:
            dialect = replace(dialect, log_prob=partial(batch_log_prob, way=way))
    if dialect.log_prob is not None:
        way = of_density(obj, with_key(obj, way_of(dialect.log_prob)), x, context)
        dialect = replace(dialect, log_prob=partial(batch_log_prob, way=way))
        said += [named_words(way)] if way.form == NAMED else []
        facts, more = of_keys(obj, "log_prob", batch_log_prob, facts, x, context, way)
        said += more
        score, more = of_score(obj, way, x, context)
        dialect = replace(dialect, score=score)
        said += more
    if dialect.base_log_prob is not None and dialect.forward is not None:
        try:
            dialect.base_log_prob(obj, value, None)
        except Exception:  # it may accept single events only
            dialect = replace(dialect, base_log_prob=None)
    if dialect.bits_per_dim is not None:
        way = of_density(obj, with_key(obj, way_of(dialect.bits_per_dim)), x, context)
        dialect = replace(dialect, bits_per_dim=partial(batch_log_prob, way=way))
    if dialect.sample is not None:
        calls = (way_of(call) for call in (dialect.log_prob, dialect.forward) if call is not None)
        keys = next((one.keys for one in calls if one.form == NAMED), ())
        found = of_sampler(obj, way_of(dialect.sample).method, x, context, keys)
        if found is None:
            said.append("sample takes neither a key and a number nor a key alone: not judged")
        elif found.keys:
            said.append(f"sample: {found.method}(), named arrays")
        dialect = replace(
            dialect, sample=None if found is None else partial(batch_samples, way=found)
        )
    return dialect, facts, (*said, *process_words(dialect))


def of_keys(
    obj: Any, name: str, function: Any, facts: Facts, x: Any, context: Any, way: CallForm
) -> tuple[Facts, list[str]]:
    """Facts and remarks of a call that requires a key: log-dets that depend on the key are estimates.
    Raises `Drawing` if values do, since the call is no map or density.
    """
    if not way.keyed:
        return facts, []
    try:
        outs = [
            run_eagerly(function, obj, x, context, replace(way, stream=stream))
            for stream in range(KEYS_TRIED)
        ]
    except Exception:  # exceptions are reported by laws
        return facts, []
    values = [out if name == "log_prob" else out[0] for out in outs]
    kind = type(owner_of(obj)).__name__
    if not all(close_arrays(value, values[0]) for value in values):
        raise Drawing(
            f"{name} of {kind} draws by its {way.keyed}: "
            + (
                "an estimate of a log-density, which cannot be tested; name a factory whose log_prob "
                "computes the exact value (for a continuous flow the exact trace)"
                if name == "log_prob"
                else "a stochastic or surjective layer is no bijection; if that is intended, declare it by the "
                "attributes stochastic_forward and stochastic_inverse, or give the whole flow as a density"
            )
        )
    values = [out[1] for out in outs if out[1] is not None and name != "log_prob"]
    if all(close_arrays(value, values[0]) for value in values):
        return facts, [f"{name} takes a {way.keyed}, always the same"]
    return (
        replace(facts, promises={**facts.promises, "estimator": True}),
        [f"{name} draws by its {way.keyed}: its log-det is an estimate, held to no exact value"],
    )


def of_score(obj: Any, density: CallForm, x: Any, context: Any) -> tuple[Any, list[str]]:
    """The score of a density that is called in this way, where a method gives the shape of points, and what is said of
    it, or of a method that is not read; None where there is none.
    """
    owner, place = owner_of(obj), density.method.rpartition(".")
    chosen = dict(density.chosen)
    for name in scores.score_methods(owner, place[2], chosen) if place[2] else ():
        for single in (density.single, not density.single):
            way = replace(density, method=f"{place[0]}{place[1]}{name}", single=single)
            try:
                out = run_eagerly(batch_log_prob, obj, x, context, replace(way, reading=PAIR))
            except Exception:  # it is asked otherwise, or is something else
                continue
            if np.shape(out) != np.shape(x) or not np.issubdtype(out.dtype, np.floating):
                continue
            if not chosen.get(scores.SCORE) and scores.is_doubtful(owner, name, x[0].size):
                return None, [scores.doubt_hint(name)]
            return partial(batch_log_prob, way=replace(way, reading=PAIR)), [f"score: {name}()"]
    return None, []


class Drawing(TargetError):
    """Raised if a supposed map returns random values."""
