"""The commands that write what other programs read: formats of an audit and of a report, events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from click.testing import CliRunner, Result

from effort import PATIENCE
from flowref.cli import main
from flowref.reporting.coverage import concerns
from flowref.reporting.report import Report

FLOWS = '''
import torch


class Scale:
    """x -> 2 x."""

    event_shape = (3,)

    def forward(self, x):
        return 2 * x, torch.full((len(x),), 3 * 2.0).log()

    def inverse(self, z):
        return z / 2, -torch.full((len(z),), 3 * 2.0).log()


def make():
    return Right()


class Right(Scale):
    def forward(self, x):
        return 2 * x, 3 * torch.full((len(x),), 2.0, dtype=x.dtype).log()

    def inverse(self, z):
        return z / 2, -3 * torch.full((len(z),), 2.0, dtype=z.dtype).log()


flow = Right()
'''
LAW = "map/log-det"
# The line of the method at fault, and those of the targets.
FAULT = FLOWS[: FLOWS.index("def forward")].count("\n") + 1
LINES = {"flows.py:Scale": 5, "flows.py:make": 17, "flows.py:flow": 29}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a file of flows in a subfolder, which is the working folder of the audit."""
    root = tmp_path_factory.mktemp("faces")
    (root / ".git").mkdir()
    (root / "sub").mkdir()
    (root / "sub" / "flows.py").write_text(FLOWS)
    return root / "sub"


@pytest.fixture(scope="module")
def audited(folder: Path) -> Path:
    """That folder, once the flows were audited in this process with every format and events."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("GITHUB_STEP_SUMMARY", str(folder / "job.md"))
        (folder / "job.md").write_text("earlier\n")
        written = [f"--{name}={name}" for name in FORMATS]
        done = flowref(
            *("audit", "--in-process", "--profile", "quick", "--laws", LAW, "--github"),
            *("--events", "events", *written, *LINES, "flows.py:missing"),
        )
    assert done.exit_code == 2, done.output
    (folder / "output").write_text(done.output)
    return folder


FORMATS = ("json", "markdown", "html", "junit", "sarif", "summary", "badge")


def flowref(*arguments: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(arguments))


def test_the_source_of_each_target_is_on_record(audited: Path) -> None:
    """A class, a factory and an object are found where they are written, from the root of the
    repository.
    """
    taken = Report.load(audited / "json").recognized
    assert {name: (one.path, one.line) for name, one in taken.items()} == {
        name: ("sub/flows.py", line) for name, line in LINES.items()
    }


def test_the_report_of_an_audit_is_what_its_schema_says(audited: Path) -> None:
    """What an audit wrote is valid by the schema that is printed, in full and in brief."""
    schema = json.loads(flowref("report", "--schema").output)
    jsonschema.validate(json.loads((audited / "json").read_text()), schema)
    brief = flowref("report", str(audited / "json"), "--brief", "--output-format", "json").stdout
    jsonschema.validate(json.loads(brief), schema)


def test_an_audit_writes_every_format(audited: Path) -> None:
    """Each file tells of the violation in its own way, and the marks point at the method; the summary
    of the job is appended.
    """
    assert ET.parse(audited / "junit").getroot().attrib["failures"] == "1"
    (result,) = json.loads((audited / "sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == FAULT
    assert json.loads((audited / "badge").read_text())["message"] == "1 violated"
    job = (audited / "job.md").read_text()
    assert job == "earlier\n" + (audited / "summary").read_text()
    output = (audited / "output").read_text()
    assert f"::error file=sub/flows.py,line={FAULT},title=flowref VIOLATED {LAW}::" in output


@pytest.mark.parametrize("name", FORMATS)
def test_a_report_gives_what_the_audit_wrote(
    audited: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every format made from the report file is the one that the audit wrote."""
    monkeypatch.chdir(audited)
    done = flowref("report", "json", f"--{name}", "-")
    assert done.exit_code == 0, done.output
    assert done.output == (audited / name).read_text()


