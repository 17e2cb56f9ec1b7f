"""The test of the tests: every mutant is caught by its law, and every law holds on every healthy
subject.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from flowref import registry
from flowref.auditing.audit_run import conduct
from flowref.auditing.journal import own_digest
from flowref.auditing.options import AuditListener, Options
from flowref.auditing.power.lines import append_line, read_lines
from flowref.auditing.worker import check_pair, guarded
from flowref.model import ADVICE, FlowrefError, Mutant, Status, Subject, one_line
from flowref.reporting.outcomes import BROKEN
from flowref.reporting.report import Report

# A mutant whose host is not installed is planted in so many others.
MOST = 20
# Defects that nothing which stands in can have, though their laws speak of it, and why.
MEANINGLESS = {
    "shape/one-number-per-point[log-det]#log-det-summed-in-training": "no map has a train mode of its own",
    "shape/one-number-per-point[log-det]#log-det-summed-after-training": "no step of training changes an object",
    "same/history[other-calls]#temperature-kept": "what is sampled keeps no state",
    "density/stated[deviation]#deviation-grows": "no distribution states its deviation",
    "sampling/base-through-inverse#noise-through-forward": "what draws from a base maps it forward",
}


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


def hosts_of(mutant: Mutant, profile: str = "standard") -> tuple[str, ...]:
    """Where a mutant is planted: in its host, or, where its library or its framework is not installed,
    as nothing of torch is beside JAX, in what its law speaks of among what the adapters of what is
    installed vouch for and the twins of the zoo; the likeliest first, and of these the cheapest.
    """
    if here(mutant.host):
        return (mutant.host,)
    wanted = component_words(mutant.host)
    fitting = {
        host: subject.operations
        for host in healthy_specs()
        if not host_silence_reason(mutant.law, host, profile)
        and isinstance(subject := healthy_subject(host), Subject)
    }
    return tuple(
        sorted(fitting, key=lambda host: (-len(component_words(host) & wanted), fitting[host]))
    )


def here(host: str) -> bool:
    """Whether what a host is written with is installed."""
    try:
        target = registry.parse_target(host)
        return registry.installed(target.adapter) and registry.importable(target)
    except FlowrefError:  # which trying it says better
        return True


def component_words(spec: str) -> frozenset[str]:
    """The words in the name of a component, as "batch" and "norm"."""
    component = spec.partition(":")[2].partition("?")[0]
    return frozenset(word.casefold() for word in re.findall(r"[A-Z]?[a-z]+", component))


def trial(mutant: Mutant, profile: str = "standard", seed: int = 0) -> Trial:
    """Whether the law of a mutant is violated on its host, or on one of those that stand in for it."""
    unseen: list[Trial] = []
    reasons: Counter[str] = Counter()
    meaningless = "" if here(mutant.host) else MEANINGLESS.get(mutant.id, "")
    if meaningless:
        reasons[meaningless] += 1
    for host in () if meaningless else hosts_of(mutant, profile):
        tried = trial_on(mutant, host, profile, seed)
        if tried.caught or host == mutant.host:
            return tried
        if tried.planted:
            unseen.append(tried)
        reasons[tried.outcome] += 1
        if len(unseen) == MOST:
            break
    if unseen:
        return unseen[0]
    if not reasons:
        reasons.update(host_silence_reason(mutant.law, host, profile) for host in healthy_specs())
    nearest = sorted(reasons, key=lambda why: (why.count(" no "), -reasons[why]))
    why = nearest[0] if nearest else "nothing is installed"
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


@functools.cache
def host_silence_reason(law: str, host: str, profile: str = "standard") -> str:
    """Why a law says nothing of a host, which is then no place for its defects; empty where it does."""
    from flowref.checking import Settings
    from flowref.checking.applicability import not_applicable

    subject = healthy_subject(host)
    if isinstance(subject, str):
        return subject
    found = registry.find_law(law)
    silence = not_applicable(found, subject, Settings("thorough" if found.thorough else profile))
    return "" if silence is None else silence.reason


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


def healthy(options: Options, listener: AuditListener) -> Report:
    """Every law on every subject that is known to be correct; anything but a pass or an abstention
    is a false alarm.
    """
    return conduct(healthy_specs(), (), options, listener)


@dataclass(frozen=True)
class TrialRecord:
    """A trial as it is kept; ``digest``: of flowref's source and what is installed."""

    mutant: str
    caught: bool
    outcome: str
    host: str
    planted: bool
    profile: str
    seed: int
    digest: str


def selftest(
    options: Options, listener: AuditListener, show: Callable[[Trial, int, int], None]
) -> tuple[list[Trial], Report]:
    """Both halves: the trials of mutants that were not caught, and the report on healthy subjects.
    ``show`` is given each trial as it is done, its number and how many there are. In the folder of
    ``options`` both are kept until they are complete, and a later call goes on.
    """
    path = None if options.folder is None else options.folder / "trials.jsonl"
    libraries = [name for name in registry.adapters() if registry.installed(name)]
    versions = [
        f"{name} {registry.library_version(name)}" if registry.adapters()[name].package else name
        for name in libraries
    ]
    digest = " ".join([own_digest(), *versions])
    known = {
        one.mutant: one
        for one in (
            [] if path is None else read_lines(path, lambda row: TrialRecord(**row), "trial")
        )
        if (one.digest, one.profile, one.seed) == (digest, options.profile, options.seed)
    }
    mutants = registry.mutants()
    missed = []
    for number, mutant in enumerate(mutants, 1):
        if mutant.id in known:
            told = known[mutant.id]
            tried = Trial(mutant, told.caught, told.outcome, told.host, told.planted)
        else:
            tried = trial(mutant, options.profile, options.seed)
            show(tried, number, len(mutants))
            if path is not None:
                row = (mutant.id, tried.caught, tried.outcome, tried.host, tried.planted)
                append_line(path, TrialRecord(*row, options.profile, options.seed, digest))
        if not tried.caught:
            missed.append(tried)
    report = healthy(options, listener)
    if path is not None and report.complete:
        path.unlink(missing_ok=True)
    return missed, report


def unplanted_reasons(missed: list[Trial]) -> Counter[str]:
    """Why mutants could not be planted, and how many each: what no code that is installed has."""
    return Counter(one.outcome.rpartition(": ")[2] for one in missed if not one.planted)


def alarms(report: Report) -> int:
    """How many verdicts about healthy subjects accuse or broke, and how many were not loaded."""
    unloaded = set(report.problems) - set(registry.problems())
    return len(report.with_status(Status.VIOLATED, *BROKEN)) + len(unloaded)
