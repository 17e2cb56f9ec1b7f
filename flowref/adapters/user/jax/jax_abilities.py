"""How a user's object of JAX is called: one function for each ability, told by a `Way` which method it
is, whether that takes one event or a batch, and how it gives its log-det.
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
from flowref.adapters.user.conventions.method_calls import unflattened_latents
from flowref.adapters.user.conventions.names import FLAGS, sign_of
from flowref.adapters.user.conventions.readings import Reading

# What a parameter is called that takes a random key, or a number or a shape of samples.
KEYS = ("key", "rng", "seed", "prng_key", "rng_key", "prng", "rngs", "random_key")
SIZES = ("sample_shape", "shape")
# What a parameter is called that is a number of samples, or any of these.
NUMBERS = ("n", "num_samples")
SAMPLER_SIZES = (*SIZES, *NUMBERS, "n_samples", "num", "size", "sample_size", "nsamples", "count")
# What a parameter is called that takes the parameters of a function, where it is not the first.
PARAMETERS = ("params", "parameters", "param", "variables", "weights", "theta")
# The parameter of a log-det that says how many axes an event has.
AXES = "event_ndims"
# How a function is found in an object that is several things: by its number, by its number and that of
# the parameters that it takes first, or as a method of a module that stands beside its variables (of
# flax) or beside its state (of equinox).
BOUND, STATED = "bound.", "stated."
# Maps of vectors to those of a simplex, and back: the last coordinate is left out.
ONTO, FROM = "onto", "from"
# How everybody returns a value and its log-det.
PAIR = Reading(
    partial(return_forms.entry, index=0), partial(return_forms.entry, index=1), usual=True
)


@dataclass(frozen=True)
class Way(call_forms.Way):
    """A way of calling an object of JAX, beyond what is the same in torch: ``method``: see `method_of`.
    ``single``: whether it takes one event. ``reading``: where value and log-det are in what it returns; ``unseen``:
    whether it is a map only if it tells a log-det; ``inverse``: whether it is the way back; ``chosen``: what a user says
    of what it returns. ``log_det``: the method that tells the log-det beside it, which takes so many ``arguments``;
    ``negated``: whether it is told at the other end. ``keyed``: under which name it wants a key, which is
    always the same, of number ``stream``. ``simplex``: whether it maps `ONTO` a simplex or back `FROM` one; ``excess``:
    what its log-det then counts besides (see `common.onto_simplex.excess`).
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
        """Whether the value comes back without a log-det."""
        return self.reading.ladj is return_forms.none


