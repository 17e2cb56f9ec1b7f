"""Whether a law applies to a subject, and the rebuilt target that some laws are measured on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from flowref import loading, registry
from flowref.checking.plan import trainable
from flowref.checking.settings import Settings
from flowref.model import CONTRACT, Law, NotJudged, Subject, Target, Unsupported, one_line
from flowref.model.call import OPPOSITE
from flowref.model.not_judged import UNMOVED
from flowref.model.promises import canonical

# The operations of a round trip up to which a target is built with several hundred features.
WIDEST = 5000
# The operations of a round trip up to which training is affordable.
TRAINED_OPERATIONS = 2500
# Missing ability -> abilities with which the law is reported as blocked rather than not applicable: a
# map without an inverse is still a bijection.
BESIDE = {
    "inverse": ("forward",),
    "forward": ("inverse",),
    "sample": ("log_prob",),
    "log_prob": ("sample", "base_log_prob"),
    "base_log_prob": ("log_prob",),
    "cdf": ("icdf",),
    "icdf": ("cdf",),
    "jacobian": ("forward",),
}
REMEDIES = {
    "inverse": "say ?inverse=NAME if a method is one",
    "sample": "say ?sample=NAME if a method draws",
    "base_log_prob": "give the flow an attribute `base` with `log_prob` to have this checked",
}
# Abilities that exist only along perturbed parameters.
ALONG = frozenset({"along", "slope"})
# Abilities of every map whose calls terminate.
OF_A_MAP = frozenset({"forward", "inverse", "jacobian", "walk", "vjp", *ALONG})
THOROUGH = "--profile thorough measures them"
STANDARD = "--profile standard trains it"


def not_applicable(law: Law, subject: Subject, settings: Settings) -> NotJudged | None:
    """Return why a law does not apply to a subject, or None if it applies."""
    missing = subject.lacks(law.needs)
    if missing:
        return missing_ability_silence(missing, subject)
    promise = None if law.promise is None else canonical(law.promise)
    if law.force == CONTRACT and promise is not None and not subject.promises.get(promise):
        return NotJudged(f"it does not promise {promise}")
    if law.points == "beyond" and not (subject.facts.declared and subject.domain.has_end):
        return NotJudged("no bounded domain is declared")
    unmet = None if law.applies is None else law.applies.unmet(subject)
    if unmet is None and law.thorough and not settings.thorough:
        return NotJudged("measured in the thorough profile only", remedy=THOROUGH)
    return unmet


def in_its_condition(target: Target, law: Law, settings: Settings) -> Subject | NotJudged:
    """Load the subject in the condition of a law, or return why there is none. The base law of a
    case is checked first, since the case itself may need training.
    """
    if not law.is_case:
        return loading.load(target, replace(law.condition, device=settings.device))
    base = registry.find_law(law.base)
    try:
        usual = loading.load(
            target,
            replace(
                base.condition,
                contextual=law.contextual,
                one_context=law.one_context,
                resized=law.resized,
            ),
        )
    except Unsupported as refusal:
        return NotJudged(str(refusal), bool(refusal.blocked), refusal.remedy)
    silence = not_applicable(base, usual, settings)
    missing = usual.lacks(frozenset(OPPOSITE)) if law.direction == "inverse" else []
    if silence is not None or missing:
        return silence or missing_ability_silence(missing, usual)
    if law.history == "trained" and settings.quick:
        return NotJudged("trained in the standard profile only", remedy=STANDARD)
    if law.history == "trained" and not affords_training(usual, settings):
        return NotJudged("it takes too long to train", True)
    try:
        return loading.load(target, replace(law.condition, device=settings.device))
    except Unsupported as refusal:
        return NotJudged(str(refusal), bool(refusal.blocked), refusal.remedy)


def affords_training(subject: Subject, settings: Settings) -> bool:
    """Whether training the subject fits the budget."""
    return subject.operations <= TRAINED_OPERATIONS and trainable(subject, settings)


def _event_size(subject: Subject) -> int:
    return math.prod(subject.event_shape)


def missing_ability_silence(missing: Sequence[str], subject: Subject) -> NotJudged:
    """Return the `NotJudged` of a law whose abilities are missing. A batch normalizer is never
    reported as blocked: it need not be a layer of a flow.
    """
    broken = subject.facts.broken or {}
    for ability in missing:
        if ability in broken:
            return NotJudged(f"its {ability} raises {broken[ability]}", True)
    if subject.facts.unended:
        return NotJudged(subject.facts.unended, set(missing) <= OF_A_MAP)
    if subject.facts.unmoved and set(missing) <= ALONG:
        return NotJudged(UNMOVED, True, subject.facts.unmoved)
    blocked = subject.normalizer is None and all(
        any(getattr(subject, other) for other in BESIDE.get(ability, ())) for ability in missing
    )
    remedy = REMEDIES.get(missing[0], "") if blocked and len(missing) == 1 else ""
    return NotJudged(f"it offers no {', no '.join(missing)}", blocked, remedy)


def resembled(law: Law, target: Target) -> Target | None:
    """Return the target whose recorded calls predict those of its wider version; None if the wider
    version is cheap enough to be probed itself.
    """
    return target if law.rebuild is not None and not law.features else None


def rebuilt_target(
    target: Target, subject: Subject, law: Law, settings: Settings
) -> Target | NotJudged:
    """Return the target that a law is measured on: itself or, if ``law.rebuild`` is set, with
    another number of features; or why that cannot be built.
    """
    if law.rebuild is None:
        return target
    if not law.features and subject.operations > WIDEST and not settings.thorough:
        return NotJudged(
            f"its calls take {subject.operations} operations with {_event_size(subject)} features, and "
            "more with several hundred: thorough profile only",
            True,
            THOROUGH,
        )
    wider = law.measured_on(target, subject.promises)
    if wider is None:
        return NotJudged("it cannot be built with another number of features")
    if subject.facts.given:
        return NotJudged("its weights are given, and fit this number of features only")
    return wider


def rebuilt(
    target: Target, subject: Subject, law: Law, settings: Settings
) -> tuple[Target, Subject] | NotJudged:
    """Return the target that a law is measured on and its subject, or why they cannot be built."""
    wider = rebuilt_target(target, subject, law, settings)
    if isinstance(wider, NotJudged):
        return wider
    if law.rebuild is None:
        return target, subject
    try:
        return wider, loading.load(wider, law.condition, resembled(law, target))
    except Exception as error:
        if not law.features:
            raise
        return NotJudged(f"with {law.features} features it raises {one_line(error)}")
