"""Facts that the user states in a spec: ?event=3, ?domain=positive, ?promises=autoregressive."""

from __future__ import annotations

from dataclasses import replace

from flowref.model import Facts, Shape, SpecError, Support


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


def override(facts: Facts, options: dict[str, str], name: str) -> Facts:
    """Facts with what the user said in the spec."""
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
    return replace(facts, promises=promises)
