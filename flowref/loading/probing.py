"""Fifth stage: what attributes cannot tell is shown by calls of a copy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from flowref import registry
from flowref.adapters.common.documentation import BOUND, documents
from flowref.adapters.user import bounds, contributions
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.samples import asks_for
from flowref.adapters.user.conventions.settling import Settled
from flowref.adapters.user.solvers import integrates
from flowref.backends import Blueprint
from flowref.loading.declared import Declared
from flowref.loading.estimates import measured
from flowref.loading.instance import Instance, Refusal
from flowref.loading.kernels import settled as kernel_settled
from flowref.loading.kernels import spoken as kernel_spoken
from flowref.loading.noise import noise_taken
from flowref.loading.opened import heard
from flowref.loading.recognition import Recognition
from flowref.loading.settling import points_of
from flowref.loading.size import is_large
from flowref.loading.trips import iterating, refinable, round_trip
from flowref.loading.unended import unended
from flowref.loading.whole_steps import stepping
from flowref.model import (
    OBJECT,
    USER,
    Condition,
    Dialect,
    Facts,
    FlowrefError,
    History,
    Subject,
    TargetError,
    draw,
    one_line,
    place_of,
)

# Nominal nanoseconds after which a call is counted no further.
LONGEST = 2e9
# How deep the parts of an object are looked into for a class of its user.
DEEPEST = 3


@dataclass(frozen=True)
class Probed:
    """What calls have shown.

    ``dialect`` and ``facts``: completed by them; ``dtype``: in which everything ran; ``operations``:
    how many a round trip takes; ``why``: what the calls decided, a sentence each; ``conventions``
    and ``hints``: as `Recognized` has them.
    """

    dialect: Dialect
    facts: Facts
    dtype: str
    operations: int
    why: tuple[str, ...]
    conventions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


def probe(instance: Instance, recognition: Recognition, declared: Declared) -> Probed:
    """Call copies of an instance, in its dtype, as laws will.

    Raises `TargetError` where it cannot be what it was taken for, and `Refusal` where the object
    raises.
    """
    try:
        return _probe(instance, recognition, declared)
    except FlowrefError:
        raise
    except Exception as error:
        if sentence := lost(instance.obj, error):
            raise TargetError(sentence) from error
        raise Refusal(declared.facts.event_shape, error) from error


def _probe(instance: Instance, recognition: Recognition, declared: Declared) -> Probed:
    target, backend = instance.source.target, instance.backend
    dialect, facts = recognition.dialect, declared.facts
    why: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    set_aside: dict[str, str] = {}
    if recognition.adapter.name == USER and (cut := unended(instance, dialect, facts)) is not None:
        operations = max(call.operations for call in cut.cost.calls.values())
        return Probed(Dialect(), cut, instance.dtype, operations, (cut.unended,))
    if recognition.adapter.name == USER and dialect.push is not None:
        dialect, facts, why, words = kernel_settled(instance, dialect, facts)
        spoken = Settled(dialect).saying(*kernel_spoken(dialect, facts), *words)
        conventions = spoken.conventions
    elif recognition.adapter.name == USER:
        facts, spoken, why = backend.sparing(
            lambda: heard(instance, recognition.dialect, declared.facts)
        )
        dialect, conventions, hints = spoken.dialect, spoken.conventions, spoken.hints
        if dialect.push is not None:
            conventions += tuple(kernel_spoken(dialect, facts))
        promised = facts.promises.get("lower-bound")
        if promised or (dialect.log_prob and documents(instance.obj, BOUND, "log_prob")):
            told, bound = bounded(instance, dialect, facts)
            if promised or told.certainty.estimate:
                facts, conventions = told, (*conventions, bound)
        elif dialect.log_prob and (noise := noise_taken(instance, dialect, facts)):
            facts, bound = bounded(instance, dialect, facts)
            conventions = (*conventions, f"{noise} is drawn where it is not given: {bound}")
        facts = replace(facts, coupling=declared.coupling(facts.event_shape))
    elif recognition.adapter.settles is not None:
        with backend.sandbox(0, instance.dtype):
            obj = instance.copy()
            dialect, facts, conventions = recognition.adapter.settles(
                obj, dialect, facts, backend.state_shapes(obj)
            )
        facts = replace(facts, coupling=declared.coupling(facts.event_shape))
    else:
        for code in registry.adapters().values():
            if code.derived is None or code.backend != backend.name:
                continue
            if owned(instance.obj, recognition.adapter.package):
                with backend.sandbox(0, instance.dtype):
                    facts, conventions = code.derived(instance.copy(), dialect, facts)
    # Train-mode batches of large events cost too much.
    history: History = "fresh" if is_large(facts.event_shape) else "warm"
    condition = Condition(dtype=instance.dtype, history=history)
    cost = backend.cost(instance.copy(), dialect, facts, instance.dtype, LONGEST)
    facts = replace(facts, cost=cost, built_here=target.adapter not in (USER, OBJECT))
    resolve = recognition.adapter.recognizes
    made_of = Blueprint(str(target), instance.copy, dialect, facts, resolve, rebuild_seed=0)
    subject = backend.subject(made_of, condition)
    trip = round_trip(subject, backend)
    operations, conventions = trip.operations, (*conventions, *trip.conventions)
    if recognition.adapter.name == USER:
        assumed = replace(facts, promises={**facts.promises, "assumed-accuracy": True})
        turned = partial(backend.subject, replace(made_of, facts=assumed), condition)
        facts, found = iterating(
            facts, trip, lambda: integrates(instance.obj) or refinable(turned(), backend, trip)
        )
        conventions += found
        facts, found = stepping(facts, subject, trip.rounds)
        conventions += found
        set_aside = spoken.broken
    facts = measured(facts, subject)
    if recognition.adapter.name == USER or target.adapter in (USER, OBJECT):
        broken = {**set_aside, **refusing(subject)}
        if facts.context_shape is not None and not asks_for(instance.obj, dialect):
            broken.pop("sample", None)  # how it is asked under contexts is the laws' affair
        absent: dict[str, Any] = dict.fromkeys(broken)
        if "inverse" in absent and dialect.normalizing == "inverse":
            absent["normalizing"] = "forward"
        sampled, dialect = dialect, replace(dialect, **absent)
        if signatures.refuses(instance.obj, "_inverse") and (why_not := broken.pop("inverse", "")):
            # A transform whose way back is only that of its cache.
            conventions, hints = (*conventions, "no inverse"), (*hints, f"no inverse: {why_not}")
        # A method that raises NotImplementedError is what Python has for one that is not offered.
        missing = [name for name in broken if broken[name].startswith("NotImplementedError")]
        conventions += tuple(f"no {name}: it raises NotImplementedError" for name in missing)
        broken = {name: error for name, error in broken.items() if name not in missing}
        if "sample" in broken and (name := asks_for(instance.obj, sampled)):
            del broken["sample"]
            hints = (*hints, f"sample is not asked: it takes {name}, and no number of points")
        facts = replace(facts, broken=broken)
        conventions += tuple(f"{name} raises, and is set aside" for name in broken)
    runs = f"it runs in {instance.dtype}, and {trip.words}"
    return Probed(dialect, facts, instance.dtype, operations, (*why, runs), conventions, hints)


def owned(obj: Any, package: str, depth: int = DEEPEST) -> bool:
    """Whether an object, or a part of it, is of a user's own class that derives from one of a library."""
    homes = [str(base.__module__).partition(".")[0] for base in type(obj).__mro__]
    if package in homes[1:] and homes[0] != package:
        return True
    if not depth:
        return False
    parts = obj if isinstance(obj, tuple | list) else getattr(obj, "__dict__", {}).values()
    return any(owned(part, package, depth - 1) for part in parts)


