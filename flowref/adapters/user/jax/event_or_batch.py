"""How methods of a user's JAX object are called, found by trial calls: on batches or single events, with a
key, by position or name, and what they return.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from flowref import backends
from flowref.adapters.common import onto_sphere
from flowref.adapters.common.jax_events import FEWER, ROWS, SAME
from flowref.adapters.common.onto_simplex import FEW, excess, onto_simplex
from flowref.adapters.common.signatures import parameter_names, required
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.call_forms import (
    ARGUMENTS,
    GATHERED,
    asked_name,
    running_said,
)
from flowref.adapters.user.conventions.named_points import (
    fits_any_size,
    named_reading,
    unread_names,
)
from flowref.adapters.user.conventions.names import sign_of
from flowref.adapters.user.conventions.readings import Result, fields_of, log_det_keys
from flowref.adapters.user.conventions.returns import levels, return_reading
from flowref.adapters.user.conventions.signs import ADDED_BOTH_WAYS
from flowref.adapters.user.jax.jax_abilities import (
    FROM,
    KEYS,
    NAMED,
    NUMBERS,
    ONTO,
    SIZES,
    CallForm,
    Methods,
    SamplerSignature,
    batch_log_prob,
    batch_map,
    batch_samples,
    by_name,
    method_of,
    over_rows,
    running_of,
)
from flowref.model import Ambiguous, Facts, TargetError, draw_points, user_code_location


class Unmapped(TargetError):
    """Raised if a function of one event cannot be mapped by jax.vmap."""


class NamesUnread(TargetError):
    """Raised for a method that takes dictionaries of arrays whose sizes nothing shows."""


class OneNumber(TargetError):
    """Raised if a supposed map returns one number per point."""


def owner_of(obj: Any) -> Any:
    """The module of a pair with its variables; else the object."""
    return obj[0] if isinstance(obj, tuple | list) and obj else obj


def run_eagerly(function: Any, obj: Any, x: Any, context: Any, way: CallForm) -> Any:
    """The result of a dialect function, traced and run op by op, since each convention is tried once and
    compilation would dominate.
    """
    alone = shallow_copy(obj)
    try:
        run = backends.find("jax").once
        return run(lambda x, context: function(alone, x, context, way), x, context)
    except Exception:  # exceptions without the tracing are the object's
        return function(shallow_copy(obj), *as_arrays(x, context), way)


def shallow_copy(obj: Any) -> Any:
    """A shallow copy, since a trace may leave values in attributes; the object if it cannot be copied."""
    try:
        return copy.copy(obj)
    except Exception:  # objects without a copy are called themselves
        return obj


def as_arrays(x: Any, context: Any) -> tuple[Any, Any]:
    import jax.numpy as jnp

    return jnp.asarray(x), None if context is None else jnp.asarray(context)


def domain_batch(facts: Facts, ordinary: bool = False) -> tuple[Any, Any]:
    """Points of the domain and contexts. ``ordinary``: numbers between 0.25 and 3 if no domain is declared."""
    rng, shape = np.random.default_rng(0), (ROWS, *facts.event_shape)
    x, context = draw_points(facts.domain, shape, rng), None
    if ordinary and not facts.declared:
        x = rng.uniform(0.25, 0.75, shape)
    if facts.context_shape is not None:
        context = rng.standard_normal((ROWS, *facts.context_shape))
    return x, context


def with_form(obj: Any, way: CallForm, facts: Facts, ladj: Any, x: Any, context: Any) -> Facts:
    """Facts with the trailing axes of a log-det, or that it is one constant number. A number that changes
    with the batch, such as a sum over rows, promises nothing.
    """
    if ladj.ndim and len(ladj) == ROWS:
        return replace(facts, ladj_event=tuple(ladj.shape[1:]))
    if ladj.ndim:
        return facts
    fewer = None if context is None else context[:FEWER]
    if not close_arrays(run_eagerly(batch_map, obj, x[:FEWER], fewer, way)[1], ladj):
        return facts
    return replace(facts, promises={**facts.promises, "scalar-ladj": True})


def of_map(obj: Any, way: CallForm, x: Any, context: Any) -> CallForm:
    """The convention of a map: on a batch, if each row has the same image in a smaller batch; otherwise
    event by event. Raises the object's exception if neither works.

    If both work and a batch has one log-det that is not that of each row, or several numbers for each row
    where an event has one, code for single events is correct and code for batches is wrong: the former is
    assumed, unless the inverse accepts batches only (see `with_batches`).
    """
    way = with_running(obj, with_key(obj, way))
    try:
        found = _of_map(obj, way, x, context)
    except Exception:
        if (other := _gathered(obj, way, x, context)) is None:
            raise
        found = other
    return with_excess(obj, found, x, context) if found.simplex == ONTO else found


def _gathered(obj: Any, way: CallForm, x: Any, context: Any) -> CallForm | None:
    """The convention of a map that takes and returns value and running log-det together, or named arrays;
    None if it does neither.
    """
    methods = Methods(obj, way.keyed)
    taken_apart = signatures.unpacked(methods, way.method) or signatures.keys(methods, way.method)
    rows = map(ARGUMENTS.__getitem__, GATHERED) if way.form == "plain" and taken_apart else ()
    suited: list[Any] = [one for row in rows for one in row.suits(methods, way, x, context)]
    for one in (*suited, *named_forms(obj, way, x, context)):
        with contextlib.suppress(Exception):  # it takes something else
            return _of_map(obj, one, x, context)
    if why := unread_names(methods, asked_name(methods, way)):
        raise NamesUnread(why)
    return None


def named_forms(obj: Any, way: CallForm, x: Any, context: Any) -> list[CallForm]:
    """The forms in which a method takes dictionaries of arrays, as an attribute or its code names them."""
    suited: Any = ARGUMENTS[NAMED].suits(Methods(obj, way.keyed), way, x, context)
    return [one for one in suited if one.form == NAMED and not one.around]


def _of_map(obj: Any, way: CallForm, x: Any, context: Any) -> CallForm:
    import jax

    found: dict[bool, CallForm] = {}
    values: dict[bool, Any] = {}
    raised: dict[bool, Exception] = {}
    for single in (False, True):
        one = replace(way, single=single)
        try:
            one = _with_return_reading(obj, one, x, context)
            values[single] = run_eagerly(batch_map, obj, x, context, one)
            found[single] = one
        except Exception as error:  # another convention may fit
            raised[single] = error
    if False in found and _batched(obj, found[False], values[False], x, context):
        if True not in found or _agree(values[False], values[True]):
            ladj = values[False][1]
            if ladj is None or True not in found:
                return found[False]
            scalar = not ladj.ndim and not _constant(obj, found[True], x, context, float(ladj))
            one = values[True][1]
            several = ladj.ndim > 1 and one is not None and one.ndim == 1
            return found[True] if scalar or several else found[False]
        return found[False]
    if False in found and _meets(obj, found, values, x, context):
        return found[False]
    if True in found:
        return found[True]
    last = raised[True]
    if isinstance(last, jax.errors.JAXTypeError):
        raise Unmapped(
            f"{way.method or 'the function'} of {type(owner_of(obj)).__name__} takes one event at a time, and "
            f"jax.vmap cannot map it over several (it raised {type(last).__name__}{user_code_location(last)}): it needs "
            "jax.numpy where it has numpy, and jnp.where or jax.lax.cond where it has if"
        ) from last
    if False in found:
        raise TargetError(
            f"{way.method or 'the function'} of {type(owner_of(obj)).__name__} maps a row of a batch to another "
            f"value among fewer rows, and takes no event alone (it raised {type(last).__name__}"
            f"{user_code_location(last)}): a row has to be mapped by itself, with a log-det for each; statistics of a "
            "batch are for training, and not for evaluation"
        ) from last
    # A batch that was understood is more informative than an exception at one event.
    raise next((one for one in raised.values() if isinstance(one, TargetError)), last)


def with_batches(obj: Any, way: CallForm, back: CallForm, x: Any, context: Any) -> CallForm:
    """The convention of a map that accepts single events and batches, while its inverse accepts batches
    only: it is written for batches, and its single number is not a log-det per row.
    """
    many = replace(way, single=False)
    if not way.single:
        return way
    try:
        value, ladj = run_eagerly(batch_map, obj, x, context, many)
        y = np.asarray(value)
        takes = _batched(obj, many, (value, ladj), x, context) and ladj is not None
    except Exception:  # it accepts no batches
        return way
    back = with_running(obj, with_key(obj, replace(back, inverse=True)))
    if not takes or ladj.ndim or _works(obj, replace(back, single=True), y, context):
        return way
    return many if _works(obj, replace(back, single=False), y, context) else way


def _works(obj: Any, way: CallForm, x: Any, context: Any) -> bool:
    try:
        run_eagerly(batch_map, obj, x, context, _with_return_reading(obj, way, x, context))
    except Exception:  # it accepts others
        return False
    return True


def with_key(obj: Any, way: CallForm) -> CallForm:
    """The convention with a key for a method that requires one."""
    wanted = [name for name in required(method_of(obj, way.method)) if name in KEYS]
    return replace(way, keyed=wanted[0]) if wanted and not way.keyed else way


def with_running(obj: Any, way: CallForm) -> CallForm:
    """The convention with a running log-det, for a parameter of such a name or a second parameter declared
    as such, and with the sign that its name or the user gives.
    """
    run, said = method_of(obj, way.method), running_said(dict(way.chosen))
    names = running_of(run) or (required(run)[1:2] if said else [])
    if len(names) != 1 or way.form != "plain":
        return way
    return replace(way, form="running", keyword=names[0], sign=said or sign_of(names[0]))


def refuse_added(
    obj: Any, ways: tuple[CallForm, CallForm], points: tuple[Any, Any], context: Any
) -> None:
    """Raise `Ambiguous` if both directions add log-dets with the sign of a log-density: either they are
    wrong, or the name is.
    """
    given = None if context is None else context[:1]
    for way, x in zip(ways, points, strict=True):
        if way.sign != "subtract" or way.alone or dict(way.chosen).get("running"):
            return
        try:
            exact, reported = _log_dets(obj, way, x[:1], given)
        except Exception:  # exceptions are reported by laws
            return
        if abs(exact) <= SAME or not np.allclose(np.sum(reported), -exact, rtol=SAME, atol=SAME):
            return
    raise Ambiguous(ADDED_BOTH_WAYS.format(ways[0].keyword))


def _log_dets(obj: Any, way: CallForm, x: Any, context: Any) -> tuple[float, Any]:
    """The log-det of the Jacobian at a point, and the returned one."""
    import jax

    def flat(entries: Any) -> Any:
        return batch_map(obj, entries.reshape(x.shape), context, way)[0].reshape(-1)

    jacobian = backends.find("jax").once(jax.jacfwd(flat), np.ravel(x))
    return np.linalg.slogdet(jacobian)[1], run_eagerly(batch_map, obj, x, context, way)[1]


def with_excess(obj: Any, way: CallForm, x: Any, context: Any) -> CallForm:
    """The convention of a map onto a simplex, with whether its log-det is of the simplex's own volume (see
    `excess`).
    """
    size = x.shape[-1]
    if x.ndim != 2 or size > FEW or way.alone:
        return way
    given = None if context is None else context[:1]
    gaps = []
    for row in (0, 1):
        try:
            exact, reported = _log_dets(obj, way, x[row : row + 1], given)
        except Exception:  # exceptions are reported by laws
            return way
        gaps.append(float(np.sum(reported)) - exact)
    return replace(way, excess=excess(gaps, size))


def _with_return_reading(obj: Any, way: CallForm, x: Any, context: Any) -> CallForm:
    """The convention with the positions of value and log-det in the result. A separate log-det method
    counts only if the map returns none: next to a pair it may be an unrelated helper.
    """
    if way.form == NAMED:
        return _with_named_reading(obj, way, x, context)
    if way.log_det:
        bare = replace(way, log_det="", arguments=1, negated=False)
        out = run_eagerly(over_rows, obj, x, context, bare)
        if not isinstance(out, tuple | list) or levels(_result(obj, way, out, x)):
            reading = return_reading(_result(obj, way, (out, None), x))
            return _on(replace(way, reading=reading), reading.value((out, None)), x)
        with contextlib.suppress(TargetError):
            return _with_return_reading(obj, bare, x, context)
        return way
    out = run_eagerly(over_rows, obj, x, context, way)
    if not isinstance(out, tuple | list | Mapping) and not fields_of(out):
        out = _jax_array(out)
    if way.form in GATHERED:
        several = isinstance(out, tuple | list) and len(out) == ARGUMENTS[way.form].returned
        if not several or np.shape(out[1]) != (len(x),):
            raise TargetError("what it returns second is no running log-det")
    reading = return_reading(_result(obj, way, out, x))
    way = replace(way, reading=reading)
    if way.unseen and way.alone:
        raise TargetError(
            f"a {type(obj).__name__} returns one thing, which is no bijection: what is only called returns "
            "a value and a log-det"
        )
    return _of_value(way, reading.value(out), x)


def _with_named_reading(obj: Any, way: CallForm, x: Any, context: Any) -> CallForm:
    """The convention of a call that returns named arrays, in the order of its ``latents``, if it has them."""
    bare = replace(way, log_det="", arguments=1, negated=False)
    out = run_eagerly(over_rows, obj, x, context, bare)
    if way.log_det and isinstance(out, Mapping) and not log_det_keys(out):
        out = run_eagerly(over_rows, obj, x, context, way)
    else:
        way = bare
    names = tuple(name for name, _ in way.latents) or way.keys
    found = named_reading(out, x, names, way.keys)
    if found is None:
        raise TargetError("it returns no named arrays that make up a point")
    ladj = found.reading.ladj

    def log_det_of(twice: Any, x: Any) -> Any:
        return ladj(run_eagerly(over_rows, obj, x, context, twice))

    if not way.inverse and fits_any_size(obj, way, x, ladj(out), log_det_of):
        raise TargetError("its log-det is that of parts of other sizes as well")
    return replace(way, reading=found.reading, latents=found.latents)


def _result(obj: Any, way: CallForm, out: Any, x: Any) -> Result:
    name = "inverse" if way.inverse else "forward"
    code, owner = method_of(obj, way.method), owner_of(obj)
    return Result(out, len(x), x[0].size, name, dict(way.chosen), owner, code)


def _on(way: CallForm, value: Any, x: Any) -> CallForm:
    """The convention with whether the map goes between vectors and a simplex."""
    if way.simplex == FROM:
        return way
    onto = onto_simplex(x, _jax_array(value), way.simplex == ONTO)
    return replace(way, simplex=ONTO if onto else "")


def _jax_array(value: Any) -> Any:
    """A value as an array; numbers are accepted."""
    import jax.numpy as jnp

    if not hasattr(value, "shape") and not isinstance(value, int | float | complex):
        kind = type(value).__name__
        raise TargetError(
            f"forward returned a {kind} where an array is expected: let it return (value, log_det)"
        )
    return jnp.asarray(value)


def _of_value(way: CallForm, value: Any, x: Any) -> CallForm:
    import jax.numpy as jnp

    value = _jax_array(value)
    way = _on(way, value, x)
    if way.simplex == ONTO:
        return way
    if jnp.iscomplexobj(value):
        raise TargetError("it returns complex numbers, which are not judged")
    if way.alone and value.shape == (len(x),) and x.ndim > 1:
        # also if events have one entry, over which any parameter array broadcasts
        raise OneNumber(
            "it returns one number for each point and no log-det, which is no bijection: if that is a "
            "log-density, call the function log_prob; a map returns points as it takes them"
        )
    if not value.ndim or len(value) != len(x) or value.size != x.size:
        if value.ndim == x.ndim > 1 and len(value) == len(x) and value.size > x.size:
            raise TargetError(
                f"forward maps an event of shape {tuple(x.shape[1:])} to {tuple(value.shape[1:])}, and a "
                f"bijection keeps the number of entries{onto_sphere.advice(value)}; one onto a simplex "
                "gives positive numbers that sum to one, or says codomain=simplex"
            )
        raise TargetError(
            f"forward maps an event of shape {tuple(x.shape[1:])} to {tuple(value.shape[1:])}; a "
            "bijection keeps the number of entries. If the event shape is another, give it as "
            "?event=3 or ?event=2,4,4"
        )
    return way


def _batched(obj: Any, way: CallForm, out: Any, x: Any, context: Any) -> bool:
    """Whether a method called on a batch is written for batches: rows have the same image in a smaller
    batch, with a log-det each, or a constant one. One log-det per row also counts if rows depend on each
    other.
    """
    fewer = None if context is None else context[:FEWER]
    try:
        less = run_eagerly(batch_map, obj, x[:FEWER], fewer, way)
    except Exception:
        return False
    if not close_arrays(less[0], out[0][:FEWER]):
        return False
    if out[1] is None or not out[1].ndim:
        return True
    return len(out[1]) == len(x) and len(less[1]) == FEWER


def _meets(
    obj: Any, found: dict[bool, CallForm], values: dict[bool, Any], x: Any, context: Any
) -> bool:
    """Whether a method accepts batches whose rows depend on each other, as by batch statistics: one log-det
    per row for any number of rows, and none that is correct for single events.
    """
    fewer = None if context is None else context[:FEWER]
    try:
        shapes = [
            np.shape(one)
            for one in (
                values[False][1],
                run_eagerly(batch_map, obj, x[:FEWER], fewer, found[False])[1],
            )
        ]
        if shapes != [(len(x),), (FEWER,)]:
            return False
        if True not in found:
            return True
        if np.ndim(values[True][1]) < 2:  # one number per event
            return False
        exact, reported = _log_dets(
            obj, found[True], x[:1], None if context is None else context[:1]
        )
    except Exception:  # it accepts no batches
        return False
    return not np.allclose(np.sum(reported), exact, rtol=SAME, atol=SAME)


def _agree(one: Any, other: Any) -> bool:
    return close_arrays(one[0], other[0])


def _constant(obj: Any, way: CallForm, x: Any, context: Any, number: float) -> bool:
    """Whether the log-dets of events are the number that a batch has: a sum over rows is another."""
    ladj = np.asarray(run_eagerly(batch_map, obj, x, context, way)[1])
    return ladj.ndim == 1 and bool(np.allclose(ladj, number, rtol=1e-5, atol=1e-12))


def close_arrays(one: Any, other: Any) -> bool:
    if np.shape(one) != np.shape(other):
        return False
    return bool(np.allclose(one, other, rtol=SAME, atol=SAME, equal_nan=True))


def of_density(obj: Any, way: CallForm, x: Any, context: Any) -> CallForm:
    """The convention of a log-density: on a batch, or event by event; of arrays, or of dictionaries of them."""
    try:
        return _density_form(obj, way, x, context)
    except Exception:
        for one in named_forms(obj, way, x, context):
            with contextlib.suppress(Exception):  # it takes something else
                return _density_form(obj, one, x, context)
        raise


def _density_form(obj: Any, way: CallForm, x: Any, context: Any) -> CallForm:
    raised: Exception | None = None
    shown: dict[bool, Any] = {}
    for single in (False, True):
        try:
            out = np.asarray(
                run_eagerly(batch_log_prob, obj, x, context, replace(way, single=single))
            )
        except Exception as error:
            raised = error
            continue
        if out.shape == (len(x),):
            shown[single] = out
    alike = way.keyed or shown.keys() != {False, True}
    if not alike and not close_arrays(shown[False], shown[True]):
        return replace(way, single=True)
    if shown:
        return replace(way, single=False not in shown)
    raise raised or TargetError("log_prob gives no number for each point")


def of_sampler(
    obj: Any, method: str, x: Any, context: Any, keys: tuple[str, ...] = ()
) -> SamplerSignature | None:
    """The convention of a sampler; None if no trial call works. ``keys``: of the dictionaries of arrays that
    it may draw.
    """
    import jax

    forms = list(_sampler_signatures(method_of(obj, method), method, context is not None))
    for way in (*forms, *(replace(form, keys=keys) for form in forms if keys)):
        for number in (2, 3):
            try:
                given = None if context is None else as_arrays(x, context)[1][:number]
                out = batch_samples(obj, number, given, jax.random.key(0), way)
            except Exception:
                break
            if tuple(np.shape(out)) != (number, *x.shape[1:]):
                break
        else:
            return way
    return None


def _sampler_signatures(run: Any, method: str, conditional: bool) -> Iterator[SamplerSignature]:
    """Candidate signatures of a sampler, likeliest first."""
    names = parameter_names(run)
    more = ("context",) if conditional else ()
    key = [name for name in names if name in KEYS]
    size = [name for name in by_name(run) if name in (*SIZES, *NUMBERS)]
    if key and size and not more:  # distrax: sample(*, seed, sample_shape)
        for kind in ("shape", "number"):
            yield SamplerSignature(method, ("key", kind), names=(key[0], size[0]))
    first_is_key = bool(names) and names[0] in KEYS
    first = "shape" if set(names) & set(SIZES) else "number"
    other = "number" if first == "shape" else "shape"
    for kind in (first, other):
        orders = [("key", kind), (kind, "key")]
        for order in orders if first_is_key or not names else orders[::-1]:
            yield SamplerSignature(method, (*order, *more))
    yield SamplerSignature(method, ("key", *more), single=True)
