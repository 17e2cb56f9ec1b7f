"""How a user's object speaks, as attributes cannot tell it: by calls of copies."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from flowref.adapters.user.calls import (
    density_method,
    sample_shape,
    takes_context_first,
)
from flowref.adapters.user.conventions import answers
from flowref.adapters.user.conventions.call_forms import BATCH_AXIS, GIVEN_ONES
from flowref.adapters.user.conventions.chosen import chosen_of
from flowref.adapters.user.conventions.estimating import MORE as UNBIASED
from flowref.adapters.user.conventions.estimating import WORDS as ESTIMATED
from flowref.adapters.user.conventions.estimating import beside_nothing, estimated
from flowref.adapters.user.conventions.labels import CLASSES, GIVEN_LABELS
from flowref.adapters.user.conventions.names import SYNCS
from flowref.adapters.user.conventions.series import series_of
from flowref.adapters.user.conventions.settling import NO_LADJ, Settled
from flowref.adapters.user.conventions.simplex import DECLARED, FROM, opened
from flowref.adapters.user.conventions.surfaces import in_coordinates, surface_of
from flowref.adapters.user.conventions.syncing import owners, synced, syncing
from flowref.adapters.user.conventions.turning import batch_last
from flowref.adapters.user.probing import ROWS
from flowref.loading.clamps import circled, clamped, numbered
from flowref.loading.drawing import drawing
from flowref.loading.factory import attributes
from flowref.loading.initialization import INITIALIZED, initializes, made_ready
from flowref.loading.instance import GIVE_SHAPE, Instance
from flowref.loading.recognition import unread
from flowref.loading.simplices import SAID, on_a_simplex
from flowref.loading.size import called, is_large
from flowref.model import (
    CORNER,
    Ambiguous,
    Array,
    Dialect,
    Facts,
    Normalizer,
    Shape,
    SpecError,
    Target,
    TargetError,
    draw,
)
from flowref.model.silence import UNMOVED

# Said of log-dets that are cast to single precision, or made in it.
SINGLE_LADJ = "log-det in single precision, and judged in that"
Found = TypeVar("Found")


def settled(
    instance: Instance, dialect: Dialect, facts: Facts
) -> tuple[Facts, Settled, tuple[str, ...]]:
    """The facts of a user's object and how it speaks, completed by calls: its event shape, what
    calls return, its latent shape; and why.
    """
    from flowref.adapters.common.normalizers import recognition, shapes, statistics_layers
    from flowref.adapters.user import contexts
    from flowref.adapters.user import probing as user

    target, backend, why = instance.source.target, instance.backend, []
    given_facts = facts
    with backend.sandbox(0, instance.dtype):
        obj = resting(instance)
        options = dict(target.options)
        kind, kept = options.get("kind"), backend.tensor(np.zeros(1), instance.dtype)
        chosen = chosen_of(obj, attributes(instance.source.factory), options)
        if "normalizing" in chosen:  # it is told which call takes data to latents
            promises = {name: told for name, told in facts.promises.items() if name != "direction"}
            facts = replace(facts, promises=promises)
        if facts.codomain is not None and facts.codomain.kind == "simplex":
            # Of what lies on it all coordinates but one are judged, which fill no set with a name.
            chosen, facts = {**chosen, DECLARED: "yes"}, replace(facts, codomain=None)
        if facts.domain.kind == "simplex" and dialect.log_prob is None and facts.normalizer is None:
            chosen = {**chosen, FROM: "yes"}
        statistics_layers.refuse(obj, dialect, str(target), kept.dtype)
        if not facts.event_shape and facts.domain.coordinates:
            facts = replace(facts, event_shape=(len(facts.domain.coordinates),))
        said: tuple[str, ...] = ()
        wanted = contexts.wanted(obj, dialect, chosen)
        if wanted:
            ordered = backend, instance.dtype, facts, chosen, wanted
            dialect = contexts.in_order(obj, dialect, *ordered)
        if "padded" in chosen:
            dialect, facts, chosen, said = with_padding(instance, obj, dialect, facts, chosen)
        elif facts.context_shape is None or contexts.is_mask(wanted):
            told = options.get("context") == GIVEN_LABELS
            facts, chosen, said = with_context(instance, obj, dialect, facts, chosen, told)
        if takes_context_first(dialect.log_prob):
            said = (*said, f"{density_method(dialect.log_prob)} takes its context first")
        if not wanted and (lain := on_a_simplex(instance, obj, dialect, facts)) is not facts:
            facts, said = lain, (*said, SAID)
        one_way = facts.context_shape is None and dialect.forward is not None
        if one_way and batch_last(
            resting(instance), backend, instance.dtype, facts.event_shape, chosen
        ):
            chosen = {**chosen, BATCH_AXIS: "last"}
        if not facts.event_shape:
            shape = (
                facts.normalizer is None and recognition.infer_shape(obj, dialect, kept.dtype, kind)
            ) or _inferred(instance, obj, dialect, facts, chosen)
            facts = replace(facts, event_shape=shape)
            if facts.normalizer is None and facts.context_shape is None:
                asked_of = resting(instance), dialect, backend, instance.dtype, facts, chosen
                facts = replace(facts, guessed=user.alternatives(*asked_of))
            why.append(f"every call takes batches of events of shape {shape}, the first that does")
        _refuse_other_size(target, facts)
        x, context = points_of(facts)
        given = None if context is None else backend.tensor(context, instance.dtype)
        point = backend.tensor(x, instance.dtype), given
        asked = made_ready(obj, dialect, backend, point)

        def settle(obj: Any, x: Any, context: Any) -> Settled:
            return user.settle(obj, dialect, x, context, facts, chosen)

        spoken = called(backend, settle, obj, *point).saying(*said)
        if "context" not in options:
            asked_of = obj, spoken.dialect, backend, instance.dtype, facts, chosen
            option, hint = contexts.unheard(*asked_of)
            facts = replace(facts, optional_context=option)
            spoken = replace(spoken, hints=(*spoken.hints, *filter(None, [hint])))
        more = unread(obj, spoken.dialect, options), _unmasked(facts, chosen)
        spoken = replace(spoken, hints=(*spoken.hints, *filter(None, more)))
        shown: tuple[str, ...] = ()
        if facts.normalizer is None and (asked or initializes(instance, spoken.dialect, point)):
            # Its first batch comes out standardized, and no other.
            spoken = spoken.saying(INITIALIZED)
        elif facts.normalizer is None and initialized_back(instance, spoken, given):
            # Data go in where it goes back.
            spoken = replace(spoken, dialect=replace(spoken.dialect, normalizing="inverse"))
            spoken = spoken.saying(f"{INITIALIZED}, by inverse: that takes data to latents")
        else:
            believed = facts.normalizer is not None
            facts, shown = recognition.completed(
                obj, spoken.dialect, facts, kept.dtype, kind, str(target)
            )
            # What is called one hears why it is not judged so.
            if believed and facts.normalizer is None:
                spoken = spoken.saying(*shown)
        if shown and facts.normalizer is not None:
            spoken = of_normalizer(spoken, facts.normalizer)
        if facts.normalizer is None and context is None and not facts.declared:
            facts, spoken = _on_surface(obj, facts, spoken, point[0])
            x = points_of(facts)[0]
        if FROM in chosen and spoken.latent is not None and spoken.dialect.log_prob is None:
            facts, spoken = _of_simplex(obj, facts, spoken, point)
            x = x[..., : facts.event_shape[-1]]
    if found := drawing(instance, spoken, facts, x, context):
        return *found, tuple(why)
    if facts.normalizer is None and (method := unsynced(instance, spoken.dialect)):
        repair = partial(synced, method=method)
        spoken = replace(spoken, dialect=replace(spoken.dialect, repair=repair))
        spoken = spoken.saying(f"{method}() is called after its parameters were moved")
    if accumulates(instance, spoken.dialect, x, context):
        facts = replace(facts, promises={**facts.promises, "narrow-log-det": True})
        itself = accumulates(instance, spoken.dialect, x, context, instance.dtype)
        spoken = spoken.saying(SINGLE_LADJ if itself else "log-det added up in the default dtype")
    if series := of_log_det(series_of, instance, spoken.dialect, x, context):
        spoken = replace(spoken, dialect=series.of(spoken.dialect)).saying(series.words)
        facts = replace(facts, promises={"log-det-tolerance": series.tolerance, **facts.promises})
    elif of_log_det(estimated, instance, spoken.dialect, x, context):
        facts = replace(facts, promises={"estimator": True, **facts.promises})
        held = facts.certainty.unbiased
        spoken = spoken.saying(ESTIMATED if held else f"{ESTIMATED}; {UNBIASED}")
    if circle := circled(instance, spoken.dialect, facts):
        facts = replace(facts, domain=circle)
        spoken = spoken.saying(
            f"domain: ({circle.low:.4g}, {circle.high:.4g}), since it goes around"
        )
    elif bounds := clamped(instance, spoken.dialect, facts):
        facts = replace(facts, domain=bounds)
        ends = f"({bounds.low:.4g}, {bounds.high:.4g})"
        spoken = spoken.saying(f"domain: {ends}, since it clamps all beyond")
    elif found_domain := numbered(instance, spoken.dialect, facts):
        # What was asked of points without an image has told nothing.
        within = replace(given_facts, domain=found_domain)
        facts, spoken, why_so = settled(instance, dialect, within)
        words = f"domain: {found_domain}, since it gives no numbers elsewhere"
        return facts, spoken.saying(words), why_so
    if not facts.promises.get("fixed") and (told_by := backend.resting(instance.obj)):
        facts, spoken = replace(facts, unmoved=told_by), spoken.saying(f"{UNMOVED}: {told_by}")
    why += [*_changes(dialect, spoken.dialect), *shown]
    latent = spoken.latent
    facts = replace(
        facts,
        ladj_event=spoken.ladj_event,
        promises={**spoken.promises, **facts.promises},
    )
    if facts.normalizer is not None and (
        reason := shapes.misfit(obj, facts.normalizer, facts.event_shape)
    ):
        raise TargetError(f"{target}: {reason}. Give {GIVE_SHAPE}")
    if latent is not None:
        if "complex" in str(latent.dtype):
            raise TargetError(
                f"{target}: forward returns complex numbers, and laws are measured on real ones. Audit "
                "a wrapper that takes and returns real and imaginary parts as entries of their own"
            )
        facts = replace(facts, latent_shape=tuple(latent.shape[1:]))
        if math.prod(latent.shape[1:]) != math.prod(x.shape[1:]):
            raise TargetError(
                f"{target}: forward maps an event of shape {tuple(x.shape[1:])} to "
                f"{tuple(latent.shape[1:])}; a bijection keeps the number of entries. If the event "
                "shape is another, give it as ?event=3 or ?event=2,4,4; if it returns "
                "log-likelihoods, say ?returns=log_prob; if it forgets or draws entries on purpose, "
                f"?draws={'inverse' if math.prod(latent.shape[1:]) < math.prod(x.shape[1:]) else 'forward'}"
            )
    return facts, spoken, tuple(why)


def _on_surface(obj: Any, facts: Facts, spoken: Settled, x: Any) -> tuple[Facts, Settled]:
    """Facts of what is on a surface in coordinates of it, and how it speaks of these; as they were of what
    fills a volume.
    """
    chart = surface_of(obj, spoken.dialect, x)
    if chart is None:
        return facts, spoken
    dialect = in_coordinates(spoken.dialect, chart)
    latent = None if spoken.latent is None else spoken.latent[..., : chart.size]
    facts = replace(facts, event_shape=(chart.size,), latent_shape=())
    return facts, replace(spoken, dialect=dialect, latent=latent).saying(chart.words)


def _of_simplex(
    obj: Any, facts: Facts, spoken: Settled, point: tuple[Any, Any]
) -> tuple[Facts, Settled]:
    """Facts of a map of points of a simplex without their last coordinate, which the others tell, and how it
    speaks; as they were of a map to what has as many entries, and lies on no simplex.
    """
    found = opened(obj, spoken.dialect, point[0], spoken.latent, point[1])
    if found is None:
        return facts, spoken
    dialect, latent, said = found
    facts = replace(facts, event_shape=(point[0].shape[-1] - 1,), domain=CORNER)
    return facts, replace(spoken, dialect=dialect, latent=latent).saying(said)


def accumulates(
    instance: Instance, dialect: Dialect, x: Array, context: Array | None, default: str = "float32"
) -> bool:
    """Whether forward or inverse returns a value in float64 and a log-det in float32, since it
    starts from zeros of the ``default`` dtype, or from tensors that no cast reaches: models are
    written, trained and used in float32, and only judged in another. Where it does so under either
    default dtype it says float() itself.
    """
    backend = instance.backend
    if dialect.forward is None or instance.dtype != "float64":
        return False
    with backend.sandbox(0, default):
        given = None if context is None else backend.tensor(context, instance.dtype)
        # A dtype shows in few rows.
        given = None if given is None else given[:2]
        value: Any = backend.tensor(x[:2], instance.dtype)
        for call in (dialect.forward, dialect.inverse):
            if call is None:
                continue
            obj = instance.copy()
            backend.set_mode(obj, False)
            try:
                value, ladj = called(backend, call, obj, value, given)
                dtypes = [str(getattr(backend.array(part), "dtype", "")) for part in (value, ladj)]
            except Exception:  # whether it can be called so is a law's affair
                return False
            if dtypes == ["float64", "float32"]:
                return True
    return False


def resting(instance: Instance) -> Any:
    """A copy in eval mode, which calls of shapes that nobody meant may spoil."""
    obj = instance.copy()
    instance.backend.set_mode(obj, False)
    return obj


def of_log_det(
    asked: Callable[[Any, Any, Any, Any], Found],
    instance: Instance,
    dialect: Dialect,
    x: Array,
    context: Array | None,
) -> Found | None:
    """What calls of a copy show of the log-det of a user's object, asked by a function of it; None of
    what has no map, but that a log-density without one may be estimated.
    """
    call = dialect.forward
    if call is None and asked is estimated and dialect.log_prob is not None:
        call = partial(beside_nothing, dense=dialect.log_prob)
    if call is None or instance.backend.name != "torch":
        return None
    with instance.backend.sandbox(0, instance.dtype):
        obj = resting(instance)
        given = None if context is None else instance.backend.tensor(context, instance.dtype)
        return asked(obj, call, instance.backend.tensor(x, instance.dtype), given)


def unsynced(instance: Instance, dialect: Dialect) -> str:
    """The method by which an object that repairs nothing else follows its parameters, or nothing."""
    if dialect.repair is not None or not callable(getattr(instance.obj, "modules", None)):
        return ""
    if not any(owners(instance.obj, method) for method in SYNCS):
        return ""
    with instance.backend.sandbox(0, instance.dtype):
        return syncing(instance.copy())


def initialized_back(instance: Instance, spoken: Settled, context: Any) -> bool:
    """Whether an object that no batch initializes on the way forward is initialized by the first on
    its way back.
    """
    if spoken.latent is None or spoken.dialect.inverse is None:
        return False
    backend = instance.backend
    point = backend.tensor(backend.array(spoken.latent), instance.dtype), context
    return initializes(instance, spoken.dialect, point, back=True)


def with_context(
    instance: Instance,
    obj: Any,
    dialect: Dialect,
    facts: Facts,
    chosen: dict[str, str],
    told: bool = False,
) -> tuple[Facts, dict[str, str], tuple[str, ...]]:
    """Facts with the shape of a context that the object cannot be called without, or choices with
    what it is given in the place of a mask or a label, and what is said of that; as they were where
    it asks for nothing. ``told``: labels were declared, which may be None by default.
    """
    from flowref.adapters.user import contexts, masks

    name = contexts.wanted(obj, dialect, chosen)
    if told:
        name = name or contexts.optional(obj, dialect, chosen)
    if not name and not told:
        return facts, chosen, ()
    asked = obj, dialect, instance.backend, instance.dtype, facts, chosen, name
    bound, refused = "", None
    if told:
        known = name and instance.backend.name == "torch"
        count, event = contexts.classes(*asked) if known else (0, ())
        if not count:
            raise SpecError(
                "context was given as labels, and no call takes whole numbers, one a point"
            )
        return with_classes(facts, chosen, name, count, event)
    if not contexts.is_mask(name):
        try:
            found = contexts.infer(*asked)
            shape = ", ".join(map(str, found.context_shape or ()))
            return found, chosen, (f"context: {name} of shape ({shape},)",)
        except Ambiguous:
            raise
        except TargetError as error:
            refused = error
        numbers = isinstance(refused, contexts.RunningLogDet) or instance.backend.name != "torch"
        count, event = (0, facts.event_shape) if numbers else contexts.classes(*asked)
        if count:
            return with_classes(facts, chosen, name, count, event)
    bound = masks.bind(*asked)
    if not bound:
        raise refused or TargetError(f"it asks for {name} besides points: give its ?event=")
    kind = bound.partition("=")[2]
    given = {"none": "None", "label": "1 for all points"}.get(kind, f"ones for {kind}")
    return facts, {**chosen, GIVEN_ONES: bound}, (f"{name}: {given}",)


def _unmasked(facts: Facts, chosen: Mapping[str, str]) -> str:
    """What to say of a mask of ones, where it may leave out the padding of sequences."""
    name, _, kind = chosen.get(GIVEN_ONES, "").partition("=")
    if len(facts.event_shape) != 2 or kind not in ("each position", "each place"):
        return ""
    return f"nothing is left out by {name}: if it masks out padding, say ?padded={name}"


def with_padding(
    instance: Instance, obj: Any, dialect: Dialect, facts: Facts, chosen: dict[str, str]
) -> tuple[Dialect, Facts, dict[str, str], tuple[str, ...]]:
    """Sequences with padding behind them that an argument masks out: of what is kept it is a map like any other."""
    from flowref.adapters.user import masks
    from flowref.adapters.user.conventions import asking, signatures
    from flowref.adapters.user.conventions.call_forms import MASKED_OUT

    name = chosen["padded"]
    asked = obj, dialect, instance.backend, instance.dtype, facts, chosen, name
    mask, event = masks.padding(*asked)
    dense = None
    if name in {one.name for one in signatures.parameters(obj, "log_prob")}:
        call = mask.call("log_prob", (), signatures.apart(obj, "log_prob", 1))
        dense = partial(asking.padded, ask=call, axis=mask.axis)
    dialect = replace(dialect, log_prob=dialect.log_prob and dense, sample=None)
    words = f"padded by one position, which {name} masks out"
    return dialect, replace(facts, event_shape=event), {**chosen, MASKED_OUT: str(mask)}, (words,)


def with_classes(
    facts: Facts, chosen: dict[str, str], name: str, count: int, event: Shape
) -> tuple[Facts, dict[str, str], tuple[str, ...]]:
    """Facts and choices of a flow that takes labels of so many classes, and what is said of that."""
    promises = {**facts.promises, "labels": True}
    found = replace(facts, event_shape=event, context_shape=(1,), promises=promises)
    which = f"labels 0 to {count - 1}" if count > 1 else "the label 0"
    said = f"{name}: {which}, to which contexts are rounded"
    return found, {**chosen, CLASSES: str(count)}, (said,)


def _inferred(
    instance: Instance, obj: Any, dialect: Dialect, facts: Facts, chosen: dict[str, str]
) -> Shape:
    """The event shape that calls in eval mode show, or in train mode where those in eval mode are
    refused.
    """
    from flowref.adapters.user import probing as user

    backend, dtype = instance.backend, instance.dtype
    try:
        return user.infer_shape(obj, dialect, backend, dtype, facts, chosen)
    except Ambiguous:
        raise
    except TargetError:
        other = instance.copy()
        backend.set_mode(other, True)
        with contextlib.suppress(TargetError):
            return user.infer_shape(other, dialect, backend, dtype, facts, chosen)
        raise


def _refuse_other_size(target: Target, facts: Facts) -> None:
    """Refuse a domain with another number of coordinates than the event."""
    size = math.prod(facts.event_shape)
    for name, support in (("domain", facts.domain), ("codomain", facts.codomain)):
        if support is not None and support.coordinates and len(support.coordinates) != size:
            raise TargetError(
                f"{target}: its {name} has {len(support.coordinates)} coordinates, but an event of "
                f"shape {facts.event_shape} has {size}"
            )


def of_normalizer(spoken: Settled, normalizer: Normalizer) -> Settled:
    """How a normalizer speaks: of a log-det that it does not offer nothing need be said."""
    said = tuple(one for one in spoken.conventions if one != NO_LADJ)
    dialect = replace(spoken.dialect, normalizing=normalizer.call)
    return replace(spoken, dialect=dialect, conventions=said, hints=())


def points_of(facts: Facts) -> tuple[Any, Any]:
    """Ordinary points of the domain, with contexts if there are any."""
    rng = np.random.default_rng(0)
    rows = ROWS
    if is_large(facts.event_shape):  # as few as show what is an axis of the batch
        taken = {*facts.event_shape, *(facts.context_shape or ())}
        rows = next(count for count in (3, 5, ROWS, 11) if count not in taken)
    x = draw(facts.domain, (rows, *facts.event_shape), rng)
    context = facts.context_shape
    return x, None if context is None else rng.standard_normal((rows, *context))


def _changes(before: Dialect, after: Dialect) -> list[str]:
    """What the calls of a user's object decided about how it is called."""
    why = []
    if before.forward is not None and after.forward is None:
        why.append("forward returns a number per point: it is the log-likelihood, and no map")
    elif getattr(after.forward, "keywords", {}).get("ladj") is answers.none:
        why.append("forward returns its value alone")
    if after.sample is sample_shape:
        why.append("sample takes a shape")
    return why
