"""Fifth stage: conventions and facts that attributes do not show, found by calling copies."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from flowref import registry
from flowref.adapters.user.conventions import signatures
from flowref.adapters.user.conventions.call_evidence import Settled
from flowref.adapters.user.conventions.samples import asks_for
from flowref.backends import Blueprint
from flowref.loading.calls import on_manifold
from flowref.loading.declared_options import Declared
from flowref.loading.draft import Draft, Finding, run_experiments
from flowref.loading.endless_solvers import unended
from flowref.loading.experiments import (
    OF_DENSITIES,
    OF_ESTIMATES,
    OF_INVERSES,
    OF_OBJECTS,
    OF_ROUND_TRIPS,
)
from flowref.loading.instance import GIVE_SHAPE, Instance, Refusal
from flowref.loading.kernels import kernel_drafted, kernel_words
from flowref.loading.recognition import Recognition
from flowref.loading.round_trip_cost import Rehearsal, round_trip
from flowref.loading.size import is_large
from flowref.loading.user_objects import draft_of
from flowref.model import (
    OBJECT,
    USER,
    Adapter,
    Condition,
    Dialect,
    Facts,
    FlowrefError,
    History,
    Subject,
    TargetError,
    draw_points,
    one_line,
    user_code_location,
)

# Nominal nanoseconds of one call after which counting stops.
LONGEST = 2e9
# Depth to which the parts of an object are searched for a class of its user.
DEEPEST = 3


@dataclass(frozen=True)
class Probed:
    """Results of calling copies of an object.

    ``dialect`` and ``facts``: completed by the calls; ``dtype``: the one in which all calls ran;
    ``operations``: cost of a round trip; ``why``: what the calls decided, a sentence each; ``conventions``
    and ``hints``: as in `Recognized`.
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

    Raises `TargetError` if the object is not of the recognized kind, and `Refusal` if a call raises.
    """
    try:
        return _probe(instance, recognition, declared)
    except FlowrefError:
        raise
    except Exception as error:
        if sentence := lost_attribute_message(instance.obj, error):
            raise TargetError(sentence) from error
        raise Refusal(declared.facts.event_shape, error) from error


def _probe(instance: Instance, recognition: Recognition, declared: Declared) -> Probed:
    adapter, dialect, facts = recognition.adapter, recognition.dialect, declared.facts
    of_user = adapter.name == USER
    if of_user and (cut := unended(instance, dialect, facts)) is not None:
        operations = max(call.operations for call in cut.cost.calls.values())
        return Probed(Dialect(), cut, instance.dtype, operations, (cut.unended,))
    draft = _drafted(instance, recognition, facts)
    if dialect.push is None and (of_user or adapter.settles is not None):
        coupling = declared.coupling(draft.facts.event_shape)
        draft = draft.having(Finding(facts={"coupling": coupling}))
    draft = _rehearsed(draft, adapter)
    assert draft.rehearsal is not None
    subject, trip, _ = draft.rehearsal
    draft = run_experiments(draft.saying(*trip.conventions), OF_ROUND_TRIPS if of_user else ())
    draft = run_experiments(draft, (*OF_INVERSES, *OF_ESTIMATES))
    if of_user or instance.source.target.adapter in (USER, OBJECT):
        draft = _without_broken(draft, subject)
    resolved, runs = draft.resolved, f"it runs in {instance.dtype}, and {trip.words}"
    why = (*draft.why, runs)
    return Probed(
        draft.dialect,
        draft.facts,
        instance.dtype,
        trip.operations,
        why,
        resolved.conventions,
        resolved.hints,
    )


def _drafted(instance: Instance, recognition: Recognition, facts: Facts) -> Draft:
    adapter, dialect, backend = recognition.adapter, recognition.dialect, instance.backend
    if dialect.push is not None and not facts.event_shape:
        raise TargetError(
            f"{instance.source.target} is a stochastic or surjective layer: its latents need not be of the shape of "
            f"its events, and calls do not show which. Give {GIVE_SHAPE}"
        )
    if adapter.name == USER and dialect.push is not None:
        return kernel_drafted(instance, dialect, facts)
    if adapter.name == USER:
        draft = backend.sparing(lambda: draft_of(instance, dialect, facts))
        if draft.dialect.push is not None:
            draft = draft.saying(*kernel_words(draft.dialect, draft.facts))
        return run_experiments(draft, OF_DENSITIES)
    conventions: tuple[str, ...] = ()
    with backend.sandbox(0, instance.dtype):
        if adapter.settles is not None:
            obj = instance.copy()
            dialect, facts, conventions = adapter.settles(
                obj, dialect, facts, backend.state_shapes(obj)
            )
        elif owned(instance.obj, adapter.package):
            for code in registry.adapters().values():
                if code.derived is not None and code.backend == backend.name:
                    facts, conventions = code.derived(instance.copy(), dialect, facts)
    draft = Draft(instance, facts, Settled(dialect, conventions=conventions))
    if instance.source.target.adapter in (USER, OBJECT):
        draft = on_manifold(draft)
    return draft if adapter.settles is None else run_experiments(draft, OF_OBJECTS)


def _rehearsed(draft: Draft, adapter: Adapter) -> Draft:
    """The draft with the cost of its calls, a subject made from it, and the measured round trip."""
    instance, backend, target = draft.instance, draft.instance.backend, draft.instance.source.target
    # Train-mode batches of large events cost too much.
    history: History = "fresh" if is_large(draft.facts.event_shape) else "warm"
    condition = Condition(dtype=instance.dtype, history=history)
    cost = backend.cost(instance.copy(), draft.dialect, draft.facts, instance.dtype, LONGEST)
    built_here = target.adapter not in (USER, OBJECT)
    facts = replace(draft.facts, cost=cost, built_here=built_here)

    resolve = adapter.recognizes
    made_of = Blueprint(str(target), instance.copy, draft.dialect, facts, resolve, rebuild_seed=0)

    def present(facts: Facts) -> Subject:
        return backend.subject(replace(made_of, facts=facts), condition)

    subject = present(facts)
    rehearsal = Rehearsal(subject, round_trip(subject, backend), present)
    return replace(draft, facts=facts, rehearsal=rehearsal)


def _without_broken(draft: Draft, subject: Subject) -> Draft:
    """The draft without abilities that raise for every input, and with a sentence about each."""
    obj, dialect = draft.instance.obj, draft.dialect
    broken = {**draft.resolved.broken, **refusing(subject)}
    if draft.facts.context_shape is not None and not asks_for(obj, dialect):
        broken.pop("sample", None)  # sampling under contexts is tested by laws
    absent: dict[str, Any] = dict.fromkeys(broken)
    if "inverse" in absent and dialect.normalizing == "inverse":
        absent["normalizing"] = "forward"
    said, hints = [], []
    if signatures.refuses(obj, "_inverse") and (why_not := broken.pop("inverse", "")):
        # A torch transform whose inverse only reads its cache.
        said.append("no inverse")
        hints.append(f"no inverse: {why_not}")
    # By Python's convention, a method that raises NotImplementedError is not offered.
    missing = [name for name in broken if broken[name].startswith("NotImplementedError")]
    said += [f"no {name}: it raises NotImplementedError" for name in missing]
    broken = {name: error for name, error in broken.items() if name not in missing}
    if "sample" in broken and (name := asks_for(obj, dialect)):
        del broken["sample"]
        hints.append(f"sample is not called: it takes {name}, and no number of points")
    said += [f"{name} raises, and is not tested" for name in broken]
    found = Finding(facts={"broken": broken}, dialect=replace(dialect, **absent))
    draft = draft.having(found).saying(*said)
    return replace(draft, resolved=replace(draft.resolved, hints=(*draft.resolved.hints, *hints)))


def owned(obj: Any, package: str, depth: int = DEEPEST) -> bool:
    """Whether the class of an object, or of a part down to ``depth``, is the user's own and derives from a
    class of ``package``.
    """
    homes = [str(base.__module__).partition(".")[0] for base in type(obj).__mro__]
    if package in homes[1:] and homes[0] != package:
        return True
    if not depth:
        return False
    parts = obj if isinstance(obj, tuple | list) else getattr(obj, "__dict__", {}).values()
    return any(owned(part, package, depth - 1) for part in parts)


def lost_attribute_message(obj: Any, error: Exception) -> str:
    """The message for an AttributeError about an attribute that exists on the object but not on a copy
    rebuilt from its leaves; empty for any other error.
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
    """The abilities that raise for every input, each with its error: an inverse that raises on the images
    of ordinary points, together and one by one, and a sampler that raises for every number of samples.
    """
    rng = np.random.default_rng(1)
    x = draw_points(subject.domain, (3, *subject.event_shape), rng)
    context = subject.context_shape
    given = None if context is None else rng.standard_normal((3, *context))
    tries: dict[str, list[Callable[[], Any]]] = {}
    if subject.forward is not None and subject.inverse is not None:
        y, inverse = subject.forward(x, given).value, subject.inverse
        parts = [slice(None), *(slice(row, row + 1) for row in range(len(y)))]
        if subject.facts.cost.of("inverse").repeats:  # one point is expensive enough
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
    """The exception of a call as text, with its line in the user's file; empty if the call returned."""
    try:
        call()
    except Exception as error:
        return f"{one_line(error, 200)}{user_code_location(error)}"
    return ""
