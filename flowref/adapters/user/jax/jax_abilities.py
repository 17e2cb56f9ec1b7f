"""Dialect functions for users' JAX objects: one per ability, with a `CallForm` that says which method is called,
on events or batches, and where its log-det is.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

from flowref.adapters.common.jax_running import running_numbers
from flowref.adapters.common.jax_states import EVALUATING
from flowref.adapters.common.onto_simplex import with_last, without_last
from flowref.adapters.common.signatures import parameter_names, parameters_of, required
from flowref.adapters.user.conventions import call_forms, return_forms
from flowref.adapters.user.conventions.method_calls import named_arrays, unflattened_latents
from flowref.adapters.user.conventions.names import FLAGS, sign_of
from flowref.adapters.user.conventions.readings import Reading

# Parameter names of random keys, and of a number or shape of samples.
KEYS = ("key", "rng", "seed", "prng_key", "rng_key", "prng", "rngs", "random_key")
SIZES = ("sample_shape", "shape")
# Parameter names of a number of samples.
NUMBERS = ("n", "num_samples")
SAMPLER_SIZES = (*SIZES, *NUMBERS, "n_samples", "num", "size", "sample_size", "nsamples", "count")
# Parameter names of a function's parameters, where they are not first.
PARAMETERS = ("params", "parameters", "param", "variables", "weights", "theta")
# The parameter of a log-det method for the number of event axes.
AXES = "event_ndims"
# Prefixes of functions in composite objects: an index, an index with that of the parameters, or a
# method of a module paired with its variables (flax) or its state (equinox).
BOUND, STATED = "bound.", "stated."
# The form of calls that take dictionaries of arrays.
NAMED = "named"
# Directions of maps between vectors and a simplex, whose last coordinate is dropped.
ONTO, FROM = "onto", "from"
# The usual return of a value and its log-det.
PAIR = Reading(
    partial(return_forms.entry, index=0), partial(return_forms.entry, index=1), usual=True
)


@dataclass(frozen=True)
class CallForm(call_forms.CallForm):
    """How a method of a JAX object is called.

    ``method``: see `method_of`;
    ``single``: takes one event;
    ``reading``: positions of value and log-det in the result;
    ``unseen``: a map only if it has a log-det;
    ``inverse``: the inverse direction;
    ``chosen``: the user's options about the result;
    ``log_det``: a separate log-det method with so many ``arguments``; ``negated``: given at the image;
    ``keyed``: the name of its key parameter, which always gets key number ``stream``;
    ``simplex``: `ONTO` or `FROM` a simplex; ``excess``: what its log-det counts in addition (see
        `common.onto_simplex.excess`).
    """

    single: bool = False
    reading: Reading = PAIR
    unseen: bool = False
    inverse: bool = False
    chosen: tuple[tuple[str, str], ...] = ()
    log_det: str = ""
    arguments: int = 1
    negated: bool = False
    keyed: str = ""
    stream: int = 0
    simplex: str = ""
    excess: float = 0.0

    @property
    def alone(self) -> bool:
        """Whether the value is returned without a log-det."""
        return self.reading.ladj is return_forms.none


def method_of(obj: Any, name: str) -> Any:
    """The method as a function of points, in eval mode if it has one."""
    if name[:1].isdigit():
        place, _, first = name.partition(":")
        run = obj[int(place)]
        return in_eval_mode(with_parameters(run, obj[int(first)]) if first else run)
    if name.startswith(BOUND):
        return in_eval_mode(getattr(obj[0].bind(obj[1]), name.removeprefix(BOUND)))
    if name.startswith(STATED):
        import equinox

        model = equinox.nn.inference_mode(obj[0])
        return stateless(in_eval_mode(getattr(model, name.removeprefix(STATED))), obj[1])
    return in_eval_mode(getattr(unused(obj), name) if name else obj)


def with_parameters(run: Any, values: Any) -> Any:
    """The function with its parameters bound: by a usual name, which may stand behind a key or a point,
    else the first argument.
    """
    place = next((at for at, name in enumerate(parameter_names(run)) if name in PARAMETERS), 0)
    if not place:
        return partial(run, values)

    def called(*points: Any, **more: Any) -> Any:
        before, after = points[:place], points[place:]
        return run(*before, values, *after, **more)

    signature = inspect.signature(run)
    rest = list(signature.parameters.values())
    called.__signature__ = signature.replace(parameters=rest[:place] + rest[place + 1 :])  # type: ignore[attr-defined]  # inspect reads it
    return called


def unused(obj: Any) -> Any:
    """An object whose methods can be called repeatedly: a flax module bound to variables names submodules
    only in its first call.
    """
    if getattr(obj, "scope", None) is None or not callable(getattr(obj, "unbind", None)):
        return obj
    module, variables = obj.unbind()
    return module.bind(variables)


def in_eval_mode(run: Any) -> Any:
    """A function with its mode argument, if it has one, set to evaluation."""
    chosen = {name: EVALUATING[name] for name in parameter_names(run) if name in EVALUATING}
    return partial(run, **chosen) if chosen else run


def stateless(run: Any, state: Any) -> Any:
    """A function of points with its state bound, returning no state."""
    signature = inspect.signature(run)

    def called(*points: Any, **more: Any) -> Any:
        out = run(*points, **({"state": state} if "state" in signature.parameters else {}), **more)
        if not isinstance(out, tuple):
            return out
        kept = tuple(one for one in out if not isinstance(one, type(state)))
        return kept[0] if len(kept) == 1 else kept

    others = [one for one in signature.parameters.values() if one.name != "state"]
    called.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]  # inspect reads it
    return called


class Methods:
    """The methods of an object as functions of points (see `method_of`), with a key if they need one."""

    def __init__(self, obj: Any, keyed: str = "", key: Any = None) -> None:
        self._given = obj, keyed, key

    def __getattr__(self, name: str) -> Any:
        obj, keyed, key = self._given
        run = method_of(obj, name)
        if not keyed:
            return run
        # Transformed haiku functions take the key first.
        return (
            partial(run, key)
            if parameter_names(run)[:1] == [keyed]
            else partial(run, **{keyed: key})
        )

    def __call__(self, *points: Any, **more: Any) -> Any:
        """Call the object itself."""
        return self.__getattr__("")(*points, **more)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__getattr__(""))


def method_result(
    obj: Any, x: Any, context: Any, way: CallForm, key: Any = None, before: Any = None
) -> Any:
    """The result of a method for one event or a batch; ``before``: a running log-det."""
    import jax

    given = jax.random.key(way.stream) if way.keyed and key is None else key
    inputs = (before,) if way.running else ()
    out = way.ask(Methods(obj, way.keyed, given), x, context, *inputs)
    if not way.log_det:
        return out
    value = out[0] if isinstance(out, tuple) else out
    point = unflattened_latents(x, way.shapes) if way.shapes else x
    point = named_arrays(x, way.keys, way.sizes) if way.form == NAMED else point
    ends = (value, point) if way.negated else (point, value)
    ladj = log_det_function(method_of(obj, way.log_det), way, x)(*ends[: way.arguments])
    return value, (-ladj if way.negated else ladj)


def log_det_function(run: Any, way: CallForm, x: Any) -> Any:
    """A log-det method with the number of event axes bound if it takes that, as in TFP."""
    if AXES not in required(run):
        return run
    import jax.numpy as jnp

    return partial(run, **{AXES: jnp.ndim(x) - (0 if way.single else 1)})


def batch_map(obj: Any, x: Any, context: Any, way: CallForm) -> Any:
    """The value and log-det of a batch; the log-det is None if there is none."""
    out = over_rows(obj, x, context, way)
    value, ladj = way.reading.value(out), way.reading.ladj(out)
    if way.running and ladj is not None:
        before = running_numbers(x)
        ladj = before - ladj if way.sign == "subtract" else ladj - before
    if way.excess and ladj is not None:
        ladj = ladj - way.excess
    return without_last(value) if way.simplex == ONTO else value, ladj


def batch_log_prob(obj: Any, x: Any, context: Any, way: CallForm) -> Any:
    """The log-density of a batch: the result, or the sum of the entries that are log-densities."""
    out = over_rows(obj, x, context, way)
    entries = way.reading.log_prob
    return sum(out[index].reshape(len(x)) for index in entries) if entries else out


def stochastic_batch_map(obj: Any, x: Any, context: Any, key: Any, way: CallForm) -> Any:
    """The value of a possibly random layer for a batch, under the call's key, and its contribution or None."""
    import jax

    def once(*given: Any) -> Any:
        out = method_result(obj, given[1], given[2] if context is not None else None, way, given[0])
        value, ladj = (out[0], out[1]) if isinstance(out, tuple | list) else (out, None)
        return value, ladj

    if way.single:
        rows = (x,) if context is None else (x, context)
        value, ladj = jax.vmap(once)(jax.random.split(key, len(x)), *rows)
    else:
        value, ladj = once(key, x, context)
    one = ladj is not None and not jax.numpy.ndim(ladj)  # constant over rows
    return value, (jax.numpy.broadcast_to(ladj, len(x)) if one else ladj)


