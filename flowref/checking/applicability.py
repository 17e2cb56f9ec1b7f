"""Whether a law speaks about a subject, and the larger target that some laws are measured on."""

from __future__ import annotations

from flowref import loading
from flowref.checking.settings import Settings
from flowref.model import CONTRACT, Condition, Law, Subject, Target, one_line
from flowref.model.promises import canonical

# The operations of a round trip up to which a target is built with several hundred features.
WIDEST = 5000


def not_applicable(law: Law, subject: Subject, settings: Settings) -> str | None:
    """Why a law says nothing about a subject, or None if it does."""
    missing = subject.lacks(law.needs)
    if missing:
        return f"it offers no {', no '.join(missing)}"
    promise = None if law.promise is None else canonical(law.promise)
    if law.force == CONTRACT and promise is not None and not subject.promises.get(promise):
        return f"it does not promise {promise}"
    if law.thorough and not settings.thorough:
        return "measured in the thorough profile only"
    if law.points == "beyond" and not (subject.facts.declared and subject.domain.bounded):
        return "no bounded domain is declared"
    return None if law.applies is None else law.applies.unmet(subject)


def rebuilt(
    target: Target, subject: Subject, law: Law, settings: Settings
) -> tuple[Target, Subject] | str:
    """The target and the subject that a law is measured on: themselves, or, where ``law.rebuild``
    asks for it, built with another number of features; or why they cannot be.
    """
    if law.rebuild is None:
        return target, subject
    if not law.features and subject.operations > WIDEST and not settings.thorough:
        return (
            f"a round trip takes {subject.operations} operations with few features: thorough "
            "profile only"
        )
    wider = law.measured_on(target, subject.promises)
    if wider is None:
        return "it cannot be built with another number of features"
    try:
        return wider, loading.load(wider, Condition(history=law.history))
    except Exception as error:
        if not law.features:
            raise
        return f"with {law.features} features it raises {one_line(error)}"