def method_of(obj: Any, name: str) -> Any:
    """The method of a way as a function of points: in evaluation, where it chooses."""
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
    """A function of points whose parameters are given: those that are called so, as they may stand behind
    a key or a point, or else its first argument.
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
    """An object whose methods can be called: a module of flax that is bound to its variables names
    them once, in its first call.
    """
    if getattr(obj, "scope", None) is None or not callable(getattr(obj, "unbind", None)):
        return obj
    module, variables = obj.unbind()
    return module.bind(variables)


def in_eval_mode(run: Any) -> Any:
    """A function that is told to evaluate, where it has a parameter that chooses."""
    chosen = {name: EVALUATING[name] for name in parameter_names(run) if name in EVALUATING}
    return partial(run, **chosen) if chosen else run


def stateless(run: Any, state: Any) -> Any:
    """A function of points that is given a state, without the state that it hands back."""
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
    """The methods of an object as functions of points (see `method_of`), which are given a key where they want one."""

    def __init__(self, obj: Any, keyed: str = "", key: Any = None) -> None:
        self._given = obj, keyed, key

    def __getattr__(self, name: str) -> Any:
        obj, keyed, key = self._given
        run = method_of(obj, name)
        if not keyed:
            return run
        # What haiku transforms takes it first.
        return (
            partial(run, key)
            if parameter_names(run)[:1] == [keyed]
            else partial(run, **{keyed: key})
        )

    def __call__(self, *points: Any, **more: Any) -> Any:
        """The object is called itself."""
        return self.__getattr__("")(*points, **more)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__getattr__(""))


def method_result(
    obj: Any, x: Any, context: Any, way: Way, key: Any = None, before: Any = None
) -> Any:
    """What a method returns for one event, or for a batch; ``before``: a running log-det."""
    import jax

    given = jax.random.key(way.stream) if way.keyed and key is None else key
    inputs = (before,) if way.running else ()
    out = way.ask(Methods(obj, way.keyed, given), x, context, *inputs)
    if not way.log_det:
        return out
    value = out[0] if isinstance(out, tuple) else out
    point = unflattened_latents(x, way.shapes) if way.shapes else x
    ends = (value, point) if way.negated else (point, value)
    ladj = log_det_function(method_of(obj, way.log_det), way, x)(*ends[: way.arguments])
    return value, (-ladj if way.negated else ladj)


def log_det_function(run: Any, way: Way, x: Any) -> Any:
    """A method of the log-det, which is told how many axes an event has where it asks for that, as those of
    TFP do.
    """
    if AXES not in required(run):
        return run
    import jax.numpy as jnp

    return partial(run, **{AXES: jnp.ndim(x) - (0 if way.single else 1)})


def batch_map(obj: Any, x: Any, context: Any, way: Way) -> Any:
    """A map of a batch: its value and its log-det, None where there is none."""
    out = over_rows(obj, x, context, way)
    value, ladj = returned_value(out, way.reading), way.reading.ladj(out)
    if way.running and ladj is not None:
        before = running_numbers(x)
        ladj = before - ladj if way.sign == "subtract" else ladj - before
    if way.excess and ladj is not None:
        ladj = ladj - way.excess
    return without_last(value) if way.simplex == ONTO else value, ladj


def returned_value(out: Any, reading: Reading) -> Any:
    """The value in what a call returned for a batch; several latents are flattened, and put side by side."""
    if not reading.parts:
        return reading.value(out)
    import jax.numpy as jnp

    listed = (
        out
        if reading.value is return_forms.flattened_latents
        else out[reading.value.keywords["index"]]
    )
    return jnp.concatenate([part.reshape(len(part), -1) for part in listed], -1)


def batch_log_prob(obj: Any, x: Any, context: Any, way: Way) -> Any:
    """A log-density of a batch: what comes back, or the sum of those entries of it that are one."""
    out = over_rows(obj, x, context, way)
    entries = way.reading.log_prob
    return sum(out[index].reshape(len(x)) for index in entries) if entries else out


def stochastic_batch_map(obj: Any, x: Any, context: Any, key: Any, way: Way) -> Any:
    """What a layer that may draw makes of a batch, with the key of the call: the value, and what it
    contributes, None where it does not say.
    """
    import jax

    def once(*given: Any) -> Any:
        out = method_result(obj, given[1], given[2] if context is not None else None, way, given[0])
        value, told = (out[0], out[1]) if isinstance(out, tuple | list) else (out, None)
        return value, told

    if way.single:
        rows = (x,) if context is None else (x, context)
        value, told = jax.vmap(once)(jax.random.split(key, len(x)), *rows)
    else:
        value, told = once(key, x, context)
    one = told is not None and not jax.numpy.ndim(told)  # the same for all rows
    return value, (jax.numpy.broadcast_to(told, len(x)) if one else told)


def based(obj: Any, z: Any, context: Any, name: str) -> Any:
    """The log-density of each latent under the base that an object has under a name; entries of an
    elementwise one are summed.
    """
    return getattr(obj, name).log_prob(z).reshape(len(z), -1).sum(1)


def over_rows(obj: Any, x: Any, context: Any, way: Way) -> Any:
    """What a method returns for a batch: called on all of it, or mapped over its events."""
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
    """``order``: the parameters of a sampler, each "key", "number", "shape" or "context"; ``single``:
    whether it draws one event; ``names``: of parameters that take no place.
    """

    method: str
    order: tuple[str, ...]
    single: bool = False
    names: tuple[str, ...] = ()


def batch_samples(obj: Any, n: int, context: Any, key: Any, way: SamplerSignature) -> Any:
    """Samples, with the key of the call."""
    import jax

    def once(one: Any, given: Any) -> Any:
        values = {"key": one, "number": n, "shape": (n,), "context": given}
        inputs = [values[name] for name in way.order]
        run = method_of(obj, way.method)
        out = run(**dict(zip(way.names, inputs, strict=True))) if way.names else run(*inputs)
        return out[0] if isinstance(out, tuple) else out

    if not way.single:
        return once(key, context)
    if context is None:
        return jax.vmap(lambda one: once(one, None))(jax.random.split(key, n))
    return jax.vmap(once)(jax.random.split(key, n), context)


def running_of(run: Any) -> list[str]:
    """The parameters of a method, but for its first, that take a running log-det, as their names say: of
    those with a default the ones that are counted from zero.
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
    """The parameter of a map that turns it around, as its name says and its default, if it has one;
    empty where there is none.
    """
    found = [
        one.name
        for one in parameters_of(run)[1:]
        if one.name in FLAGS and (one.default is one.empty or isinstance(one.default, bool))
    ]
    return found[0] if len(found) == 1 else ""


def by_name(run: Any) -> list[str]:
    """The parameters of a method that take no place."""
    return [one.name for one in parameters_of(run) if one.kind is one.KEYWORD_ONLY]
