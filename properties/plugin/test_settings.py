"""What cannot be understood is said in one sentence, with the file and the line, before anything
runs.
"""

from __future__ import annotations

import sys

import pytest
import torch
from _pytest.pytester import SysModulesSnapshot

from effort import calls
from flowref import registry
from flowref.auditing import single
from flowref.auditing.journal import FOLDER, last_report
from flowref.baseline import baseline_parser
from flowref.model import Law, Status
from flowref.pytest import failure_text, items, messages, plugin, project_tests, session
from flowref.reporting.report import Report
from plugin.projects import FLOWS, PLUGIN

# Imported here, so that runs of pytest within this process do not import them anew.
WARM = (torch, project_tests, items, messages, failure_text, session, baseline_parser, single)
LAWS: tuple[Law, ...] = registry.laws()

# Part of pyproject.toml, from its second line on -> what is said of it.
PROJECTS = {
    "[[tool.flowref.target]]\nlaws = 'map/*'": "pyproject.toml:2: the spec of a target is missing",
    "[[tool.flowref.target]]\nspec = 'a.py:f'\nlaw = 'x'": "has no key named 'law' (did you mean laws",
    "[[tool.flowref.target]]\nspec = 'a.py:f'\nlaws = 3": "pyproject.toml:2: laws is 3; expected ids or globs",
    "[[tool.flowref.target]]\nspec = 'a.py:f'\nlaws = 'bijektion/*'": "pyproject.toml:2: no law matches 'bijektion/*'",
    "[[tool.flowref.target]]\nspec = 'a.py:f'\nevent = 0": "pyproject.toml:2: event is 0; expected a number",
    "[tool.flowref]\nignore = 'bijektion/*'": "pyproject.toml:3: no law matches 'bijektion/*'",
    "[tool.flowref]\nprofile = 'fast'": "pyproject.toml:3: the profile is 'fast'",
    "[[tool.flowref.target]]\nspec = 'a.py:f'\nprofile = 'fast'": "pyproject.toml:2: the profile is 'fast'",
    "[[tool.flowref.target]]\nspec = 'zukko'": "pyproject.toml:2: 'zukko' names no library (did you mean zuko",
    "[tool.flowref.target]\nspec = 'a.py:f'": "pyproject.toml: tool.flowref.target is no list of tables",
    "[tool.flowref]\ntargets = ['zuko']": "pyproject.toml:3: tool.flowref has no 'targets' (did you mean target?)",
    "[[tool.flowref.target]]\nspec = 'a.py:f'\n[[tool.flowref.known]]\ntarget = 'a.py:f'\nlaw = 'bijection/logdet'\n"
    "reason = 'x'": "pyproject.toml:4: there is no law 'bijection/logdet' (did you mean",
}  # fmt: skip
# Arguments of the decorator -> what is said of them.
DECORATED = {
    "'a.py:f', laws='bijektion/*'": "test_it.py:2: no law matches 'bijektion/*'",
    "'zuko.NSF'": "test_it.py:2: 'zuko.NSF' names no library (did you mean zuko",
    "'a.py:f', known={'map/log-det': 'x'}, laws='density/*'": "which is not among the laws of this test",
    "'a.py:f', known={('b.py:f', 'map/log-det'): 'x'}": "known failures name the target 'b.py:f'",
    "'a.py:f', profile='fast'": "the profile is 'fast'; expected one of pr, nightly",
    "[('a.py:f', {'laws': 'bijektion/*'})]": "test_it.py:2: no law matches 'bijektion/*'",
}  # fmt: skip


