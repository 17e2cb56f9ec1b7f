"""Facts that the user states in a spec: ?event=3, ?domain=positive, ?promises=autoregressive, ?kind=batch-norm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowref.model import Facts, Shape, SpecError, Support, nearest


def event_option(options: dict[str, str]) -> Shape | None:
    """The event shape given as ?event=3 or ?event=2,4,4."""
    return shape_of(options["event"], "event") if "event" in options else None


def shape_of(text: str, name: str) -> Shape:
    """A shape as typed."""
    try:
        shape = tuple(int(size) for size in text.strip("()[] ").split(",") if size.strip())
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise SpecError(f"{name} was given as {text!r}; expected one or more positive sizes, such as 3 or 2,4,4")
    return shape


def override(facts: Facts, options: dict[str, str], name: str, obj: Any = None) -> Facts:
    """Facts with what the user said in the spec; ``obj``: the user's object, None for a library's construction."""
    from flowref import registry

    if "event" in options:
        facts = replace(facts, event_shape=shape_of(options["event"], "event"))
    if "latent" in options:
        facts = replace(facts, latent_shape=shape_of(options["latent"], "latent"))
    if "context" in options and options["context"] != "0":
        facts = replace(facts, context_shape=shape_of(options["context"], "context"))
    if "domain" in options or "support" in options:
        facts = replace(facts, domain=Support.parse(options.get("domain", options.get("support"))), declared=True)
    if "codomain" in options:
        facts = replace(facts, codomain=Support.parse(options["codomain"]))
    promises = dict(facts.promises)
    for item in filter(None, options.get("promises", "").split(",")):
        key, equals, value = item.partition("=")
        promises[key] = registry.literal(value) if equals else True
    if "ladj" in options:
        if options["ladj"] != "inverse":
            raise SpecError(f"{name}: ladj was given as {options['ladj']!r}; the only declaration is ladj=inverse")
        promises["ladj"] = "inverse"
    if options.get("perturb", str(promises.get("perturb", ""))) in ("0", "0.0"):
        promises["fixed"] = True
    facts = replace(facts, promises=promises)
    return with_conventions(of_kind(facts, options["kind"], name, obj) if "kind" in options else facts)


def with_conventions(facts: Facts) -> Facts:
    """Facts in which the conventions of a batch normaliser that are promised, as in momentum=keep, count as declared."""
    from flowref.adapters import _normalisers

    stated = {key: value for key, value in facts.promises.items() if key in _normalisers.CONVENTIONS}
    if facts.normaliser is None or not stated:
        return facts
    return replace(facts, normaliser=replace(facts.normaliser, declared={**facts.normaliser.declared, **stated}))


def of_kind(facts: Facts, text: str, name: str, obj: Any) -> Facts:
    """Facts of an object that is said to be a batch normaliser, or of one that is said to be something else only."""
    from flowref.adapters import _normalisers

    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in _normalisers.KINDS:
            known = ", ".join(_normalisers.KINDS)
            raise SpecError(f"{name}: kind was given as {kind!r}{nearest(kind, _normalisers.KINDS)}; expected {known}")
    if obj is None:
        raise SpecError(f"{name}: kind is for objects of your own; what a library's construction is, is known")
    if _normalisers.KIND not in kinds:
        coupled = _normalisers.known(obj)[1] if facts.normaliser is not None else {}
        kept = {key: value for key, value in facts.promises.items() if key not in coupled}
        return replace(facts, promises=kept, normaliser=None)
    if facts.normaliser is not None:
        return facts
    if not hasattr(obj, "named_buffers"):
        raise SpecError(f"{name} gives a {type(obj).__name__}; kind={_normalisers.KIND} is for torch modules")
    normaliser, promises = _normalisers.known(obj)
    return replace(facts, promises={**promises, **facts.promises}, normaliser=normaliser)
