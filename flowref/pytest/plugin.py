"""The hooks of the plugin. Before a test of flowref is collected they only compare names."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from flowref.pytest.conformance import ATTRIBUTE
from flowref.pytest.session_report import Gathering

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from flowref.pytest.pair import Load
    from flowref.pytest.session import Session

PROFILES = ("pr", "nightly", "quick", "standard", "thorough")
PROJECT = "pyproject.toml"
# CPU time of a pair, in seconds.
SECONDS = 60.0


# More tests than this of one list of targets are seldom intended.
MANY = 1000


@dataclass
class Desk:
    """State shared by the hooks. ``session``: set when the first test is collected; ``tests``:
    those of the project file.
    """

    session: Session | None = None
    tests: Sequence[Load] = ()


DESK = pytest.StashKey[Desk]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("flowref", "laws of normalizing flows")
    group.addoption(
        "--flowref-profile",
        choices=PROFILES,
        help="Effort: pr (quick), standard, nightly (thorough).  [default: that of pyproject.toml, or "
        "standard]",
    )
    group.addoption(
        "--flowref-seed", type=int, default=0, metavar="N", help="Seed of everything drawn."
    )
    group.addoption(
        "--flowref-report",
        metavar="PATH",
        help='Write the report to this file, as JSON; "" writes none.  [default: '
        ".flowref/report.json, which flowref script, replay and report read]",
    )
    group.addoption("--flowref-strict", action="store_true", help="Also fail on minor violations.")
    group.addoption(
        "--flowref-timeout",
        type=float,
        metavar="SECONDS",
        help="CPU time of one pair of a target and a law.  [default: that of "
        "pyproject.toml, or 60]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect the targets of pyproject.toml if ``testpaths`` selects what is collected."""
    config.stash[DESK] = Desk()
    if not hasattr(config, "workerinput"):  # of pytest-xdist, whose controller gathers
        config.pluginmanager.register(Gathering(config), "flowref-gathering")
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        project = config.rootpath / PROJECT
        if _declares(project) and not _collects(config, project):
            config.args.append(str(project))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Reject an invalid project file before anything is collected."""
    config = session.config
    desk, project = config.stash[DESK], config.rootpath / PROJECT
    if not _declares(project):
        _fill_in_options(config.option, "", 0.0)
        return
    from flowref.auditing.project_targets import common
    from flowref.baseline.targets import declared
    from flowref.model import FlowrefError

    try:
        said = common(config.rootpath)
        _fill_in_options(config.option, said.profile, said.timeout)
        targets = declared(project)
        if targets and _collects(config, project):
            from flowref.pytest.project_tests import tests

            found = tests(_session(config), targets)
            desk.tests = _applying(config, found, PROJECT)
    except FlowrefError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return the tests of the project file's targets."""
    if file_path.name != PROJECT or file_path.parent != parent.config.rootpath:
        return None
    desk = parent.config.stash[DESK]
    if not desk.tests:
        return None
    from flowref.pytest.items import DeclaredFile

    file = DeclaredFile.from_parent(parent, path=file_path)
    file.flowref_tests = desk.tests
    return file


def pytest_pycollect_makeitem(collector: Any, name: str, obj: object) -> list[pytest.Item] | None:
    """Return the tests of a decorated function."""
    if type(obj).__name__ != "function" or ATTRIBUTE not in vars(obj):
        return None
    from flowref.model import FlowrefError
    from flowref.pytest import items

    wanted = items.wanted(obj)
    if wanted is None or not (collector.funcnamefilter(name) or collector.isnosetest(obj)):
        return None
    try:
        home = f"{collector.nodeid}::{name}"
        tests = _session(collector.config).tests(wanted, home)
    except FlowrefError as error:
        line = obj.__code__.co_firstlineno  # type: ignore[attr-defined]  # it is a function
        raise collector.CollectError(f"{collector.path.name}:{line}: {error}") from None
    return items.conformance_items(collector, name, obj, _applying(collector.config, tests, home))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Deselect laws that do not apply if tests were selected by name, and let a target that cannot
    be loaded fail once.
    """
    yield
    ours = {test: item for item in items if (test := getattr(item, "flowref_test", None))}
    if not ours:
        return
    if _filtered(config):
        left = set(_session(config).applying(ours))
        items[:] = [item for item in items if getattr(item, "flowref_test", None) in {None, *left}]
        config.hook.pytest_deselected(items=[ours[test] for test in ours if test not in left])
    bearing: dict[tuple[Any, str, str], Load] = {}
    for test, item in ours.items():
        place = item.parent, getattr(item, "originalname", ""), test.target
        if test.bears or place not in bearing:
            bearing[place] = test
    for test in bearing.values():
        test.bears = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the result to the report of a test, for the process that collects them."""
    report = yield
    test = getattr(item, "flowref_test", None)
    if call.excinfo is not None and call.excinfo.typename == "FlowrefViolations":
        from flowref.pytest import failure_text

        report.longrepr = failure_text.longrepr(item, call.excinfo)
    if test is not None and call.when == "call":
        from flowref.pytest import messages

        vars(report).update(messages.of(test))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any, config: pytest.Config) -> tuple[str, str, str] | None:
    """A law that does not apply is not counted, and shown only in verbose mode."""
    if not getattr(report, "flowref_quiet", False):
        return None
    return ("", "-", "n/a") if config.get_verbosity() > 0 else ("", "", "")


def _fill_in_options(option: Any, profile: str, seconds: float) -> None:
    """Set options that were not given to the project's, or the defaults."""
    option.flowref_profile = option.flowref_profile or profile or "standard"
    option.flowref_timeout = option.flowref_timeout or seconds or SECONDS


def _declares(project: Path) -> bool:
    """Whether a project file may declare targets, without parsing it."""
    try:
        return b"tool.flowref" in project.read_bytes()
    except OSError:
        return False


def _collects(config: pytest.Config, project: Path) -> bool:
    folder = config.invocation_params.dir
    for argument in config.args:
        path = (folder / argument.partition("::")[0]).resolve()
        if path in (project, *project.parents):
            return True
    return False


def _names_single_tests(config: pytest.Config) -> bool:
    return any("[" in argument for argument in config.args)


def _filtered(config: pytest.Config) -> bool:
    """Whether tests will be selected by keyword or mark; then targets are loaded after the
    selection.
    """
    chosen = ("keyword", "markexpr", "lf", "stepwise")
    return not _names_single_tests(config) and any(
        getattr(config.option, one, None) for one in chosen
    )


def _applying(config: pytest.Config, tests: list[Load], home: str) -> list[Load]:
    """The tests of laws that apply, if that is known now; a warning is issued for very many."""
    if _names_single_tests(config) or _filtered(config):
        return tests
    tests = _session(config).applying(tests)
    if len(tests) > MANY:
        targets = len({test.target for test in tests})
        text = (
            f"{len(tests)} tests of {targets} target{'' if targets == 1 else 's'}; "
            'laws="map/*", or other ids and globs, says which are wanted'
        )
        warning = warnings.WarningMessage(
            pytest.PytestWarning(text), pytest.PytestWarning, home.partition("::")[0], 1
        )
        config.hook.pytest_warning_recorded.call_historic(
            kwargs={"warning_message": warning, "when": "collect", "nodeid": home, "location": None}
        )
    return tests


def _session(config: pytest.Config) -> Session:
    desk = config.stash[DESK]
    if desk.session is None:
        from flowref.pytest.session import begun

        desk.session = begun(config)
    return desk.session
