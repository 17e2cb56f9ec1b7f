"""New releases of the audited libraries: which are new, how each is audited, and the page of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import releases
from flowref import registry
from flowref.model import ReportError, Status, Verdict
from flowref.reporting import Environment, LawNote, Report
from releases import Library, Release, audited, commands, due, newest, pins, recorded

ZUKO = Library("zuko", "zuko", "1.6.0", "torch")
NEW = Release(ZUKO, "1.7.0")
FIXED = Verdict("zuko:Fixed", "family/one", Status.VIOLATED)
BROKEN = Verdict("zuko:Broken", "family/one", Status.HOLDS)
OLD_REPORT = Report(
    Environment("0", "3.11", "here"),
    (LawNote("family/one", 1, "It holds.", "claim", "rounding"),),
    (FIXED.target, BROKEN.target),
    (FIXED, BROKEN),
)
NEW_REPORT = replace(
    OLD_REPORT,
    verdicts=(
        replace(FIXED, status=Status.HOLDS),
        replace(BROKEN, status=Status.VIOLATED),
    ),
)


def test_the_table_has_every_library_that_is_audited() -> None:
    """Each adapter of a library has a row, and each row an adapter."""
    named = {name for name, one in registry.adapters().items() if one.package}
    assert {one.name for one in releases.read()} == named - {"reference"}


@pytest.mark.parametrize("library", releases.read(), ids=lambda one: one.name)
def test_a_row_names_an_extra_with_a_framework(library: Library) -> None:
    """What both environments have at one version is pinned, but for the library itself."""
    constraints = (releases.ROOT / releases.PINNED[library.extra][0]).read_text(encoding="utf-8")
    fixed = pins(constraints, library)
    assert fixed and not any(one.startswith(f"{library.package}==") for one in fixed)


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    """In one sentence."""
    path = tmp_path / "releases.toml"
    path.write_text("[zuko]\npackage = 1\nversions = 2\n", encoding="utf-8")
    with pytest.raises(ReportError, match="cannot be read"):
        releases.read(path)


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("zuko (1.7.0)\nAvailable versions: 1.7.0, 1.6.0\n", "1.7.0"),
        ("pyro-ppl (1.9.10)\nAvailable versions: 1.9.10", "1.9.10"),
        ("", ""),
        ("ERROR: No matching distribution found for zuko", ""),
    ],
)
def test_the_newest_release_is_read(printed: str, version: str) -> None:
    """The one that pip names first; nothing where it names none."""
    assert newest(printed) == version


@pytest.mark.parametrize(
    ("there", "new"),
    [("1.7.0", ["1.7.0"]), ("1.10", ["1.10"]), ("1.6.0", []), ("1.6", []), ("1.5.9", []), ("", [])],
)
def test_newer_versions_alone_are_due(there: str, new: list[str]) -> None:
    """Versions are compared as such, and not as texts."""
    assert [one.version for one in due([ZUKO], {"zuko": there})] == new


def test_both_sides_differ_by_the_release_alone() -> None:
    """The commands of both are the same but for the version and their folder."""
    folder = Path("build")
    old, new = ([" ".join(one) for one in commands(NEW, side, folder)] for side in ("old", "new"))
    assert [
        one.replace("build/old", "build/new").replace("==1.6.0", "==1.7.0") for one in old
    ] == new
    assert "zuko==1.7.0" in new[1] and "torch==" in new[1]


def running(codes: dict[str, int]) -> Callable[[list[str]], int]:
    """Runs nothing: the code of the first word that a command has."""
    return lambda command: next((codes[word] for word in codes if word in command), 0)


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ({}, ""),
        ({"audit": 1}, ""),
        ({"audit": 2}, "zuko 1.6.0 -> 1.7.0: the old release could not be audited"),
        ({"zuko==1.7.0": 1}, "zuko 1.6.0 -> 1.7.0: the new release could not be installed"),
    ],
)
def test_what_goes_wrong_is_said(codes: dict[str, int], said: str, tmp_path: Path) -> None:
    """Violations are none of it; an environment that cannot be made is."""
    assert audited(NEW, tmp_path, running(codes)) == said


def test_what_got_better_stands_first() -> None:
    """Then what fails and did not."""
    text = releases.section(NEW, OLD_REPORT, NEW_REPORT)
    assert text.startswith("## zuko 1.6.0 -> 1.7.0\n")
    places = [text.index(part) for part in ("### Better", "zuko:Fixed", "### Worse", "zuko:Broken")]
    assert places == sorted(places)


def test_the_page_is_made_of_the_reports_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release without a report is said at the end, its version is not recorded, and the code is 1."""
    table = tmp_path / "releases.toml"
    table.write_text(
        '[zuko]\npackage = "zuko"\nversion = "1.6.0"\nextra = "torch"\n\n'
        '[bijx]\npackage = "bijx"\nversion = "1.3.2"\nextra = "jax"\n',
        encoding="utf-8",
    )
    monkeypatch.setattr(releases, "TABLE", table)
    monkeypatch.setattr(releases.read, "__defaults__", (table,))
    for name, reports in (("zuko-1.7.0", (OLD_REPORT, NEW_REPORT)), ("bijx-2.0", ())):
        (tmp_path / name).mkdir()
        for side, report in zip(releases.SIDES, reports, strict=False):
            report.save(tmp_path / name / f"{side}.json")
    out = tmp_path / "page.md"
    assert releases.main(["page", str(tmp_path), "--out", str(out), "--record"]) == 1
    assert "bijx 1.3.2 -> 2.0: the old release has no report" in out.read_text(encoding="utf-8")
    assert [one.version for one in releases.read()] == ["1.7.0", "1.3.2"]


def test_recording_changes_the_version_alone() -> None:
    """All else of the table stays as it was written."""
    text = releases.TABLE.read_text(encoding="utf-8")
    (zuko,) = [one for one in releases.read() if one.name == "zuko"]
    changed = recorded(text, [Release(zuko, "9.9")])
    assert changed.replace('"9.9"', f'"{zuko.version}"') == text != changed
