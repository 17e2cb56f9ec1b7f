"""The test of the tests: every mutant is caught by its law, and every law holds on every healthy
subject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from flowref import registry
from flowref.auditing.options import Listener, Options
from flowref.auditing.running import conduct
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
class Trial:
    """Whether a mutant was caught, on which host, and what came of it in words. ``planted``: whether it
    could be planted at all, in code of a library that is installed.
    """

    mutant: Mutant
    caught: bool
    outcome: str
    host: str = ""
    planted: bool = True

    @property
    def word(self) -> str:
        """What became of it. In a host that stands in for another a mutant may be no defect at all:
        what is not caught there is unseen, and has not escaped.
        """
        if self.caught:
            return "caught"
        if self.host == self.mutant.host:
            return "ESCAPED"
        return "unseen" if self.planted else "no host"


def hosts_of(mutant: Mutant) -> tuple[str, ...]:
    """Where a mutant is planted: in its host, or, where its library is not installed, as no library of
    torch is beside JAX, in each construction that the adapters of what is installed vouch for.
    """
    try:
        here = registry.installed(registry.parse_target(mutant.host).adapter)
    except FlowrefError:  # which trying it says better
        here = True
    return (mutant.host,) if here else healthy_specs()


def trial(mutant: Mutant, profile: str = "standard", seed: int = 0) -> Trial:
    """Whether the law of a mutant is violated on its host, or on one of those that stand in for it."""
    hosts = hosts_of(mutant)
    found = Trial(
        mutant, False, f"{mutant.host} is not installed, nor code that takes it", planted=False
    )
    for host in hosts:
        tried = trial_on(mutant, host, profile, seed)
        if tried.caught or host == mutant.host:
            return tried
        if tried.planted:
            found = tried
    return found


def trial_on(mutant: Mutant, host: str, profile: str, seed: int) -> Trial:
    """Whether the law of a mutant is violated on a host."""
    from flowref.checking import Settings

    try:
        law = registry.find_law(mutant.law)
        target = registry.parse_target(host).with_options(mutant=mutant.id)
    except FlowrefError as error:
        return Trial(mutant, False, str(error), host)
    settings = Settings("thorough" if law.thorough else profile, seed)
    outcome = guarded(check_pair, target, law.id, settings)
    if outcome.verdict is None:  # a defect of what the host has not
        return Trial(mutant, False, outcome.raised, host, planted=False)
    wanted = Status.ADVICE if law.force == ADVICE else Status.VIOLATED
    status, reason = outcome.verdict.status, outcome.verdict.reason
    # What the host has not is no place for a defect of it.
    planted = host == mutant.host or status not in (Status.NOT_APPLICABLE, *BROKEN)
    return Trial(mutant, status is wanted, f"{status} {reason}".strip(), host, planted)


def healthy(options: Options, listener: Listener) -> Report:
    """Every law on every subject that is known to be correct; anything but a pass or an abstention
    is a false alarm.
    """
    return conduct(healthy_specs(), (), replace(options, folder=None), listener)


def selftest(
    options: Options, listener: Listener, show: Callable[[Trial, int, int], None]
) -> tuple[list[Trial], Report]:
    """Both halves: the trials of mutants that were not caught, and the report on healthy subjects.
    ``show`` is given each trial as it is done, its number and how many there are.
    """
    mutants = registry.mutants()
    escaped = []
    for number, mutant in enumerate(mutants, 1):
        tried = trial(mutant, options.profile, options.seed)
        show(tried, number, len(mutants))
        if not tried.caught:
            escaped.append(tried)
    return escaped, healthy(options, listener)


def alarms(report: Report) -> int:
    """How many verdicts about healthy subjects accuse or broke, and how many were not loaded."""
    unloaded = set(report.problems) - set(registry.problems())
    return len(report.with_status(Status.VIOLATED, *BROKEN)) + len(unloaded)
