"""``flowref init``: targets in pyproject.toml, an empty baseline file and a workflow. Existing
files are never overwritten.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flowref import registry
from flowref.baseline.baseline_file import known_failures_text as baseline_text
from flowref.baseline.baseline_parser import FILE, PROJECT
from flowref.baseline.entry import Baseline
from flowref.model import BaselineError, FlowrefError, SpecError

WORKFLOW = Path(".github", "workflows", "flowref.yml")
# Folders without the project's own flows, and the most files that are read.
ELSEWHERE = frozenset(
    {"tests", "test", "docs", "build", "dist", "node_modules", "site-packages", "venv", "env"}
)
MOST = 500
FRAMEWORKS = ("torch", "jax")

ENTRY = """[[tool.flowref.target]]
spec = "{spec}"
"""
STEPS = """name: flowref
on: [push, pull_request]
permissions:
  contents: read
jobs:
  flowref:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      # Until flowref is on PyPI: the path or the address of a checkout in place of its name.
      - run: pip install {project} 'flowref[{extra}]'
      - run: flowref audit --github
"""


@dataclass(frozen=True)
class FileEdit:
    """A file to write: its whole ``text``, appended if ``added``. ``left``: why it is not written;
    ``unlisted``: what it does not audit, and why, a line each.
    """

    path: Path
    text: str = ""
    added: bool = False
    left: str = ""
    unlisted: tuple[str, ...] = ()


def flows_in_folder(folder: Path) -> Iterator[registry.Listing]:
    """Yield the possible flows in the Python files of a folder, read from their text."""
    for path in list(_files(folder))[:MOST]:
        text = path.read_text(encoding="utf-8", errors="replace")
        if any(name in text for name in FRAMEWORKS):
            try:
                yield registry.full_listing(path.relative_to(folder).as_posix())
            except FlowrefError:  # it cannot be parsed
                continue


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith((".", "_")) or path.name in ELSEWHERE
            if not hidden and not (path / "pyvenv.cfg").exists():
                yield from _files(path)
        elif path.suffix == ".py" and not path.name.startswith(("test_", "conftest", "setup")):
            yield path


def file_edits(specs: Sequence[str], folder: Path) -> list[FileEdit]:
    """Return the edits by which a project audits these targets, by default the flows that are
    found. Raises: `SpecError` if there is none, `BaselineError` if pyproject.toml cannot be edited.
    """
    for spec in specs:
        for target in registry.expand(spec):
            registry.vet_target(target)
    found = [] if specs else list(flows_in_folder(folder))
    chosen = list(specs) or [str(target) for listing in found for target in listing.targets]
    unlisted = tuple(
        f"{listing.place}:{name} {why}" for listing in found for name, why in listing.incomplete
    )
    if not chosen:
        raise SpecError(
            "no flow was found in the Python files of this folder; name what is to be audited, as in "
            f"flowref init flows.py:make{''.join(f'; {line}' for line in unlisted)}"
        )
    return [
        replace(_project(chosen, folder / PROJECT), unlisted=unlisted),
        _new(folder / FILE, baseline_text(Baseline())),
        _new(folder / WORKFLOW, _workflow(chosen, folder)),
    ]


def _new(path: Path, text: str) -> FileEdit:
    return FileEdit(path, left="it is there") if path.exists() else FileEdit(path, text)


def _project(specs: Sequence[str], path: Path) -> FileEdit:
    lines = "\n".join(
        ENTRY.format(spec=spec.replace("\\", "\\\\").replace('"', '\\"')) for spec in specs
    )
    if not path.exists():
        return FileEdit(path, lines)
    before = path.read_text(encoding="utf-8")
    try:
        held = tomllib.loads(before).get("tool", {})
        if isinstance(held, dict) and "flowref" in held:
            return FileEdit(path, left="it has tool.flowref already")
        tomllib.loads(f"{before}\n{lines}")
    except tomllib.TOMLDecodeError as error:
        raise BaselineError(
            f"{path.name} cannot take the lines of flowref: {error}; write them by hand:\n{lines}"
        ) from None
    return FileEdit(path, lines, added=True)


def _workflow(specs: Sequence[str], folder: Path) -> str:
    """The GitHub workflow, with the framework of the flows."""
    files = [folder / spec.partition(":")[0].partition("?")[0] for spec in specs]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()]
    alone = bool(texts) and all("torch" not in text for text in texts)
    installable = (folder / PROJECT).exists() and "[project]" in (folder / PROJECT).read_text(
        encoding="utf-8"
    )
    needs = "-r requirements.txt" if (folder / "requirements.txt").exists() else ""
    return STEPS.format(
        project="." if installable else needs, extra="jax" if alone else "torch"
    ).replace("install  ", "install ")


def write_file_edit(step: FileEdit) -> None:
    """Write one edit. Raises: `BaselineError` if it cannot be written."""
    try:
        step.path.parent.mkdir(parents=True, exist_ok=True)
        if step.added:
            before = step.path.read_text(encoding="utf-8")
            gap = (
                ""
                if before.endswith("\n\n") or not before
                else "\n"
                if before.endswith("\n")
                else "\n\n"
            )
            step.path.write_text(f"{before}{gap}{step.text}", encoding="utf-8")
        else:
            with step.path.open("x", encoding="utf-8") as file:
                file.write(step.text)
    except OSError as error:
        raise BaselineError(f"{step.path} cannot be written: {error.strerror}") from None
