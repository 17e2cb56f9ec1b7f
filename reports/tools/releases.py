"""New releases of the audited libraries: which there are, what each changes, and a page of that.

    python reports/tools/releases.py look                     # what is on PyPI and was not audited
    python reports/tools/releases.py audit FOLDER             # audits each against the last, in environments of its own
    python reports/tools/releases.py page FOLDER --out PAGE.md --record

`reports/releases.toml` has what was audited last; ``--record`` writes what was audited now. Exit codes: 0, 1 where a release
could not be looked up, installed or audited, 2 for a file that cannot be read.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from flowref.model import ReportError
from flowref.reporting import Report
from flowref.reporting.changes import change_markdown
from flowref.reporting.report_diff import Trend, compare

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "reports" / "releases.toml"
# What got better stands first.
ORDER = (Trend.BETTER, Trend.WORSE, Trend.OTHER)
# Extra -> the file of its versions, and the packages that both environments have at these; all others are what a user gets.
PINNED = {
    "torch": ("constraints.txt", ("torch", "numpy")),
    "keras": ("constraints.txt", ("torch", "numpy")),
    "jax": ("constraints-jax.txt", ("jax", "jaxlib", "numpy")),
}
# Codes of an audit that judged: nothing fails, something does, a crash or a time-out.
JUDGED = (0, 1, 3)
SIDES = ("old", "new")


@dataclass(frozen=True)
class Library:
    """A library: its ``name`` in flowref, its ``package`` on PyPI, the ``version`` that was audited last, the ``extra``."""

    name: str
    package: str
    version: str
    extra: str


@dataclass(frozen=True)
class Release:
    """A version of a library that was not audited."""

    library: Library
    version: str

    @property
    def title(self) -> str:
        """Both versions."""
        return f"{self.library.name} {self.library.version} -> {self.version}"

    def folder(self, above: Path) -> Path:
        """Where its reports stand."""
        return above / f"{self.library.name}-{self.version}"


def read(path: Path = TABLE) -> tuple[Library, ...]:
    """The table. Raises: `ReportError` where it is none."""
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8"))
        return tuple(Library(name, **row) for name, row in rows.items())
    except (OSError, tomllib.TOMLDecodeError, TypeError) as error:
        raise ReportError(f"{path} cannot be read: {error}") from error


def recorded(text: str, releases: Iterable[Release]) -> str:
    """The text of the table with these versions as the last ones."""
    for one in releases:
        row = re.compile(rf'(\[{re.escape(one.library.name)}\]\n[^\[]*?version = )"[^"]*"')
        text = row.sub(lambda found, version=one.version: f'{found[1]}"{version}"', text)  # type: ignore[misc]  # a default
    return text


def newest(printed: str) -> str:
    r"""The version that `pip index versions` names first, which is final and for this Python; empty where there is none.

    >>> newest("zuko (1.6.0)\nAvailable versions: 1.6.0, 1.5.0")
    '1.6.0'
    """
    found = re.match(r"\S+ \(([^)]+)\)", printed)
    return found[1] if found else ""


def due(libraries: Iterable[Library], there: Mapping[str, str]) -> list[Release]:
    """The releases that are newer than what was audited; ``there``: the newest by package."""
    return [
        Release(one, there[one.package])
        for one in libraries
        if _version(there.get(one.package, "")) > _version(one.version)
    ]


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def pins(constraints: str, library: Library) -> list[str]:
    """The requirements of the framework, at the versions of a file of constraints; the library itself is free."""
    names = PINNED[library.extra][1]
    lines = (line.strip() for line in constraints.splitlines())
    return [
        line
        for line in lines
        if line.partition("==")[0] in names and line.partition("==")[0] != library.package
    ]


def commands(release: Release, side: str, folder: Path) -> list[list[str]]:
    """What makes the environment of one side, and audits the library in it."""
    library = release.library
    version = library.version if side == "old" else release.version
    python = str(folder / side / "bin" / "python")
    fixed = pins((ROOT / PINNED[library.extra][0]).read_text(encoding="utf-8"), library)
    wanted = [*fixed, f"{library.package}=={version}", "--editable", f"{ROOT}[{library.extra}]"]
    report = str(folder / f"{side}.json")
    return [
        [sys.executable, "-m", "venv", str(folder / side)],
        [python, "-m", "pip", "install", "--quiet", *wanted],
        [python, "-m", "flowref", "audit", library.name, "--profile", "quick", "--fresh", "-j", "auto", "--json", report],
    ]  # fmt: skip


def audited(release: Release, above: Path, run: Callable[[list[str]], int]) -> str:
    """Audit both sides of a release; what went wrong, empty where both were judged."""
    folder = release.folder(above)
    folder.mkdir(parents=True, exist_ok=True)
    for side in SIDES:
        *installing, auditing = commands(release, side, folder)
        if any(run(command) for command in installing):
            return f"{release.title}: the {side} release could not be installed"
        if run(auditing) not in JUDGED:
            return f"{release.title}: the {side} release could not be audited"
    return ""


def section(release: Release, old: Report, new: Report) -> str:
    """What a release changes: what got better, what fails and did not, and the rest."""
    return change_markdown(compare(old, new), title=release.title, level=2, trends=ORDER)


def page(sections: Iterable[str], problems: Iterable[str]) -> str:
    """The page: a section for each release, and what could not be judged last."""
    told = [*sections] or ["No new release was judged.", ""]
    about = "Each against the release before, by the quick profile of this flowref: what got better first."
    lines = ["# New releases of the audited libraries", "", about, "", *told]
    if wrong := [*problems]:
        lines += ["## Not judged", "", *(f"- {one}" for one in wrong), ""]
    return "\n".join(lines)


def found(
    above: Path, libraries: Iterable[Library]
) -> Iterator[tuple[Release, Report | None, Report | None]]:
    """The releases that have a folder, with the reports that are there."""
    for library in libraries:
        for folder in sorted(above.glob(f"{library.name}-*")):
            release = Release(library, folder.name.removeprefix(f"{library.name}-"))
            paths = [folder / f"{side}.json" for side in SIDES]
            old, new = (Report.load(path) if path.is_file() else None for path in paths)
            yield release, old, new


def looked_up(libraries: Iterable[Library]) -> dict[str, str]:
    """The newest release of each package, by the pip of this environment; empty where it cannot tell."""
    asked = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check"]
    return {
        one.package: newest(
            subprocess.run(
                [*asked, one.package], capture_output=True, text=True, check=False
            ).stdout
        )
        for one in libraries
    }


def _run(command: list[str]) -> int:
    print("+", *command, flush=True)
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    return subprocess.run(command, env=environment, check=False).returncode


def _look(choices: argparse.Namespace) -> int:
    libraries = read()
    there = looked_up(libraries)
    unknown = [one.package for one in libraries if not there[one.package]]
    new = due(libraries, there)
    print("\n".join(one.title for one in new) or "nothing new")
    for package in unknown:
        print(f"{package}: pip names no release", file=sys.stderr)
    if choices.what == "look":
        return 1 if unknown else 0
    wrong = [told for one in new if (told := audited(one, choices.folder, _run))]
    for told in wrong:
        print(told, file=sys.stderr)
    return 1 if wrong or unknown else 0


def _page(choices: argparse.Namespace) -> int:
    judged, problems, sections = [], [], []
    for release, old, new in found(choices.folder, read()):
        if old is None or new is None:
            problems.append(
                f"{release.title}: the {'old' if old is None else 'new'} release has no report"
            )
            continue
        judged.append(release)
        sections.append(section(release, old, new))
    text = page(sections, problems)
    choices.out.write_text(text, encoding="utf-8")
    if choices.record:
        TABLE.write_text(recorded(TABLE.read_text(encoding="utf-8"), judged), encoding="utf-8")
    return 1 if problems else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Look, audit, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parts = parser.add_subparsers(dest="what", required=True)
    parts.add_parser("look", help="print what is new")
    audit = parts.add_parser("audit", help="audit what is new")
    write = parts.add_parser("page", help="write the page of what was audited")
    for part in (audit, write):
        part.add_argument("folder", type=Path, help="where reports stand")
    write.add_argument("--out", type=Path, required=True, help="the page")
    write.add_argument(
        "--record", action="store_true", help=f"write the versions into {TABLE.name}"
    )
    choices = parser.parse_args(arguments)
    try:
        return _page(choices) if choices.what == "page" else _look(choices)
    except ReportError as error:
        print(f"flowref: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
