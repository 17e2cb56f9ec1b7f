"""Fourth stage: options of the spec, such as ?event=3, ?domain=positive or ?kind=batch-norm, override what
was recognized.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref import registry
from flowref.adapters.user.conventions.labels import GIVEN_LABELS
from flowref.adapters.user.conventions.user_choices import choices
from flowref.adapters.user.structure import coupling_of as stated_coupling
from flowref.adapters.user.structure import mask_of, squeezing_of
from flowref.loading.factory import attributes, text_of
from flowref.loading.instance import Instance
from flowref.loading.options import COUPLINGS, kinds, parse_shape, parse_support, preprocessing_of
from flowref.loading.recognition import Recognition
from flowref.loading.weights import Weights
from flowref.model import (
    USER,
    Adapter,
    Coupling,
    Facts,
    Shape,
    SpecError,
    nearest,
)
from flowref.model.declaration import FLOW
from flowref.model.promises import ANYONE, canonical, checked

# The option that gives other options precedence over what the object states.
OVERRIDE = "override"
# Option -> the fact that it states, and its parser. Errors about a shape name the option, others
# the target.
STATES: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "event": ("event_shape", parse_shape),
    "latent": ("latent_shape", parse_shape),
    "context": ("context_shape", parse_shape),
    "domain": ("domain", parse_support),
    "support": ("domain", parse_support),
    "codomain": ("codomain", parse_support),
    "squeeze": ("squeezing", squeezing_of),
    "preprocessing": ("preprocessing", preprocessing_of),
}


@dataclass(frozen=True)
class Declared:
    """Facts after the user's options.

    ``coupling``: the declared coupling, once the event shape is known; ``weights``: those to load;
    ``conflicts``: a sentence for each option that overrides the object or its adapter.
    """

    facts: Facts
    coupling: Callable[[Shape], Coupling | None]
    conflicts: tuple[str, ...] = ()
    weights: Weights | None = None


# Conventions that exist for code in PyTorch only.
OF_TORCH = (
    "inverse_ladj", "ladj_form", "offset", "batch_axis", "padded", "beside",
)  # fmt: skip


def declare(instance: Instance, recognition: Recognition) -> Declared:
    """Apply the options of a target to what was recognized.

    Raises `SpecError` if an option cannot be read, a promise is unknown, or an option contradicts the
    object without ``override``.
    """
    from flowref.adapters.user import facts as user

    target = instance.source.target
    options, declared, name = instance.source.options, instance.source.declared, str(target)
    obj = instance.obj if instance.source.statement is None else None
    if of_users(recognition.adapter):
        checked(user.promises_of(obj), registry.promises(), ANYONE, name)
    if recognition.adapter.backend == "jax" and (
        unheard := [one for one in options if one in OF_TORCH]
    ):
        raise SpecError(
            f"{name}: ?{unheard[0]}= describes code in PyTorch; in JAX name a factory that gives (parameters, "
            "forward, inverse), of which forward returns the value and the log-det"
        )
    facts = with_stated_facts(recognition.facts, options, name)
    facts = with_declared_promises(facts, options, name)
    factory = attributes(instance.source.factory)
    named = getattr(factory, "kind", "")
    given = [kind.strip() for kind in options.get("kind", named).split(",")]
    if others := [kind for kind in given if kind and kind not in COUPLINGS]:
        facts = of_kind(facts, others, name, obj)
    facts = replace(with_conventions(facts), given=instance.source.weights is not None)
    if "normalizing" in instance.chosen(
        instance.obj
    ):  # the option names which call maps data to latents
        promises = {name: value for name, value in facts.promises.items() if name != "direction"}
        facts = replace(facts, promises=promises)
    coupling: Callable[[Shape], Coupling | None] = lambda shape: facts.coupling  # noqa: E731
    if of_users(recognition.adapter):
        owner = factory if hasattr(factory, "kept") else obj
        coupling = partial(coupling_of, facts.coupling, options, name, owner)
    overridden = conflicts(recognition.facts, facts, options, obj, factory)
    if overridden and options.get(OVERRIDE, "").casefold() != "true":
        first = _by(overridden[0], declared)
        what = "option" if first is overridden[0] else "key"
        raise SpecError(
            f"{name}: {first}; leave the {what} out, or add &{OVERRIDE}=true to let it decide"
        )
    overridden = tuple(_by(one, declared) for one in overridden)
    overridden += tuple(
        f"?{option}={value} stands, though its {FLOW} says {declared[option]}"
        for option, value in target.options
        if option != "promises" and declared.get(option, value) != value
    )
    if recognition.facts.normalizer is not None and facts.normalizer is None:
        overridden += (f"?kind={options['kind']} stands, though it looks like a batch normalizer",)
    return Declared(facts, coupling, overridden, instance.source.weights)


def _by(conflict: str, declared: Mapping[str, str]) -> str:
    """A sentence about a conflict that names the declaration, if the option comes from it."""
    option = conflict.partition(" ")[0].removeprefix("?").partition("=")
    return f"{FLOW}, {conflict[1:]}" if declared.get(option[0]) == option[2] else conflict


def of_users(adapter: Adapter) -> bool:
    """Whether an adapter reads user code, in any framework: statements of such objects count."""
    return adapter.name == USER or (adapter.settles is not None and not adapter.package)


def with_stated_facts(facts: Facts, options: Mapping[str, str], name: str) -> Facts:
    """Facts with the shapes, supports and structure that options state."""
    found: dict[str, Any] = {}
    for option, (field, read) in STATES.items():
        text = options.get(option)
        if text is not None and not (option == "context" and text in ("0", GIVEN_LABELS)):
            found.setdefault(field, read(text, option if read is parse_shape else name))
    if "domain" in found:
        found["declared"] = True
    return replace(facts, **found)


def with_declared_promises(facts: Facts, options: Mapping[str, str], name: str) -> Facts:
    """Facts with the promises of options."""
    typed: dict[str, Any] = {}
    for item in filter(None, options.get("promises", "").split(",")):
        key, equals, value = item.partition("=")
        typed[key.strip()] = registry.literal(value) if equals else True
    promises = {**facts.promises, **checked(typed, registry.promises(), ANYONE, name)}
    if "ladj" in options:
        if options["ladj"] != "inverse":
            raise SpecError(
                f"{name}: ladj was given as {options['ladj']!r}; the only declaration is "
                "ladj=inverse"
            )
        promises["ladj"] = "inverse"
    if options.get("perturb", str(promises.get("perturb", ""))) in ("0", "0.0"):
        promises["fixed"] = True
    return replace(facts, promises=promises)


def with_conventions(facts: Facts) -> Facts:
    """Facts in which promised conventions of a batch normalizer, such as momentum=keep, are set."""
    from flowref.model.structure.batch_norm import CONVENTIONS

    chosen = {
        name: facts.promises[canonical(name)]
        for name in CONVENTIONS
        if canonical(name) in facts.promises
    }
    if facts.normalizer is None or not chosen:
        return facts
    declared = {**facts.normalizer.declared, **chosen}
    return replace(facts, normalizer=replace(facts.normalizer, declared=declared))


def coupling_of(
    coupling: Coupling | None, options: Mapping[str, str], name: str, obj: Any, shape: Shape
) -> Coupling | None:
    """The coupling declared by the attribute ``kept`` or by ?kept=, for an event ``shape``; None if there
    is none.
    """
    if coupling is None:
        coupling = stated_coupling(obj, shape)
    if "kept" in options:
        mask = mask_of(options["kept"], shape)
        if mask is None:
            raise SpecError(
                f"{name}: kept was given as {options['kept']!r}; expected places of an event of "
                f"shape {shape}, flattened, such as 0,2, or alternating, channels or checkerboard "
                "(checkerboard:1 keeps the others)"
            )
        coupling = Coupling(mask) if coupling is None else replace(coupling, kept=mask)
    for kind in options.get("kind", "").split(","):
        if kind.strip() in COUPLINGS:
            if coupling is None:
                raise SpecError(
                    f"{name}: kind={kind.strip()} was given without kept; say what it keeps, as "
                    "in kept=0,2"
                )
            coupling = replace(coupling, kind=COUPLINGS[kind.strip()])
    return coupling


def of_kind(facts: Facts, given: list[str], name: str, obj: Any) -> Facts:
    """Facts of an object that is declared to be a batch normalizer, or declared not to be one."""
    from flowref.adapters.common.normalizers import spellings

    for kind in given:
        if kind not in spellings.KINDS:
            raise SpecError(
                f"{name}: kind was given as {kind!r}{nearest(kind, spellings.KINDS)}; expected "
                f"{', '.join(kinds())}. It goes to a factory that has a parameter of that name"
            )
    if obj is None:
        raise SpecError(
            f"{name}: kind is for objects of your own; the kind of a library's construction is known"
        )
    if spellings.KIND not in given:
        coupled = spellings.normalizer_of(obj)[1] if facts.normalizer is not None else {}
        kept = {key: value for key, value in facts.promises.items() if key not in coupled}
        return replace(facts, promises=kept, normalizer=None)
    if facts.normalizer is not None:
        return facts
    if not hasattr(obj, "named_buffers"):
        raise SpecError(
            f"{name} gives a {type(obj).__name__}; kind={spellings.KIND} is for modules that "
            "keep parameters and buffers"
        )
    normalizer, promises = spellings.normalizer_of(obj)
    return replace(facts, promises={**promises, **facts.promises}, normalizer=normalizer)


def conflicts(
    before: Facts, after: Facts, options: Mapping[str, str], obj: Any, factory: Any = None
) -> tuple[str, ...]:
    """A sentence for each option that contradicts the object, its factory or the adapter of its library."""
    recognized: dict[str, Any] = {field: getattr(before, field) for field, _ in STATES.values()}
    if not before.declared:
        recognized["domain"] = None
    # An adapter that gets a shape does not read the attribute
    own = getattr(obj, "event_shape", None)
    if isinstance(own, int | tuple | list) and not getattr(factory, "event_shape", None):
        recognized["event_shape"] = (own,) if isinstance(own, int) else tuple(own)
    who = "its adapter" if obj is None else "the object"
    found = [
        (f"{option}={options[option]}", _who(factory, field, who), text_of(recognized[field]))
        for option, (field, _) in STATES.items()
        if option in options and recognized[field] and recognized[field] != getattr(after, field)
    ]
    found += [
        (f"{name}={options[name]}", _who(factory, name, who), said)
        for name, said in choices(obj, factory, {}).items()
        if options.get(name, said) != said
    ]
    found += [
        (f"promises={key}={after.promises[key]!r}", _who(factory, "promises", who), repr(value))
        for key, value in before.promises.items()
        if key in after.promises and after.promises[key] != value
    ]
    return tuple(f"?{option} contradicts {who}, which says {said}" for option, who, said in found)


def _who(factory: Any, name: str, other: str) -> str:
    return "its factory" if getattr(factory, name, None) is not None else other
