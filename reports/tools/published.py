"""Audit the models of published size, one after the other, and write `reports/published.md`.

    python reports/tools/published.py                     go on where the last run ended
    python reports/tools/published.py --budget 60         start no model after an hour
    python reports/tools/published.py 'nflows:*' --fresh  these again
    python reports/tools/published.py --stale             and by the laws that have changed since
    python reports/tools/published.py --page              only the page

Each model is audited by one worker of its own, and entered in `reports/published.json` as soon as it
is done, so that nothing is lost by an interruption; what stands there is not audited again unless
`--fresh` is given, or `--stale` and some laws are new or have changed since: missing models come first,
then the others are judged by those laws alone. Exit code: 0, 2 for a model that does not exist, or 130
where a model was interrupted.
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from flowref import registry
from flowref.auditing.audit_run import conduct
from flowref.auditing.options import Options
from flowref.auditing.pool import Limits
from flowref.cli.audit_progress import AuditProgress
from flowref.model import FlowrefError, Status, Target
from flowref.reporting import Report
from flowref.reporting.schema import brief_verdict
from published_page.laws import changed
from published_page.page import page
from published_page.sizes import features, parameters

REPORTS = Path(__file__).parents[1]
FILE, PAGE, FINDINGS = "published.json", "published.md", "findings.toml"
# Mebibytes and processor seconds of one pair: the time that every audit grants, by which it is planned
# how much is measured.
MEMORY, TIMEOUT = 4096, 60.0
INTERRUPTED = 130


def chosen(globs: Sequence[str]) -> list[Target]:
    """The models that match any of the globs, all of them for none; small events first."""
    models = registry.expand("published")
    matched = [
        one
        for one in models
        if not globs or any(fnmatch.fnmatchcase(str(one), glob) for glob in globs)
    ]
    if not matched:
        raise FlowrefError(f"no published model matches {', '.join(globs)}")
    return sorted(matched, key=lambda one: (features(one), str(one)))


def joined(old: Report | None, new: Report, some: bool = False) -> Report:
    """One report of the targets of both; those of ``new`` take the place of the same in ``old``, or
    where it is of ``some`` laws, their verdicts by these do. What that took is not counted then.
    """
    if old is None:
        return new
    now = {one.id for one in registry.laws()} if some else frozenset[str]()
    again = {(one.target, one.law) for one in new.verdicts}
    kept = [
        one
        for one in old.verdicts
        if one.target not in new.targets or (one.law in now and (one.target, one.law) not in again)
    ]
    laws = {note.id: note for note in (*old.laws, *new.laws)}
    seconds = old.environment.seconds + new.environment.seconds
    names = old.targets if some else [one for one in old.targets if one not in new.targets]
    return replace(
        new,
        environment=replace(new.environment, seconds=seconds, versions=_versions(old, new)),
        laws=tuple(laws[name] for name in sorted(laws)),
        targets=tuple(dict.fromkeys((*names, *new.targets))),
        verdicts=(*kept, *new.verdicts),
        problems=(*(one for one in old.problems if one.spec not in new.targets), *new.problems),
        recognized={**old.recognized, **new.recognized},
        expenses={**new.expenses, **old.expenses} if some else {**old.expenses, **new.expenses},
    )


def wanted(
    models: Sequence[Target], report: Report | None, fresh: bool, stale: bool
) -> list[tuple[Target, frozenset[str]]]:
    """The models to audit, each with the laws to judge it by, all for none: those that are missing,
    then what other laws judged, by those that have changed, or all again.
    """
    done = set() if report is None else set(report.targets)
    old = changed(report) if report is not None and stale and not fresh else {}
    missing = [(one, frozenset[str]()) for one in models if str(one) not in done]
    again = [one for one in models if str(one) in done and (fresh or str(one) in old)]
    return [*missing, *((one, old.get(str(one), frozenset())) for one in again)]


def short(report: Report) -> Report:
    """Without the numbers of laws that hold; all else is told."""
    verdicts = tuple(
        brief_verdict(one) if one.status is Status.HOLDS else one for one in report.verdicts
    )
    return replace(report, verdicts=verdicts)


def _versions(old: Report, new: Report) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted({**dict(old.environment.versions), **dict(new.environment.versions)}.items())
    )


def audited(target: Target, choices: argparse.Namespace, laws: Sequence[str]) -> Report:
    """The audit of one model by some laws, or all, in one worker; how far it is goes to standard error."""
    options = Options(
        profile=choices.profile,
        jobs=1,
        limits=Limits(choices.timeout, choices.memory),
        command="python reports/tools/published.py",
    )
    with AuditProgress(lines=False) as listener:
        return conduct([target], laws, options, listener)


def _globs(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("models", nargs="*", help="globs over their specs")
    parser.add_argument("--budget", type=float, default=math.inf, metavar="MINUTES")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, metavar="SECONDS")
    parser.add_argument("--memory", type=int, default=MEMORY, metavar="MIB")
    parser.add_argument("--profile", default="standard")
    parser.add_argument(
        "--laws", type=_globs, default=(), metavar="GLOBS", help="by these; what others said stays"
    )
    parser.add_argument("--fresh", action="store_true", help="audit again what is there")
    parser.add_argument("--stale", action="store_true", help="and by what has changed since")
    parser.add_argument("--page", action="store_true", help="audit nothing")
    parser.add_argument("--folder", type=Path, default=REPORTS, help="of the report and the page")
    choices = parser.parse_args(arguments)
    file, began = choices.folder / FILE, time.monotonic()
    try:
        models = chosen(choices.models)
        report = Report.load(file) if file.exists() else None
        asked = wanted(models, report, choices.fresh, choices.stale)
        now = {one.id for one in registry.laws()}
        for target, some in () if choices.page else asked:
            if time.monotonic() - began > 60 * choices.budget:
                break
            some &= now
            by = f" by {len(some)} that changed" if some else ""
            print(f"{target}{by}", file=sys.stderr, flush=True)
            own = audited(target, choices, sorted(some) or choices.laws)
            if not own.complete:
                return INTERRUPTED
            report = joined(report, short(own), bool(some or choices.laws))
            report.save(file)
        if report is not None:
            models = [registry.parse_target(name) for name in report.targets]
            sizes = {str(one): (features(one), parameters(one)) for one in models}
            text = page(report, sizes, REPORTS / FINDINGS)
            (choices.folder / PAGE).write_text(text, encoding="utf-8")
    except FlowrefError as error:
        print(f"flowref: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