@pytest.fixture(autouse=True)
def imports_stay(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run within this process forgets the modules of its project alone: torch registers operators once."""
    original, project = SysModulesSnapshot.__init__, str(tmp_path_factory.getbasetemp())

    def elsewhere(name: str) -> bool:
        return not str(getattr(sys.modules[name], "__file__", None) or "").startswith(project)

    def snapshot(self: SysModulesSnapshot, preserve: object = None) -> None:
        original(self, elsewhere)

    monkeypatch.setattr(SysModulesSnapshot, "__init__", snapshot)


@pytest.mark.parametrize(
    ("text", "said"), PROJECTS.items(), ids=[str(n) for n in range(len(PROJECTS))]
)
def test_a_project_file_is_refused(pytester: pytest.Pytester, text: str, said: str) -> None:
    """A mistake in pyproject.toml is a usage error, whichever tests are run."""
    pytester.makepyprojecttoml(f"# settings of a project\n{text}\n")
    ran = pytester.runpytest_inprocess(*PLUGIN)
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in ran.errlines if line.startswith("ERROR: ")]
    assert said in line


@pytest.mark.parametrize(
    ("text", "said"), DECORATED.items(), ids=[str(n) for n in range(len(DECORATED))]
)
def test_a_decorator_is_refused(pytester: pytest.Pytester, text: str, said: str) -> None:
    """A mistake in the arguments of the decorator is an error of collection, in one sentence and
    with the line of the test.
    """
    test = f"import flowref\n@flowref.pytest.conformance({text})\ndef test_it(pair): pair.check()\n"
    pytester.makepyfile(test_it=test)
    ran = pytester.runpytest_inprocess(*PLUGIN)
    assert ran.ret == pytest.ExitCode.INTERRUPTED
    (line,) = [line for line in ran.outlines if said in line]
    assert line.startswith("test_it.py:2: ")
    assert "Traceback" not in ran.stdout.str()


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("@conform\ndef test_it(): pass", "test_it has no argument named pair"),
        ("@conform\n@conform\ndef test_it(pair): pass", "has two conformance decorators"),
        ("@flowref.pytest.conformance\ndef test_it(pair): pass", "has no targets; expected"),
        ("@flowref.pytest.conformance([])\ndef test_it(pair): pass", "the list is empty"),
        (
            "@flowref.pytest.conformance('a.py:f', known=['x'])\ndef test_it(pair): pass",
            "known is ['x']; expected the reason",
        ),
        (
            "@flowref.pytest.conformance([('a.py:f', {'law': 'x'})])\ndef test_it(pair): pass",
            "options of a target are 'law'; expected some of event_shape, laws, profile",
        ),
        ("@conform\nclass Test: pass", "conformance decorates a test function"),
        (
            "@conform\n@pytest.mark.parametrize('a', [1])\ndef test_it(pair, a): pass",
            "give the decorator all targets",
        ),
    ],
)
def test_a_function_that_cannot_be_decorated_is_refused(
    pytester: pytest.Pytester, test: str, said: str
) -> None:
    """What is no test of a pair is refused in a sentence that says how it is written."""
    head = "import flowref\nimport pytest\nconform = flowref.pytest.conformance('a.py:f')\n"
    pytester.makepyfile(test_it=head + test)
    ran = pytester.runpytest_inprocess(*PLUGIN)
    assert ran.ret == pytest.ExitCode.INTERRUPTED
    assert any(said in line for line in ran.outlines)


def test_options_are_refused_by_name(pytester: pytest.Pytester) -> None:
    """A profile that does not exist is a usage error that names those that do."""
    ran = pytester.runpytest_inprocess(*PLUGIN, "--flowref-profile", "fast")
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    assert "nightly" in ran.stderr.str()


def test_a_report_that_cannot_be_written_is_told(pytester: pytest.Pytester) -> None:
    """Where the report cannot be written, a line says so, and the exit code."""
    pytester.makepyfile(test_it="def test_it(): pass")
    (pytester.path / "taken").write_text("")
    ran = pytester.runpytest_inprocess(*PLUGIN, "--flowref-report", "taken/report.json")
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    assert any(
        line.startswith("flowref: ") and "cannot be written" in line for line in ran.outlines
    )


def test_each_target_costs_the_same_to_collect(pytester: pytest.Pytester) -> None:
    """Of targets that cannot be loaded all laws are collected, for they may be when their tests run:
    twice the targets take twice the work; names come once and in order.
    """

    def collected(targets: int) -> list[str]:
        rows = (f"[[tool.flowref.target]]\nspec = 'a.py:f?k={n}'\n" for n in range(targets))
        pytester.makepyprojecttoml("".join(rows))
        ran = pytester.inline_run(*PLUGIN, "--collect-only", "-qqq", "-p", "no:randomly")
        return [call.item.name for call in ran.getcalls("pytest_itemcollected")]

    names = collected(20)
    own = ("load", *(law.id for law in LAWS))
    assert len(set(names)) == len(names) == 20 * len(own)
    assert names[: len(own)] == [f"flowref[a.py:f?k=0-{name}]" for name in own]
    assert calls(lambda: collected(40)) < 2.1 * calls(lambda: collected(20))


def test_marks_of_targets_are_marks_of_tests(pytester: pytest.Pytester) -> None:
    """What `pytest.param` marks is skipped, whatever else is marked; nothing of it is loaded."""
    test = (
        "import flowref\nimport pytest\n"
        "slow = pytest.param('a.py:f', id='slow', marks=pytest.mark.skip)\n"
        "@flowref.pytest.conformance([slow], laws='map/log-det')\n"
        "def test_it(pair): pair.check()\n"
        "@pytest.mark.skip\n"
        "@flowref.pytest.conformance('a.py:f', laws='map/log-det')\n"
        "def test_other(pair): pair.check()\n"
    )
    pytester.makepyfile(test_it=test)
    ran = pytester.runpytest_inprocess(*PLUGIN, "-v")
    ran.assert_outcomes(skipped=4)
    assert any("test_it[slow-map/log-det] SKIPPED" in line for line in ran.outlines)


def test_a_project_file_says_what_holds_for_all_targets(pytester: pytest.Pytester) -> None:
    """Laws of the project, less those that it ignores, are those of tests that name none, with its profile."""
    pytester.makepyprojecttoml(
        "[tool.flowref]\nlaws = ['map/inverse', 'map/inverse[latents]']\nignore = '*[latents]'\nprofile = 'pr'\n"
    )
    pytester.makepyfile(
        flows=FLOWS,
        test_it="import flowref\n"
        "@flowref.pytest.conformance('flows.py:Shift?event=3')\n"
        "def test_it(pair): pair.check()\n",
    )
    ran = pytester.runpytest_inprocess(*PLUGIN, "--flowref-report", "r.json")
    assert ran.ret == pytest.ExitCode.OK
    report = Report.load(pytester.path / "r.json")
    assert {verdict.law for verdict in report.verdicts} == {"map/inverse"}
    assert report.environment.profile == "quick"


def test_many_tests_of_one_list_are_warned_of(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning says how to choose laws, also where warnings are errors; what is chosen by name is
    collected only where its law applies, and leaves its report behind.
    """
    monkeypatch.setattr(plugin, "MANY", 1)
    pytester.makepyfile(
        test_it="import flowref\n"
        "laws = ['map/log-det', 'map/finite', 'density/mass']\n"
        "@flowref.pytest.conformance('reference:Exp', laws=laws)\n"
        "def test_it(pair): pair.check()\n"
    )
    # Where it runs within this process, the plugin is imported before pytest can rewrite it.
    strict = ("-W", "error", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    listed = pytester.runpytest_inprocess(*PLUGIN, *strict, "--collect-only", "-q")
    assert listed.ret == 0
    assert any('3 tests of 1 target; laws="map/*"' in line for line in listed.outlines)
    ran = pytester.runpytest_inprocess(*PLUGIN, "-k", "log-det or integrates")
    ran.assert_outcomes(passed=1, deselected=3)
    assert [one.law for one in last_report(pytester.path / FOLDER).with_status(Status.HOLDS)] == [
        "map/log-det"
    ]
