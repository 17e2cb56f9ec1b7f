"""The test of the tests: every mutant is caught by its law, and every law holds on every healthy
subject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from flowref import registry
from flowref.auditing.running import Listener, Options, conduct
from flowref.auditing.selection import mutated
from flowref.auditing.worker import check_pair, guarded
from flowref.model import ADVICE, FlowrefError, Mutant, Status
from flowref.reporting.outcomes import BROKEN
from flowref.reporting.report import Report


def healthy_specs() -> tuple[str, ...]:
    """Specs of what every law must hold for: constructions that the adapters of what is installed
    vouch for, and the healthy twins of the zoo.
    """
    vouched = [
        f"{name}:{component}"
        for name, adapter in registry.adapters().items()
        if registry.installed(name)
        for component in adapter.healthy()
    ]
    return (*vouched, *sorted(registry.specimens()))


@dataclass(frozen=True)
class Catch:
    """Whether a mutant was caught, and if not what was said instead."""

    mutant: Mutant
    caught: bool
    said: str


def catch(mutant: Mutant, profile: str = "standard", seed: int = 0) -> Catch:
    """Whether the law of a mutant is violated on its host."""
    from flowref.checking import Settings

    try:
        law = registry.find_law(mutant.law)
        target = mutated(registry.parse_target(mutant.host), mutant.id)
    except FlowrefError as error:
        return Catch(mutant, False, str(error))
    settings = Settings("thorough" if law.thorough else profile, seed)
    outcome = guarded(check_pair, target, law.id, settings)
    if outcome.verdict is None:
        return Catch(mutant, False, outcome.raised)
    wanted = Status.ADVICE if law.force == ADVICE else Status.VIOLATED
    said = f"{outcome.verdict.status} {outcome.verdict.reason}".strip()
    return Catch(mutant, outcome.verdict.status is wanted, said)


def healthy(options: Options, listener: Listener) -> Report:
    """Every law on every subject that is known to be correct; anything but a pass or an abstention
    is a false alarm.
    """
    return conduct(healthy_specs(), (), replace(options, folder=None), listener)


def selftest(
    options: Options, listener: Listener, tell: Callable[[Catch, int, int], None]
) -> tuple[list[Catch], Report]:
    """Both halves: the mutants that escaped, and the report on healthy subjects."""
    mutants = registry.mutants()
    escaped = []
    for place, mutant in enumerate(mutants, 1):
        found = catch(mutant, options.profile, options.seed)
        tell(found, place, len(mutants))
        if not found.caught:
            escaped.append(found)
    return escaped, healthy(options, listener)


def alarms(report: Report) -> int:
    """How many verdicts about healthy subjects accuse or broke, and how many could not be loaded."""
    unloaded = set(report.problems) - set(registry.problems())
    return len(report.with_status(Status.VIOLATED, *BROKEN)) + len(unloaded)
