"""The pytest plugin in projects of others: adopted in three lines, readable when red, and absent
where nobody asks for it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowref.model import Standing, Status
from flowref.reporting.report import Report
from plugin.projects import FLOWS, SETTINGS, Ran, run, write

TEST = """
import flowref
from flows import Shift


@flowref.pytest.conformance(Shift(), event_shape=3, laws="map/*")
def test_conforms(pair):
    pair.check()
"""
LAW, SYMPTOM = "map/log-det", "map/log-det[antisymmetry]"
MANY = """
import random

import numpy as np
import flowref
import torch
from flows import Shift, wrong


def states():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()


class TestFlows:
    def setup_method(self):
        self.ready = True

    @flowref.pytest.conformance(
        {"right": Shift, "bug": wrong, "open": wrong, "fixed": Shift()},
        event_shape=3,
        laws=["map/log-det", "map/log-det[antisymmetry]", "density/mass"],
        profile="pr",
        known={
            ("bug", "map/log-det"): "planted",
            ("bug", "map/log-det[antisymmetry]"): "planted, too",
            ("fixed", "map/log-det"): "was wrong once",
        },
    )
    def test_conforms(self, pair, tmp_path):
        assert self.ready and tmp_path.is_dir()
        before = states()
        try:
            pair.check()
        finally:
            assert states() == before


def test_one_line():
    flowref.check_flow(wrong(), event_shape=3, laws="map/*")
"""
PROJECT = """
[[tool.flowref.target]]
spec = "flows.py:Shift"
event = 3
laws = "map/log-det"

[[tool.flowref.target]]
spec = "flows.py:wrong"
event = 3
laws = ["map/log-det*", "density/*"]

[[tool.flowref.target]]
spec = "flows.py:missing"
laws = "map/*"

[[tool.flowref.known]]
target = "flows.py:wrong"
law = "map/log-det[antisymmetry]"
reason = "planted"
expires = 2001-01-01

