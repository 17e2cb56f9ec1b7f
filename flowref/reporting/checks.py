"""The checks of `flowref check`: a dozen for each kind of flow, chosen by the planted bugs that
they catch in a second; a line each and a closing sentence.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flowref.model import PROVED_WHOLE, Status, Verdict
from flowref.reporting.audit_summary import LOG_DET
from flowref.reporting.causes import Cause, explained
from flowref.reporting.coverage import concerns
from flowref.reporting.numbers import rounded_text
from flowref.reporting.outcomes import BROKEN, FAILING
from flowref.reporting.text import clean, number_of
from flowref.reporting.words import flagged

# The most faults named in a sentence.
NAMED = 2
# Words for undecided and for known failures.
SKIPPED, KNOWN = "skipped", "known"
# A check that ended early says nothing of the flow.
LATE = "timeout"


@dataclass(frozen=True)
class Check:
    """``words``: what is checked; ``fault``: what is wrong if it fails, to which the error size is
    added.
    """

    law: str
    words: str
    fault: str


# Maps; densities; batch norms; laws of all of them.
CHECKS = tuple(
    Check(*row)
    for row in (
        ("map/inverse", "inverse(forward(x)) is x", "inverse does not undo forward"),
        ("map/inverse[latents]", "forward(inverse(z)) is z", "forward does not undo inverse"),
        ("map/log-det", "log-det of forward is log|det J|", "its log-det is wrong"),
        ("map/log-det[inverse]", "log-det of inverse is log|det J|", "the log-det of its inverse is wrong"),
        ("map/log-det[differences]", "log-det is that of differences", "its log-det is wrong"),
        ("shape/one-number-per-point[log-det]", "one log-det for each point", "its log-det has the wrong shape"),
        ("map/inverse[context]", "the same round trip, given a context", "inverse fails, given a context"),
        ("map/log-det[context]", "the same log-det, given a context", "its log-det is wrong, given a context"),
        ("density/change-of-variables[context]", "the same log_prob, given a context", "log_prob is wrong, given a context"),
        ("same/rows[context]", "rows of a context are independent", "rows of a context influence each other"),
        ("map/finite", "values and log-dets are finite", "it returns numbers that are not finite"),
        ("density/change-of-variables", "log_prob is base plus log-det", "log_prob is not that of the base plus the log-det"),
        ("sampling/follows-density", "log_prob is normalized and sampled from",
         "log_prob is not normalized, or samples do not follow it"),
        ("sampling/follows-density[ratios]", "samples follow log_prob", "samples do not follow log_prob"),
        ("density/mass", "log_prob integrates to one", "log_prob does not integrate to one"),
        ("density/mass[importance]", "log_prob has a mass of one at most", "log_prob has a mass of more than one"),
        ("density/mass[tails]", "log_prob decays", "log_prob does not decay"),
        ("shape/one-number-per-point[log-prob]", "one log_prob for each point", "log_prob has the wrong shape"),
        ("shape/one-number-per-point[samples]", "sample(n) gives n points", "samples have the wrong shape"),
        ("map/finite[samples]", "samples are finite", "samples are not finite"),
        ("random/rows-independent[duplicates]", "samples differ from each other", "samples repeat each other"),
        ("batch-norm/statistics", "running statistics follow the batches", "its running statistics do not follow batches"),
        ("batch-norm/train-map[reference]", "output is that of the formula", "its output is not that of the formula"),
        ("batch-norm/gradient", "gradients pass through the statistics", "its gradients in train mode are wrong"),
        ("batch-norm/gradient[closed-form]", "gradients are those of the formula", "its gradients in train mode are wrong"),
        ("batch-norm/statistics[buffers]", "each batch moves the statistics once", "it updates its running statistics wrongly"),
        ("batch-norm/statistics[momentum-limits]", "momentum does what it says at 0 and 1", "its momentum is wrong at 0 or 1"),
        ("batch-norm/modes-agree[average-limit]", "eval mode approaches train mode", "eval mode does not approach train mode"),
        ("batch-norm/gradient[eval]", "gradients flow in eval mode", "its gradients in eval mode are wrong"),
        ("batch-norm/modes-agree", "parameters act alike in both modes", "its parameters act differently in the two modes"),
        ("map/log-det[slopes]", "log-det is that of its slopes", "its log-det is wrong"),
        ("same/rows", "rows of a batch are independent", "the result of a point depends on the rest of its batch"),
        ("same/history[repeat]", "the same call gives the same result", "two equal calls give different results"),
        ("effects/state[eval]", "calls in eval mode change no state", "a call in eval mode changes its state"),
        ("same/saved[restore]", "a saved state restores it", "a saved state does not restore it"),
        ("gradient/input[value]", "gradients of values", "the gradient of its values is wrong"),
        ("gradient/parameters[log-det]", "gradients of the log-det", "the gradient of its log-det is wrong"),
        ("gradient/input[log-prob]", "gradients of log_prob", "the gradient of log_prob is wrong"),
        ("density/score", "score is the gradient of log_prob", "its score is not the gradient of log_prob"),
        ("gradient/parameters[value]", "gradients in the parameters", "its gradients in the parameters are wrong"),
        ("dtype/follows[device]", "it runs on another device", "it does not run on another device"),
        ("dtype/follows[device-after-use]", "it follows to another device once it was used",
         "it keeps what it computed on the CPU"),
        ("same/manner[device]", "another device gives the same", "another device gives something else"),
    )
)  # fmt: skip
# Checks that need a device, and the others.
DEVICE = ("dtype/follows[device]", "dtype/follows[device-after-use]", "same/manner[device]")
LAWS = tuple(check.law for check in CHECKS if check.law not in DEVICE)


def check_lines(
    verdicts: Sequence[Verdict], accepted: Container[str] = (), *, verbose: bool = False
) -> list[str]:
    """Return a line for each check that was made, in the order of `CHECKS`, and one for each reason
    why others were skipped, or for what makes them possible. ``accepted``: laws that are known to fail; ``verbose``: with the
    conditions of proofs.
    """
    by_law = {verdict.law: verdict for verdict in verdicts if concerns(verdict)}
    causes = explained(verdicts)
    shown = [(check, by_law[check.law]) for check in CHECKS if check.law in by_law]
    made = [(check, verdict) for check, verdict in shown if _word(verdict, accepted) != SKIPPED]
    width = max((len(check.words) for check, _ in made), default=0)
    found = [
        f"{_word(verdict, accepted):<8} {check.words:<{width}}   {_check_remark(verdict, causes, verbose=verbose)}".rstrip()
        for check, verdict in made
    ]
    reasons: dict[str, list[str]] = {}
    for check, verdict in shown:
        if _word(verdict, accepted) == SKIPPED:
            reasons.setdefault(clean(verdict.remedy or verdict.reason), []).append(check.words)
    for reason, words in reasons.items():
        which = words[0] if len(words) == 1 else f"{len(words)} checks"
        found.append(f"{SKIPPED:<8} {which}: {reason}")
    return found


def _word(verdict: Verdict, accepted: Container[str] = ()) -> str:
    if verdict.status in FAILING:
        if verdict.law in accepted:
            return KNOWN
        if verdict.status is Status.TIMEOUT:
            return LATE
        return "minor" if verdict.minor else "FAILED"
    return "passed" if verdict.status in (Status.HOLDS, Status.ADVICE) else SKIPPED


def _check_remark(verdict: Verdict, causes: Mapping[str, Cause], *, verbose: bool) -> str:
    """The error size and its cause, or the extent of a proof."""
    if verdict.status in BROKEN:
        return clean(verdict.reason)
    if verdict.proof:
        if verdict.proof == PROVED_WHOLE:
            return "proved"
        return f"proved {clean(verdict.proof)}" if verbose else "proved in part (see -v)"
    if verdict.status is not Status.VIOLATED:
        return ""
    because = causes[verdict.law].because if verdict.law in causes else ""
    return ", ".join(filter(None, (_error_size_text(verdict), because)))


def _error_size_text(verdict: Verdict) -> str:
    """The error in nats, or in the units of the values; empty if neither is informative."""
    if verdict.size is not None:
        nats = verdict.size.nats
        return f"{rounded_text(nats, 3)} nats per point" if math.isfinite(nats) else ""
    evidence = verdict.evidence
    if evidence is None or flagged(verdict) or evidence.allowed == 1.0:  # a statistical test
        return ""
    return f"off by {rounded_text(evidence.residual, 3)}"


def sentence(name: str, verdicts: Iterable[Verdict], accepted: Container[str] = ()) -> str:
    """Return the result of a target in one sentence. ``accepted``: laws that are known to fail.

    >>> sentence("make", [Verdict("make", "map/log-det", Status.HOLDS)])
    'make: the one check that applies passed.'
    """
    judged = sorted(filter(concerns, verdicts), key=lambda one: LAWS.index(one.law))
    words = {verdict.law: _word(verdict, accepted) for verdict in judged}
    made = [verdict for verdict in judged if words[verdict.law] not in (SKIPPED, KNOWN)]
    failed = [verdict for verdict in made if words[verdict.law] == "FAILED"]
    known = [verdict for verdict in judged if words[verdict.law] == KNOWN]
    left = len(judged) - len(made) - len(known)
    skipped = (f", {len(known)} known to fail" if known else "") + (
        f", {left} skipped" if left else ""
    )
    if not made:
        return f"{name}: nothing could be checked{skipped}."
    late = [verdict for verdict in made if words[verdict.law] == LATE]
    if not failed and not late:
        many = f"all {len(made)} checks" if len(made) > 1 else "the one check that applies"
        minor = list(words.values()).count("minor")
        small = f", {minor} with an error below single precision" if minor else ""
        return f"{name}: {many} passed{small}{skipped}{_unseen(judged)}."
    faults = _faults([*failed, *late])
    more = f", and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    counts = [f"{number_of(len(made) - len(failed) - len(late), 'check')} passed"]
    counts += [_failed_counts(failed)] if failed else []
    counts += [f"{len(late)} timed out"] if late else []
    return f"{name}: {', '.join(counts)}{skipped}; {', '.join(faults[:NAMED])}{more}."


def _unseen(judged: Iterable[Verdict]) -> str:
    """A clause that the log-det of a map was not checked, and why; other checks say nothing about
    the likelihood.
    """
    found = (one for one in judged if one.law == LOG_DET and _word(one) == SKIPPED)
    return next((f"; its log-det was not checked: {clean(one.reason)}" for one in found), "")


def _failed_counts(failed: Sequence[Verdict]) -> str:
    """The numbers of failures that no other one explains, and of the others."""
    others = len(explained(failed))
    own = len(failed) - others
    because = f", {others} failed because of {'it' if own == 1 else 'them'}" if others else ""
    return f"{own} failed{because}"


def _faults(failed: Sequence[Verdict]) -> list[str]:
    causes = explained(failed)
    own = {verdict.law: verdict for verdict in failed if verdict.law not in causes}
    both = {LOG_DET, "map/log-det[inverse]"} <= own.keys()
    if both:
        del own["map/log-det[inverse]"]
    faults = []
    for verdict in own.values():
        check = CHECKS[LAWS.index(verdict.law)]
        size = _error_size_text(verdict)
        if verdict.status in BROKEN:
            fault = f"{check.words}: {clean(verdict.reason)}"
        elif size and check.fault.endswith("is wrong"):
            fault = f"{check.fault} by {size.removeprefix('off by ')}"
        else:
            fault = f"{check.fault}{f' ({size})' if size else ''}"
        turned = " in both directions" if both and verdict.law == LOG_DET else ""
        faults.append(f"{fault}{turned}")
    return list(dict.fromkeys(faults))