def based(obj: Any, z: Any, context: Any, name: str) -> Any:
    """Base log-densities ``(n,)`` under the base ``name``; an elementwise base is summed over entries."""
    return getattr(obj, name).log_prob(z).reshape(len(z), -1).sum(1)


def over_rows(obj: Any, x: Any, context: Any, way: CallForm) -> Any:
    """The result of a method for a batch: called on all of it, or mapped over events."""
    import jax

    before = running_numbers(x) if way.running else None
    if way.simplex == FROM:
        x = with_last(x, jax.numpy.concatenate)
    if not way.single:
        return method_result(obj, x, context, way, before=before)
    return jax.vmap(lambda row, *more: method_result(obj, row, more[0], way, before=more[1]))(
        x, context, before
    )


@dataclass(frozen=True)
class SamplerSignature:
    """``order``: the positional parameters of a sampler, each "key", "number", "shape" or "context";
    ``single``: draws one event; ``names``: keyword parameters; ``keys``: of the dictionaries of arrays that
    it draws.
    """

    method: str
    order: tuple[str, ...]
    single: bool = False
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def batch_samples(obj: Any, n: int, context: Any, key: Any, way: SamplerSignature) -> Any:
    """``n`` samples under the call's key."""
    import jax

    def once(one: Any, given: Any) -> Any:
        values = {"key": one, "number": n, "shape": (n,), "context": given}
        inputs = [values[name] for name in way.order]
        run = method_of(obj, way.method)
        out = run(**dict(zip(way.names, inputs, strict=True))) if way.names else run(*inputs)
        return out[0] if isinstance(out, tuple) else out

    if not way.single:
        out = once(key, context)
    elif context is None:
        out = jax.vmap(lambda one: once(one, None))(jax.random.split(key, n))
    else:
        out = jax.vmap(once)(jax.random.split(key, n), context)
    return return_forms.named_columns(out, way.keys) if way.keys else out


def running_of(run: Any) -> list[str]:
    """Parameters, except the first, named like a running log-det; of those with a default only ones that
    count from zero.
    """
    parameters = parameters_of(run)[1:]
    zero = [
        one.default is one.empty or (type(one.default) in (int, float) and not one.default)
        for one in parameters
    ]
    return [
        one.name
        for one, counted in zip(parameters, zero, strict=True)
        if counted and sign_of(one.name)
    ]


def flag_of(run: Any) -> str:
    """The parameter that reverses a map, by name and default; empty if there is none."""
    found = [
        one.name
        for one in parameters_of(run)[1:]
        if one.name in FLAGS and (one.default is one.empty or isinstance(one.default, bool))
    ]
    return found[0] if len(found) == 1 else ""


def by_name(run: Any) -> list[str]:
    """The keyword-only parameters of a method."""
    return [one.name for one in parameters_of(run) if one.kind is one.KEYWORD_ONLY]
