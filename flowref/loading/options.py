"""Facts that the user states in a spec: ?event=3, ?domain=positive, ?promises=autoregressive,
?kind=batch-norm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flowref.model import KINDS, Coupling, Facts, Preprocessing, Shape, SpecError, Support, nearest

# Kinds of couplings, as typed after kind=.
COUPLINGS = {f"{kind}-coupling": kind for kind in KINDS}


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
        raise SpecError(
            f"{name} was given as {text!r}; expected one or more positive sizes, such as 3 or 2,4,4"
        )
    return shape


def preprocessing_of(text: str, name: str) -> Preprocessing:
    """A preprocessing as typed, alpha,bound or alpha,bound,bins: of a flow that begins with that
    logit.
    """
    try:
        alpha, bound, *rest = (float(number) for number in text.strip("()[] ").split(","))
        bins = int(rest[0]) if rest else None
    except ValueError:
        alpha, bound, bins = -1.0, 0.0, None
    if not (0 <= alpha < 0.5 and bound > 0) or (bins is not None and bins < 1):
        raise SpecError(
            f"{name}: preprocessing was given as {text!r}; expected alpha,bound or "
            "alpha,bound,bins, as in 0.05,256,256"
        )
    return Preprocessing(alpha, bound, bins, alone=False)


def override(facts: Facts, options: dict[str, str], name: str, obj: Any = None) -> Facts:
    """Facts with what the user said in the spec; ``obj``: the user's object, None for a library's
    construction.
    """
    from flowref import registry
    from flowref.adapters.user import structure

    if "event" in options:
        facts = replace(facts, event_shape=shape_of(options["event"], "event"))
    if "latent" in options:
        facts = replace(facts, latent_shape=shape_of(options["latent"], "latent"))
    if "context" in options and options["context"] != "0":
        facts = replace(facts, context_shape=shape_of(options["context"], "context"))
    if "domain" in options or "support" in options:
        facts = replace(
            facts,
            domain=Support.parse(options.get("domain", options.get("support"))),
            declared=True,
        )
    if "codomain" in options:
        facts = replace(facts, codomain=Support.parse(options["codomain"]))
    if "squeeze" in options:
        facts = replace(facts, squeezing=structure.squeezing_of(options["squeeze"], name))
    if "preprocessing" in options:
        facts = replace(facts, preprocessing=preprocessing_of(options["preprocessing"], name))
    promises = dict(facts.promises)
    for item in filter(None, options.get("promises", "").split(",")):
        key, equals, value = item.partition("=")
        promises[key] = registry.literal(value) if equals else True
    if "ladj" in options:
        if options["ladj"] != "inverse":
            raise SpecError(
                f"{name}: ladj was given as {options['ladj']!r}; the only declaration is "
                "ladj=inverse"
            )
        promises["ladj"] = "inverse"
    if options.get("perturb", str(promises.get("perturb", ""))) in ("0", "0.0"):
        promises["fixed"] = True
    facts = replace(facts, promises=promises)
    kinds = ",".join(
        kind for kind in options.get("kind", "").split(",") if kind.strip() not in COUPLINGS
    )
    return with_conventions(of_kind(facts, kinds, name, obj) if kinds else facts)


def with_conventions(facts: Facts) -> Facts:
    """Facts in which the conventions of a batch normalizer that are promised, as in momentum=keep,
    count as declared.
    """
    from flowref.model.structure.batch_norm import CONVENTIONS

    stated = {key: value for key, value in facts.promises.items() if key in CONVENTIONS}
    if facts.normalizer is None or not stated:
        return facts
    return replace(
        facts,
        normalizer=replace(facts.normalizer, declared={**facts.normalizer.declared, **stated}),
    )


def coupled(facts: Facts, options: dict[str, str], name: str, obj: Any = None) -> Facts:
    """Facts of an object that is said to be a coupling, by ?kept= or by its attribute ``kept``,
    once the event shape is known.
    """
    from flowref.adapters.user import structure

    known = (
        facts.coupling
        if facts.coupling is not None or obj is None
        else structure.coupling_of(obj, facts.event_shape)
    )
    if "kept" in options:
        mask = structure.mask_of(options["kept"], facts.event_shape)
        if mask is None:
            raise SpecError(
                f"{name}: kept was given as {options['kept']!r}; expected places of an event of "
                f"shape {facts.event_shape}, "
                "flattened, such as 0,2, or alternating, channels or checkerboard (checkerboard:1 "
                "keeps the others)"
            )
        known = Coupling(mask) if known is None else replace(known, kept=mask)
    for kind in options.get("kind", "").split(","):
        if kind.strip() in COUPLINGS:
            if known is None:
                raise SpecError(
                    f"{name}: kind={kind.strip()} was given without kept; say what it keeps, as "
                    "in kept=0,2"
                )
            known = replace(known, kind=COUPLINGS[kind.strip()])
    return replace(facts, coupling=known)


def of_kind(facts: Facts, text: str, name: str, obj: Any) -> Facts:
    """Facts of an object that is said to be a batch normalizer, or of one that is said to be
    something else only.
    """
    from flowref.adapters.common import batch_norms

    kinds = [kind.strip() for kind in text.split(",")]
    for kind in kinds:
        if kind not in batch_norms.KINDS:
            known = ", ".join((*batch_norms.KINDS, *COUPLINGS))
            raise SpecError(
                f"{name}: kind was given as {kind!r}{nearest(kind, batch_norms.KINDS)}; expected "
                f"{known}"
            )
    if obj is None:
        raise SpecError(
            f"{name}: kind is for objects of your own; what a library's construction is, is known"
        )
    if batch_norms.KIND not in kinds:
        coupled = batch_norms.normalizer_of(obj)[1] if facts.normalizer is not None else {}
        kept = {key: value for key, value in facts.promises.items() if key not in coupled}
        return replace(facts, promises=kept, normalizer=None)
    if facts.normalizer is not None:
        return facts
    if not hasattr(obj, "named_buffers"):
        raise SpecError(
            f"{name} gives a {type(obj).__name__}; kind={batch_norms.KIND} is for modules that "
            "keep parameters and buffers"
        )
    normalizer, promises = batch_norms.normalizer_of(obj)
    return replace(facts, promises={**promises, **facts.promises}, normalizer=normalizer)
