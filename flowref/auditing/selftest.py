"""The test of the tests: every mutant is caught by its law, and every law holds on every healthy
subject.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from flowref import registry
from flowref.auditing.options import Listener, Options
from flowref.auditing.running import conduct
from flowref.auditing.worker import check_pair, guarded
from flowref.model import ADVICE, FlowrefError, Mutant, Status, Subject, one_line
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
    """Where a mutant is planted: in its host, or, where its library or its framework is not installed,
    as nothing of torch is beside JAX, in what the adapters of what is installed vouch for and in the
    twins of the zoo, the likeliest first.
    """
    if here(mutant.host):
        return (mutant.host,)
    wanted = words(mutant.host)
    return tuple(sorted(healthy_specs(), key=lambda spec: -len(words(spec) & wanted)))


def here(host: str) -> bool:
    """Whether what a host is written with is installed."""
    try:
        target = registry.parse_target(host)
        return registry.installed(target.adapter) and registry.importable(target)
    except FlowrefError:  # which trying it says better
        return True


def words(spec: str) -> frozenset[str]:
    """The words in the name of a component, as "batch" and "norm"."""
    component = spec.partition(":")[2].partition("?")[0]
    return frozenset(word.casefold() for word in re.findall(r"[A-Z]?[a-z]+", component))


def trial(mutant: Mutant, profile: str = "standard", seed: int = 0) -> Trial:
    """Whether the law of a mutant is violated on its host, or on one of those that stand in for it."""
    hosts = hosts_of(mutant)
    found: Trial | None = None
    reasons: Counter[str] = Counter()
    for host in hosts:
        why = lacking(mutant.law, host) if host != mutant.host else ""
        if why:
            reasons[why] += 1
            continue
        tried = trial_on(mutant, host, profile, seed)
        if tried.caught or host == mutant.host:
            return tried
        if tried.planted:
            found = tried
        reasons[tried.outcome] += 1
    if found is not None:
        return found
    why = reasons.most_common(1)[0][0] if reasons else "nothing is installed"
    return Trial(
        mutant, False, f"{mutant.host} is not installed, and of all else: {why}", planted=False
    )


@functools.cache
def healthy_subject(host: str) -> Subject | str:
    """What stands in for a host, as it is loaded; a sentence where it cannot be."""
    from flowref import loading

    try:
        return loading.load(registry.parse_target(host))
    except Exception as error:  # the second half reports it
        return one_line(error, 200)


def lacking(law: str, host: str) -> str:
    """Why a host is no place for defects of a law: abilities that it lacks; empty where it has all."""
    subject = healthy_subject(host)
    if isinstance(subject, str):
        return subject
    missing = sorted(subject.lacks(registry.find_law(law).needs))
    return f"it has no {', '.join(missing)}" if missing else ""


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


def reasons(missed: list[Trial]) -> Counter[str]:
    """Why mutants could not be planted, and how many each: what no code that is installed has."""
    return Counter(one.outcome.rpartition(": ")[2] for one in missed if not one.planted)


def alarms(report: Report) -> int:
    """How many verdicts about healthy subjects accuse or broke, and how many were not loaded."""
    unloaded = set(report.problems) - set(registry.problems())
    return len(report.with_status(Status.VIOLATED, *BROKEN)) + len(unloaded)
