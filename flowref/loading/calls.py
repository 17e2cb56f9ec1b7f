"""How the calls of a user's object are made and how their returns are read, found by calling copies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.user.calls import sample_shape
from flowref.adapters.user.contexts import unheard
from flowref.adapters.user.conventions import return_forms
from flowref.adapters.user.conventions.call_evidence import NO_LADJ, Settled
from flowref.adapters.user.conventions.call_forms import GIVEN_ONES
from flowref.adapters.user.conventions.simplex import FROM, opened
from flowref.adapters.user.conventions.surfaces import (
    in_coordinates,
    seen_from_images,
    surface_of,
)
from flowref.adapters.user.inquiry import Inquiry
from flowref.adapters.user.probe_calls import resolve_calls
from flowref.loading.draft import Draft, domain_points
from flowref.loading.initialization import INITIALIZED, initializes, made_ready
from flowref.loading.instance import GIVE_SHAPE, Instance
from flowref.loading.recognition import unread
from flowref.loading.shapes import shaped
from flowref.loading.size import call_with_cached_weights
from flowref.model import CORNER, CURVED, Dialect, Facts, Normalizer, TargetError


def drafted(instance: Instance, dialect: Dialect, facts: Facts) -> Draft:
    """The draft of a user's object whose shapes are known.

    ``dialect`` and ``facts``: as read from attributes and declarations.
    """
    backend = instance.backend
    with backend.sandbox(0, instance.dtype):
        inquiry = shaped(instance, dialect, facts)
        options = instance.source.options
        x, context = domain_points(inquiry.facts)
        given = None if context is None else backend.tensor(context, instance.dtype)
        point = backend.tensor(x, instance.dtype), given
        asked = made_ready(inquiry.obj, inquiry.dialect, backend, point)
        draft = _settled(instance, inquiry, point, options)
        draft, shown = _by_batches(inquiry, draft, point, asked, options.get("kind"))
        if _may_be_on_a_surface(draft, options, context):
            draft = _on_surface(inquiry.obj, draft, point[0])
        if FROM in inquiry.chosen and draft.dialect.log_prob is None:
            draft = _of_simplex(inquiry.obj, draft, point)
    why = *draft.why, *_convention_changes(inquiry.dialect, draft.dialect), *shown
    return replace(draft, why=why)


def _settled(
    instance: Instance, inquiry: Inquiry, point: tuple[Any, Any], options: Mapping[str, str]
) -> Draft:
    """The resolved calling convention, with remarks on contexts that were left out and methods that were
    not recognized.
    """
    facts = inquiry.facts

    def settled(_: Any, x: Any, context: Any) -> Settled:
        return resolve_calls(inquiry, x, context)

    resolved = call_with_cached_weights(inquiry.backend, settled, inquiry.obj, *point).saying(
        *inquiry.said
    )
    hints = [unread(inquiry.obj, resolved.dialect, options), _unmasked(facts, inquiry.chosen)]
    if "context" not in options:
        option, hint = unheard(replace(inquiry, dialect=resolved.dialect))
        facts, hints = replace(facts, optional_context=option), [hint, *hints]
    resolved = replace(resolved, hints=(*resolved.hints, *filter(None, hints)))
    return Draft(instance, facts, resolved, inquiry.why)


def _unmasked(facts: Facts, chosen: Mapping[str, str]) -> str:
    """The remark that a mask of ones was passed, if it may be a padding mask of sequences; else empty."""
    name, _, kind = chosen.get(GIVEN_ONES, "").partition("=")
    if len(facts.event_shape) != 2 or kind not in ("each position", "each place"):
        return ""
    return f"{name} is passed as ones: if it masks out padding, say ?padded={name}"


def _by_batches(
    inquiry: Inquiry, draft: Draft, point: tuple[Any, Any], asked: bool, kind: str | None
) -> tuple[Draft, tuple[str, ...]]:
    """The draft with what train-mode batches do to the object, and why: the first batch initializes it
    (``asked``: it demanded that call before), or each batch is normalized.
    """
    from flowref.adapters.common.normalizers import recognition

    instance, facts, resolved = draft.instance, draft.facts, draft.resolved
    if facts.normalizer is None and (asked or initializes(instance, resolved.dialect, point)):
        # initialization: only its first batch comes out standardized
        return draft.saying(INITIALIZED), ()
    if facts.normalizer is None and _initialized_back(instance, resolved, point[1]):
        # Data enter through the inverse.
        resolved = replace(resolved, dialect=replace(resolved.dialect, normalizing="inverse"))
        words = f"{INITIALIZED}, by inverse: that takes data to latents"
        return replace(draft, resolved=resolved).saying(words), ()
    dtype = point[0].dtype
    found, shown = recognition.completed(inquiry.obj, resolved.dialect, facts, dtype, kind)
    if facts.normalizer is not None and found.normalizer is None:
        # An object called a normalizer gets the reason why it is not treated as one
        resolved = resolved.saying(*shown)
    if shown and found.normalizer is not None:
        resolved = _of_normalizer(resolved, found.normalizer)
    return replace(draft, facts=found, resolved=resolved), shown


def _initialized_back(instance: Instance, resolved: Settled, context: Any) -> bool:
    """Whether the first batch in train mode initializes the object through its inverse, though not through
    forward.
    """
    if resolved.latent is None or resolved.dialect.inverse is None:
        return False
    backend = instance.backend
    point = backend.tensor(backend.array(resolved.latent), instance.dtype), context
    return initializes(instance, resolved.dialect, point, back=True)


def _of_normalizer(resolved: Settled, normalizer: Normalizer) -> Settled:
    said = tuple(one for one in resolved.conventions if one != NO_LADJ)
    dialect = replace(resolved.dialect, normalizing=normalizer.call)
    return replace(resolved, dialect=dialect, conventions=said, hints=())


def on_manifold(draft: Draft) -> Draft:
    """The draft in coordinates of its manifold, if the object, whose adapter states its calls, lives on
    one; else unchanged.
    """
    instance, options = draft.instance, dict(draft.instance.source.target.options)
    backend = instance.backend
    with backend.sandbox(0, instance.dtype):
        x, context = domain_points(draft.facts)
        if not _may_be_on_a_surface(draft, options, context):
            return draft
        return _on_surface(instance.resting(), draft, backend.tensor(x, instance.dtype))


def _may_be_on_a_surface(draft: Draft, options: Mapping[str, str], context: Any) -> bool:
    """Whether a manifold is declared, or may be searched for: no context is passed, and no option names a
    domain.
    """
    facts = draft.facts
    if facts.normalizer is not None or draft.dialect.push is not None:
        return False
    if facts.domain.kind in CURVED:
        return True
    if facts.domain.kind == "simplex" and draft.dialect.sample is not None:
        return False  # tested by sampling/follows-density[simplex]
    asked = any(options.get(name) == "real" for name in ("domain", "support"))
    return context is None and facts.domain.kind in ("simplex", "real") and not asked


def _on_surface(obj: Any, draft: Draft, x: Any) -> Draft:
    """The draft in coordinates of its manifold; unchanged if its domain has full dimension."""
    facts, resolved = draft.facts, draft.resolved
    found = surface_of(obj, resolved.dialect, x, facts.domain)
    if found is None:
        return draft
    image = seen_from_images(resolved.dialect, obj, found, x)
    latent = None if resolved.latent is None else image.coordinates(resolved.latent)
    dialect = in_coordinates(resolved.dialect, found, image)
    resolved = replace(resolved, dialect=dialect, latent=latent, ladj_event=())
    promises = {name: value for name, value in facts.promises.items() if name != "batch-dims"}
    facts = replace(
        facts,
        event_shape=found.shape,
        latent_shape=None if facts.latent_shape is None else found.shape,
        domain=found.support,
        codomain=found.support if found.support.has_end and dialect.forward is not None else None,
        ladj_event=(),
        guessed=(),
        knots=(),
        promises=promises,
        surface=found,
    )
    return replace(draft, facts=facts, resolved=resolved).saying(found.words)


def _of_simplex(obj: Any, draft: Draft, point: tuple[Any, Any]) -> Draft:
    """The draft of a map between simplices without the last, dependent coordinate; unchanged if the map
    returns as many entries that lie on no simplex.
    """
    resolved = draft.resolved
    if resolved.latent is None or not (
        found := opened(obj, resolved.dialect, point[0], resolved.latent, point[1])
    ):
        return draft
    dialect, latent, said = found
    facts = replace(draft.facts, event_shape=(point[0].shape[-1] - 1,), domain=CORNER)
    resolved = replace(resolved, dialect=dialect, latent=latent)
    return replace(draft, facts=facts, resolved=resolved).saying(said)


def _convention_changes(before: Dialect, after: Dialect) -> list[str]:
    why = []
    if before.forward is not None and after.forward is None:
        why.append("forward returns a number per point: it is the log-likelihood, and no map")
    elif getattr(after.forward, "keywords", {}).get("ladj") is return_forms.none:
        why.append("forward returns its value alone")
    if getattr(after.sample, "func", None) is sample_shape:
        why.append("sample takes a shape")
    return why


def with_checked_log_det(draft: Draft) -> Draft:
    """The draft of a map with the conventions of its log-det resolved by calls.

    Raises `TargetError` if the numbers of real inputs and outputs differ, or a normalizer has another
    number of channels.
    """
    from flowref.adapters.common.normalizers import shapes

    resolved, facts, target = draft.resolved, draft.facts, draft.instance.source.target
    promises = {**resolved.promises, **facts.promises}
    facts = replace(facts, ladj_event=resolved.ladj_event, promises=promises)
    event, latent = facts.event_shape, resolved.latent
    if facts.normalizer is not None and (
        reason := shapes.misfit(draft.instance.obj, facts.normalizer, event)
    ):
        raise TargetError(f"{target}: {reason}. Give {GIVE_SHAPE}")
    if latent is None:
        return replace(draft, facts=facts)
    if "complex" in str(latent.dtype):
        raise TargetError(
            f"{target}: forward returns complex numbers, and laws are measured on real ones. Audit "
            "a wrapper that takes and returns real and imaginary parts as entries of their own"
        )
    shape = tuple(latent.shape[1:])
    if math.prod(shape) != math.prod(event):
        raise TargetError(
            f"{target}: forward maps an event of shape {event} to "
            f"{shape}; a bijection keeps the number of entries. If the event "
            "shape is another, give it as ?event=3 or ?event=2,4,4; if it returns "
            "log-likelihoods, say ?returns=log_prob; if it drops or draws entries on purpose, "
            f"?draws={'inverse' if math.prod(shape) < math.prod(event) else 'forward'}"
        )
    return replace(draft, facts=replace(facts, latent_shape=shape))