[[tool.flowref.known]]
target = "flows.py:wrnog"
law = "map/log-det"
reason = "misspelt"
"""


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Ran]:
    """A project that adopts flowref with three lines; then with a bug in its flow."""
    folder = tmp_path_factory.mktemp("adopted")
    write(folder, {"flows.py": FLOWS, "test_flows.py": TEST, "pyproject.toml": SETTINGS})
    green = run(folder)
    write(folder, {"flows.py": FLOWS.replace("bug=0.0", "bug=0.01")})
    return green, run(folder)


@pytest.fixture(scope="module")
def distributed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Report]:
    """A project with all that there is, run under pytest-xdist and beside pytest-randomly."""
    folder = tmp_path_factory.mktemp("distributed")
    settings = SETTINGS + 'testpaths = ["tests"]\n' + PROJECT
    files = {"flows.py": FLOWS, "tests/test_flows.py": MANY, "pyproject.toml": settings}
    write(folder, files)
    ran = run(folder, "-n", "2", "-ra", "--flowref-report", "out/report.json")
    return ran, Report.load(folder / "out" / "report.json")


def test_a_sound_flow_is_green(adopted: tuple[Ran, Ran]) -> None:
    """Every law that applies passes, the others are no tests and counted in a line, and another line
    says what was looked at.
    """
    green, _ = adopted
    assert green.code == 0, green.text
    (line,) = [line for line in green.lines if line.startswith("Shift (event 3)")]
    assert "bijection with inverse" in line
    count = int(line.split(" passed")[0].split()[-1])
    assert green.last.startswith(f"{count + 1} passed in")  # and one that loads it
    (line,) = [line for line in green.lines if "checks of 1 target: " in line]
    assert f": {count} passed" in line and line.endswith(" laws are about something else")


def test_a_bug_is_red_and_readable(adopted: tuple[Ran, Ran]) -> None:
    """A failure shows the line of the test, the law in words, numbers and the input, and not a line
    of flowref's own code.
    """
    _, red = adopted
    assert red.code == 1
    start = red.lines.index(next(one for one in red.lines if f"[Shift-{LAW}]" in one))
    shown = red.lines[start : start + 14]
    assert ">       pair.check()" in shown
    told = "\n".join(line.removeprefix("E") for line in shown)
    assert "VIOLATED" in told and LAW in told and "reported" in told
    assert "The log-det returned by forward is log|det" in told
    assert "x = [" in told
    # The clone may be in a folder of that name.
    assert not re.search(r"flowref/[\w/]+\.py:\d", red.text)
    assert "Traceback" not in red.text


def test_ids_are_sorted_and_stable(tmp_path: Path) -> None:
    """Tests are named after targets and laws and come in their order, whatever the order in which
    they are listed; where none of them is chosen, collecting them loads no framework.
    """
    body = MANY.replace("from flows import", "from words import").replace("import torch", "")
    words = "Shift = object\nwrong = object\n"
    spy = "import sys\ndef pytest_sessionfinish():\n    print('torch' in sys.modules)\n"
    write(tmp_path, {"words.py": words, "test_flows.py": body, "conftest.py": spy})
    write(tmp_path, {"pyproject.toml": SETTINGS})
    assert "False" in run(tmp_path, "-p", "no:randomly", "-s", "-k", "one_line and two").lines
    ran = run(tmp_path, "--collect-only", "-q", "-p", "no:randomly")
    names = [line.partition("[")[2].removesuffix("]") for line in ran.lines if "[" in line]
    laws = ("load", "density/mass", LAW, SYMPTOM)
    wanted = [f"{name}-{law}" for name in ("bug", "fixed", "open", "right") for law in laws]
    assert names == wanted


def test_one_report_is_written_by_the_controller(distributed: tuple[Ran, Report]) -> None:
    """Under pytest-xdist the report holds every pair of every worker, once."""
    ran, report = distributed
    assert "out/report.json" in ran.text
    assert report.complete
    assert report.environment.profile == "quick, standard"  # that of the decorator, and the default
    pairs = {(verdict.target, verdict.law): verdict.status for verdict in report.verdicts}
    assert len(pairs) == len(report.verdicts)
    assert pairs["object:right?event=3", LAW] is Status.HOLDS
    assert pairs["object:open?event=3", LAW] is Status.VIOLATED
    assert pairs["flows.py:wrong?event=3", LAW] is Status.VIOLATED
    assert pairs["object:right?event=3", "density/mass"] is Status.NOT_APPLICABLE
    assert set(report.recognized) == set(report.targets)
    assert Report.from_json(report.to_json()) == report


def test_known_failures_are_strict(distributed: tuple[Ran, Report]) -> None:
    """What fails as it is known to is an expected failure, with its reason; what is fixed fails, and
    so does what was accepted up to a day that has passed.
    """
    ran, report = distributed
    assert any("XFAIL" in line and "planted, too" in line for line in ran.lines)
    assert f"[XPASS(strict)] {LAW} is a known failure of fixed (was wrong once)" in ran.text
    standings = {(one.target, one.law): one.standing for one in report.known}
    assert standings["object:bug?event=3", LAW] is Standing.KNOWN
    assert standings["object:fixed?event=3", LAW] is Standing.FIXED
    assert standings["flows.py:wrong?event=3", SYMPTOM] is Standing.EXPIRED
    assert "accepted until 2001-01-01" in ran.text
    assert (
        "flows.py:wrnog matches no target of this session (did you mean flows.py:wrong" in ran.text
    )


def test_targets_of_the_project_need_no_test_file(distributed: tuple[Ran, Report]) -> None:
    """Targets of pyproject.toml are collected beside testpaths, a failure ends in a command that
    shows it again, and one that cannot be loaded fails once, whoever runs its tests.
    """
    ran, report = distributed
    assert f"pyproject.toml::flowref[flows.py:wrong-{LAW}]" in ran.text
    (wrong,) = (v for v in report.of("flows.py:wrong?event=3") if v.law == LAW)
    assert f"flowref script {wrong.id} --report out/report.json > repro.py" in ran.text
    (problem,) = report.problems
    assert "missing" in problem.message
    (failed,) = [line for line in ran.lines if line.startswith("FAILED") and "missing" in line]
    assert "pyproject.toml::flowref[flows.py:missing-load]" in failed


def test_a_group_of_violations_is_printed_as_one(distributed: tuple[Ran, Report]) -> None:
    """check_flow shows the line of the test and every violation below it, what others explain in a
    line.
    """
    text = distributed[0].text
    start = text.index(">       flowref.check_flow(wrong(), event_shape=3")
    shown = text[start : start + 1500]
    assert "1 violation, 1 violation that others explain" in shown
    assert "because its log-det is wrong" in shown
    assert "Exception Group Traceback" not in text
    assert "flowref/auditing" not in text


def test_a_project_without_flowref_pays_nothing(tmp_path: Path) -> None:
    """Where no test of flowref is collected, neither the laws nor numpy nor a framework is
    imported, and nothing is printed.
    """
    test = (
        "import random, sys\n"
        "def test_nothing_is_loaded():\n"
        "    heavy = ('torch', 'numpy', 'scipy', 'flowref.registry', 'flowref.model')\n"
        "    assert [name for name in heavy if name in sys.modules] == []\n"
        "    assert sum(name.startswith('flowref') for name in sys.modules) < 8\n"
    )
    write(tmp_path, {"test_other.py": test, "pyproject.toml": SETTINGS})
    # The plugin of pytest-randomly imports numpy.
    ran = run(tmp_path, "-p", "no:randomly")
    assert ran.code == 0, ran.text
    assert "flowref" not in ran.text.split("collected")[1]


def test_a_target_on_which_nothing_is_checked_is_not_green(tmp_path: Path) -> None:
    """Where no law that was asked for is about a target, the session fails and says so."""
    test = TEST.replace('"map/*"', '"batch-norm/*"')
    write(tmp_path, {"flows.py": FLOWS, "test_flows.py": test, "pyproject.toml": SETTINGS})
    ran = run(tmp_path)
    assert ran.code == 1
    assert "nothing meaningful was checked: no law was checked on Shift (event 3)" in ran.text