def test_a_report_is_shown_as_the_audit_showed_it(
    audited: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a format the last report appears on the screen: every line of the audit about its
    targets.
    """
    monkeypatch.chdir(audited)
    shown = flowref("report")
    assert shown.exit_code == 0
    said = (audited / "output").read_text().replace(" (exit code 2)", "")  # that of the audit
    assert "VIOLATED" in shown.stdout
    assert set(shown.stdout.splitlines()) <= set(said.splitlines())


def test_events_tell_the_audit_in_order(audited: Path) -> None:
    """Started, then a pair each and the end of each target, a problem, and finished with the exit
    code.
    """
    rows = [json.loads(line) for line in (audited / "events").read_text().splitlines()]
    kinds = [row["event"] for row in rows]
    assert kinds[0] == "started" and kinds[-1] == "finished"
    assert sorted(kinds[1:-1]) == ["pair"] * 3 + ["problem"] + ["target"] * 3
    assert rows[0]["targets"] == [*LINES]  # what is not in the file is refused before
    (violated,) = [row for row in rows if row.get("status") == "VIOLATED"]
    assert rows[-1]["new"] == [violated["id"]] and rows[-1]["exit_code"] == 2
    (ended,) = [row for row in rows if row["event"] == "target" and row["target"].endswith("Scale")]
    assert (ended["path"], ended["line"]) == ("sub/flows.py", 5)


def test_a_reader_of_events_that_is_gone_ends_no_audit(folder: Path, tmp_path: Path) -> None:
    """A pipe that nobody reads any more breaks no audit: every verdict is in the report."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "flowref", "audit", "--in-process", "--profile", "quick"]
    command += ["--laws", LAW, "--events", str(writing), "--json", str(tmp_path / "o.json")]
    done = subprocess.run(
        [*command, "flows.py:make", "flows.py:flow"],
        cwd=folder,
        pass_fds=[writing],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(Report.load(tmp_path / "o.json").verdicts) == 2


def test_the_published_report_has_every_format(tmp_path: Path) -> None:
    """The report on all libraries, 520 targets that were written by an earlier flowref, is read, and
    each of its failures is in every format; what is minor is none.
    """
    published = Path(__file__).parents[2] / "reports" / "audit.json"
    done = flowref("report", str(published), *(f"--{one}={tmp_path / one}" for one in FORMATS))
    assert done.exit_code == 0, done.output
    report = Report.load(published)
    root = ET.parse(tmp_path / "junit").getroot()
    failures = len(report.violations) - len(report.minor)
    assert int(root.attrib["failures"]) == failures > 100
    assert int(root.attrib["tests"]) == sum(map(concerns, report.verdicts)) > 20_000
    assert (tmp_path / "junit").stat().st_size < 150 * int(root.attrib["tests"]) + 2_000_000
    results = json.loads((tmp_path / "sarif").read_text())["runs"][0]["results"]
    levels = Counter(one["level"] for one in results)
    assert levels["error"] + levels["warning"] == len(report.new_failures)
    assert f"{failures} violated" in (tmp_path / "badge").read_text()


REFUSED = [
    ("mixed on standard output", "audit", "--junit", "-", "--events", "-"),
    ("mixed on standard output", "report", "--junit", "-", "--sarif", "-"),
    ("no folder no/such/folder", "audit", "--sarif", "no/such/folder/out.sarif"),
    ("no folder no/such/folder", "report", "--sarif", "no/such/folder/out.sarif"),
    ("descriptor 99 is not open", "audit", "--events", "99"),
    ("it is a folder", "report", "--badge", "."),
]


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_written_is_refused_at_once(
    audited: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two formats on one stream, a missing folder and a closed descriptor are refused before
    anything is measured, with exit 2.
    """
    said, command, *options = words
    monkeypatch.chdir(audited)
    done = flowref(command, "json" if command == "report" else "flows.py:make", *options)
    assert done.exit_code == 2
    assert said in done.output
    assert "hold" not in done.output


def test_a_folder_that_is_read_only_is_refused_at_once(
    audited: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where writing is not allowed, that is said before anything is measured, with exit 2."""
    monkeypatch.chdir(audited)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    for words in (("report", "json"), ("audit", "flows.py:make"), ("merge", "json")):
        done = flowref(*words, "--sarif", "new.sarif")
        assert (done.exit_code, "hold" in done.output) == (2, False)
        assert "new.sarif cannot be written: writing there is not allowed" in done.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "r.json is empty; expected a report"),
        ('{"flowref-report": 3, "comp', "r.json is cut off; expected a report"),
        ('{"flowref-report": 3, }', "is not JSON ("),
        ("flows", "is not JSON; expected a report"),
        ("[]", "no flowref report"),
        ('{"flowref-report": 3}', "is a damaged flowref report: it has no 'laws'"),
        ('{"flowref-report": 1}', "schema 1"),
        ('{"flowref-report": 99}', "schema 99"),
    ],
)
def test_a_report_that_cannot_be_read_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    """An empty, cut, foreign, older and newer report file: one sentence, exit 2."""
    (tmp_path / "r.json").write_text(text)
    done = flowref("report", str(tmp_path / "r.json"), "--junit", "-")
    assert done.exit_code == 2
    assert said in done.output
    assert done.output.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_one_format_that_fails_keeps_no_other_from_being_written(audited: Path) -> None:
    """A full disk under one format is one sentence and exit 2, and the others are there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(audited)
        done = flowref("report", "json", "--junit", "/dev/full", "--badge", "late.json")
    assert done.exit_code == 2
    assert "/dev/full cannot be written" in done.output
    assert json.loads((audited / "late.json").read_text())["schemaVersion"] == 1


def test_where_nothing_could_be_loaded_no_targets_are_counted(tmp_path: Path) -> None:
    """A module that is missing is told with those that lie beside it, and what did not run is not
    counted.
    """
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "flows.py").write_text(FLOWS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.syspath_prepend(tmp_path)
        done = flowref("audit", "--in-process", "--laws", LAW, "mine.flow:make")
    assert done.exit_code == 2
    assert "No module named 'mine.flow' (did you mean mine.flows?)" in done.stderr
    assert done.stdout == "1 target could not be audited (exit code 2).\n"