def lost(obj: Any, error: Exception) -> str:
    """What to say of an error about an attribute that an object has, and that what was put together from
    its leaves has not; empty of any other.
    """
    name, kind = getattr(error, "name", None), type(obj).__name__
    if not isinstance(error, AttributeError) or type(error.obj) is not type(obj) or not name:
        return ""
    if name not in getattr(obj, "__dict__", {}):
        return ""
    return (
        f"a {kind} loses its attribute {name} where it is flattened into its leaves and put together again, "
        "as transformations of JAX do; keep it in tree_flatten (in numpyro name it in pytree_aux_fields or "
        "pytree_data_fields)"
    )


def refusing(subject: Subject) -> dict[str, str]:
    """The abilities that raise whatever they are given: an inverse for every image of ordinary
    points, together and alone, and a sampler for every number of samples.
    """
    rng = np.random.default_rng(1)
    x = draw(subject.domain, (3, *subject.event_shape), rng)
    context = subject.context_shape
    given = None if context is None else rng.standard_normal((3, *context))
    tries: dict[str, list[Callable[[], Any]]] = {}
    if subject.forward is not None and subject.inverse is not None:
        y, inverse = subject.forward(x, given).value, subject.inverse
        parts = [slice(None), *(slice(row, row + 1) for row in range(len(y)))]
        if subject.facts.cost.of("inverse").repeats:  # of one point it is dear enough
            parts = parts[1:] + parts[:1]
        tries["inverse"] = [
            partial(inverse, y[part] + 0.0, None if given is None else given[part])
            for part in parts
        ]
    if subject.sample is not None:
        tries["sample"] = [
            partial(subject.sample, count, 0, None if given is None else given[:count])
            for count in ((1, 2, 5) if given is None else (1, 2, 3))
        ]
    broken = {}
    for name, calls in tries.items():
        errors = list(itertools.takewhile(bool, map(raised, calls)))
        if len(errors) == len(calls):
            broken[name] = errors[0]
    return broken


def raised(call: Callable[[], Any]) -> str:
    """What a call raised, with its place in the user's own file; empty if it returned."""
    try:
        call()
    except Exception as error:
        return f"{one_line(error, 200)}{place_of(error)}"
    return ""


def bounded(instance: Instance, dialect: Dialect, facts: Facts) -> tuple[Facts, str]:
    """The facts of what promises a lower bound of its log-density, and what is said of it: a bound
    that differs from one random state to another is an estimate.
    """
    x, context = points_of(facts)
    backend = instance.backend
    seen = []
    for seed in (0, 1):
        with backend.sandbox(seed, instance.dtype):
            obj = instance.copy()
            backend.set_mode(obj, False)
            given = None if context is None else backend.tensor(context, instance.dtype)
            if dialect.log_prob is None:
                return facts, "a lower bound"
            bound = dialect.log_prob(obj, backend.tensor(x, instance.dtype), given)
            seen.append(np.asarray(backend.array(bound)))
    # As built, parts may take out again what others put in, such as the logarithms of one density.
    if np.array_equal(seen[0], seen[1]) and not contributions.bounds(instance.obj):
        return facts, "log_prob is a lower bound"
    kind = facts.promises.get("lower-bound")
    if not isinstance(kind, str):
        kind = "expected" if bounds.expected(instance.obj) else "one-sample"
    facts = replace(facts, promises={**facts.promises, "estimator": True, "lower-bound": kind})
    said = "of one sample" if kind == "one-sample" else "with averages or closed forms"
    return facts, f"log_prob is a random lower bound {said}"
