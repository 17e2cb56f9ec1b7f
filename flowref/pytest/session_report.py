"""The results of all tests of a session, from all processes: one report, and a line per target."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from flowref.model import Verdict
    from flowref.pytest.messages import Read
    from flowref.reporting.report import Report

# The most targets with a line at the end of a session; of the others only failures are shown.
SHOWN = 40


class Gathering:
    """A plugin of the process that sees every test's report."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.texts: list[str] = []
        self.began = time.monotonic()
        self.started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.whole = True
        self.part = False
        self.trouble = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the result of a test. A test that is not shown still counts in the progress."""
        text = getattr(report, "flowref_text", None)
        if text is not None:
            self.texts.append(text)
        if getattr(report, "flowref_quiet", False):
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            reported = getattr(reporter, "_progress_nodeids_reported", None)
            if reported is not None:
                reported.add(getattr(report, "id", report.nodeid))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report, unless it is disabled."""
        self.whole = not (session.shouldstop or session.shouldfail)
        self._require_checks(session)
        path = self.config.option.flowref_report
        if path == "" or self.config.option.collectonly or (path is None and not self.texts):
            return
        from flowref.auditing.journal import FOLDER, save_last
        from flowref.model import FlowrefError

        try:
            if path is not None:
                self.report().save(Path(self.config.invocation_params.dir, path))
            elif self.read.verdicts:
                with contextlib.suppress(
                    OSError, FlowrefError
                ):  # a folder without write permission
                    save_last(self.report(), self.config.rootpath / FOLDER)
        except FlowrefError as error:
            self.trouble = str(error)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    @cached_property
    def read(self) -> Read:
        """The results of all tests."""
        from flowref.pytest.messages import Read

        return Read(self.texts)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Note that some tests were deselected."""
        self.part = self.part or bool(items)

    def _require_checks(self, session: pytest.Session) -> None:
        """Fail a session in which no law was checked on some target."""
        part = self.part or any("::" in argument for argument in self.config.args)
        if not self.texts or part or not self.whole or session.exitstatus != pytest.ExitCode.OK:
            return
        from flowref.reporting.coverage import put_to_the_test
        from flowref.reporting.lines import target_labels

        verdicts = self.read.by_target()
        idle = [target for target, own in verdicts.items() if not put_to_the_test(own)[0]]
        if idle:
            called = target_labels(verdicts)
            unchecked = ", ".join(called[one] for one in idle[:3]) + (
                " and others" if len(idle) > 3 else ""
            )
            self.trouble = f"nothing meaningful was checked: no law was checked on {unchecked}"
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write a line for each target, and what blocks its laws."""
        if self.trouble:
            terminalreporter.write_line(f"flowref: {self.trouble}", red=True)
        if not self.texts or self.config.get_verbosity() < 0:
            return
        terminalreporter.section("flowref", sep="-")
        for line in self.lines():
            terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """The lines about targets."""
        from flowref.reporting.lines import target_labels
        from flowref.reporting.terminal import head_lines
        from flowref.reporting.words import minor

        read = self.read
        verdicts = read.by_target()
        called, lines = target_labels(verdicts), list[str]()
        for name, own in list(verdicts.items())[:SHOWN]:
            known = [one for (target, _), one in read.known.items() if target == name]
            lines += head_lines(called[name], own, read.recognized.get(name), known=known)
            lines += [f"  {minor(verdict)}" for verdict in own if verdict.minor]
        if len(verdicts) > SHOWN:
            lines.append(f"and {len(verdicts) - SHOWN} more targets")
        lines += self._misspelt_entries(list(verdicts))
        path = self.config.option.flowref_report
        if path and not self.trouble:
            lines.append(f"all of it: {path}")
        return [*lines, self._counts(list(read.verdicts.values()))]

    def _counts(self, verdicts: list[Verdict]) -> str:
        from flowref.reporting.coverage import put_to_the_test
        from flowref.reporting.outcomes import ELSEWHERE, outcome_counts, tally
        from flowref.reporting.text import number_of

        known = self.read.known.values()
        checks = number_of(put_to_the_test(verdicts)[1], "check")
        targets = number_of(len({verdict.target for verdict in verdicts}), "target")
        parts = [f"{checks} of {targets}: {tally(verdicts, known)}"]
        if others := outcome_counts(verdicts, known)[ELSEWHERE]:
            about = "law is" if others == 1 else "laws are"
            parts.append(f"{others} {about} about something else")
        if lost := len(self.read.problems):
            parts.append(f"{number_of(lost, 'target')} cannot be loaded")
        return "; ".join(parts)

    def _misspelt_entries(self, targets: list[str]) -> Iterator[str]:
        """Known failures whose target looks like a misspelt one of these."""
        from flowref.baseline.baseline_parser import load_baseline
        from flowref.model import FlowrefError, nearest

        try:
            entries = () if self.part else load_baseline(None, self.config.rootpath).entries
        except FlowrefError:  # reported when tests were collected
            return
        names = {target.partition("?")[0] for target in targets}
        for entry in entries:
            near = nearest(entry.target, names)
            if near and not any(map(entry.covers, targets)):
                yield f"{entry.where}: {entry.target} matches no target of this session{near}"

    def report(self) -> Report:
        """Return the report of all results, in the order of targets and laws."""
        import platform

        import flowref
        from flowref import registry
        from flowref.auditing.selection import library_versions
        from flowref.baseline.targets import PROFILES
        from flowref.model import Problem
        from flowref.reporting.contents import Environment, LawNote
        from flowref.reporting.report import Report

        read = self.read
        pairs = sorted(read.verdicts)
        names = list(dict.fromkeys(target for target, _ in pairs))
        laws = {law.id: law for law in registry.laws()}
        notes = [
            LawNote(law.id, law.version, law.statement, law.force, law.tolerance, law.source)
            for law in (laws[name] for name in sorted({name for _, name in pairs} & set(laws)))
        ]
        notes = sorted([*notes, *read.notes.values()], key=lambda note: note.id)
        environment = Environment(
            flowref=flowref.__version__,
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            versions=library_versions([registry.parse_target(name) for name in names]),
            command=shlex.join(["pytest", *map(str, self.config.invocation_params.args)]),
            profile=", ".join(sorted(read.profiles))
            or PROFILES[self.config.option.flowref_profile],
            seed=self.config.option.flowref_seed,
            started=self.started,
            seconds=time.monotonic() - self.began,
        )
        return Report(
            environment,
            tuple(notes),
            tuple(names),
            tuple(read.verdicts[pair] for pair in pairs),
            tuple(Problem(spec, text) for spec, text in sorted(read.problems.items())),
            self.whole,
            recognized={name: read.recognized[name] for name in names if name in read.recognized},
            known=tuple(read.known[pair] for pair in sorted(read.known)),
        )
