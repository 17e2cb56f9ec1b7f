"""The self-test: every mutant is caught by its law, and every law holds on every healthy subject."""

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

# The most substitute hosts of a mutant whose own is not installed.
MOST = 20
# Mutants that are no defect in any substitute host, and why.
MEANINGLESS = {
    "shape/one-number-per-point[log-det]#log-det-summed-in-training": "no map has a train mode of its own",
    "shape/one-number-per-point[log-det]#log-det-summed-after-training": "no step of training changes an object",
    "same/history[other-calls]#temperature-kept": "what is sampled keeps no state",
    "density/stated[deviation]#deviation-grows": "no distribution states its deviation",
    "sampling/base-through-inverse#noise-through-forward": "what draws from a base maps it forward",
}


def healthy_specs() -> tuple[str, ...]:
    """Return specs for which every law must hold: targets declared correct by the installed
    adapters, and the healthy twins of the zoo.
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
    """Whether a mutant was caught, on which host, and the outcome as text. ``planted``: whether it
    could be planted in installed code.
    """

    mutant: Mutant
    caught: bool
    outcome: str
    host: str = ""
    planted: bool = True

    @property
    def word(self) -> str:
        """The result as a word. In a substitute host a mutant may be no defect: not caught there,
        it is "unseen" rather than escaped.
        """
        if self.caught:
            return "caught"
        if self.host == self.mutant.host:
            return "ESCAPED"
        return "unseen" if self.planted else "no host"


def hosts_of(mutant: Mutant, profile: str = "standard") -> tuple[str, ...]:
    """Return the hosts of a mutant: its own, or, if its library or framework is not installed,
    healthy subjects to which its law applies, those with the most similar name first, of these the
    cheapest.
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
    """Whether the library of a host is installed."""
    try:
        target = registry.parse_target(host)
        return registry.installed(target.adapter) and registry.importable(target)
    except FlowrefError:  # the trial reports it
        return True


def component_words(spec: str) -> frozenset[str]:
    """The words in the name of a component, as "batch" and "norm"."""
    component = spec.partition(":")[2].partition("?")[0]
    return frozenset(word.casefold() for word in re.findall(r"[A-Z]?[a-z]+", component))


def trial(mutant: Mutant, profile: str = "standard", seed: int = 0) -> Trial:
    """Whether the law of a mutant is violated on its host, or on a substitute."""
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
    """Return a loaded substitute host; a sentence if it cannot be loaded."""
    from flowref import loading

    try:
        return loading.load(registry.parse_target(host))
    except Exception as error:  # the audit of healthy subjects reports it
        return one_line(error, 200)


@functools.cache
def host_silence_reason(law: str, host: str, profile: str = "standard") -> str:
    """Return why a law does not apply to a host, which then cannot have its defects; empty if it
    does.
    """
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
    if outcome.verdict is None:  # the host lacks what the mutant changes
        return Trial(mutant, False, outcome.raised, host, planted=False)
    wanted = Status.ADVICE if law.force == ADVICE else Status.VIOLATED
    status, reason = outcome.verdict.status, outcome.verdict.reason
    # A host to which the law does not apply cannot have the defect.
    planted = host == mutant.host or status not in (Status.NOT_APPLICABLE, *BROKEN)
    return Trial(mutant, status is wanted, f"{status} {reason}".strip(), host, planted)


def healthy(options: Options, listener: AuditListener) -> Report:
    """Audit every healthy subject under every law; any violation or error is a false alarm."""
    return conduct(healthy_specs(), (), options, listener)


@dataclass(frozen=True)
class TrialRecord:
    """A stored trial; ``digest``: of flowref's source and the installed versions."""

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
    """Return the trials of mutants that were not caught, and the report on healthy subjects.
    ``show`` receives each trial, its number and the total. Both are stored in the folder of
    ``options`` until complete, to be resumed.
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
            row = known[mutant.id]
            tried = Trial(mutant, row.caught, row.outcome, row.host, row.planted)
        else:
            tried = trial(mutant, options.profile, options.seed)
            show(tried, number, len(mutants))
            if path is not None:
                values = (mutant.id, tried.caught, tried.outcome, tried.host, tried.planted)
                append_line(path, TrialRecord(*values, options.profile, options.seed, digest))
        if not tried.caught:
            missed.append(tried)
    report = healthy(options, listener)
    if path is not None and report.complete:
        path.unlink(missing_ok=True)
    return missed, report


def unplanted_reasons(missed: list[Trial]) -> Counter[str]:
    """Return reason -> number of mutants that could not be planted."""
    return Counter(one.outcome.rpartition(": ")[2] for one in missed if not one.planted)


def alarms(report: Report) -> int:
    """Number of violations and errors on healthy subjects, and of those that were not loaded."""
    unloaded = set(report.problems) - set(registry.problems())
    return len(report.with_status(Status.VIOLATED, *BROKEN)) + len(unloaded)
