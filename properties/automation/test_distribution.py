"""The wheel and the sdist: all that runs, nothing besides, and both alike."""

from __future__ import annotations

import email
import importlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import flowref
from automation import installed, lowest
from automation.workflows import ROOT, read

NAME = f"flowref-{flowref.__version__}"
FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "action.yml")
BUILD = "from setuptools import build_meta; build_meta.build_{kind}({out!r})"
UNSOLD = shutil.ignore_patterns("__pycache__")


def build(kind: str, tree: Path, out: Path) -> Path:
    """The file that the build backend makes of a source tree."""
    subprocess.run(
        [sys.executable, "-c", BUILD.format(kind=kind, out=str(out))],
        cwd=tree, check=True, capture_output=True,
    )  # fmt: skip
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The wheel of the tree, the sdist, and the wheel of the sdist."""
    base = tmp_path_factory.mktemp("distribution")
    tree = base / "tree"
    for folder in ("flowref", "properties", "docs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=UNSOLD)
    for name in FILES:
        shutil.copy(ROOT / name, tree)
    outs = [base / name for name in ("sdist", "wheel", "wheel-of-sdist")]
    for out in outs:
        out.mkdir()
    source = build("sdist", tree, outs[0])
    with tarfile.open(source) as archive:
        # Python before 3.11.4 knows no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        archive.extractall(base)
    return build("wheel", tree, outs[1]), source, build("wheel", base / NAME, outs[2])


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel; the list of their hashes aside, which orders them as they came."""
    with zipfile.ZipFile(wheel) as archive:
        return {n: archive.read(n) for n in archive.namelist() if not n.endswith("/RECORD")}


def metadata(wheel: Path) -> Message:
    """What a wheel says of itself."""
    return email.message_from_string(contents(wheel)[f"{NAME}.dist-info/METADATA"].decode())


def test_the_wheel_is_the_package(wheels: tuple[Path, Path, Path]) -> None:
    """Every file of the package, templates and the mark of types with it, and no other."""
    sold = {name for name in contents(wheels[0]) if not name.startswith(f"{NAME}.dist-info/")}
    folder = ROOT / "flowref"
    files = [
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert sold == {path.relative_to(ROOT).as_posix() for path in files}


def test_the_sdist_builds_the_same_wheel(wheels: tuple[Path, Path, Path]) -> None:
    """From the sdist comes what comes from the tree, byte for byte."""
    assert contents(wheels[2]) == contents(wheels[0])


def test_the_sdist_holds_what_builds_it(wheels: tuple[Path, Path, Path]) -> None:
    """Beside the package the license, the README and the project file; no tests, docs or reports."""
    with tarfile.open(wheels[1]) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    made = {"PKG-INFO", "setup.cfg", "flowref.egg-info"}
    assert tops == made | {"flowref", "LICENSE", "README.md", "pyproject.toml"}


def test_the_metadata_are_true(wheels: tuple[Path, Path, Path]) -> None:
    """One version; a license with its text; the README; the versions of Python that are tested, of
    which the oldest is required; and types, which are in the wheel.
    """
    about = metadata(wheels[0])
    assert about["Version"] == flowref.__version__
    assert about["License-Expression"] == "MIT" and about["License-File"] == "LICENSE"
    assert f"{NAME}.dist-info/licenses/LICENSE" in contents(wheels[0])
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert "flowref/py.typed" in contents(wheels[0])
    classifiers = about.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers
    jobs = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    tested = jobs["tox"]["strategy"]["matrix"]["python"]
    named = [one.rpartition(" ")[2] for one in classifiers if ":: Python :: 3." in one]
    assert named == tested
    assert about["Requires-Python"] == f">={tested[0]}"


def test_every_dependency_has_a_lowest_version() -> None:
    """One lower bound each, and no upper one: a project has versions of its own."""
    for one in lowest.lowest():
        assert re.fullmatch(r"[\w-]+==[\d.]+", one), one


def test_the_entry_points_are_there(wheels: tuple[Path, Path, Path]) -> None:
    """The command and the plugin of pytest are what they name."""
    text = contents(wheels[0])[f"{NAME}.dist-info/entry_points.txt"].decode()
    entries = importlib.metadata.EntryPoints(importlib.metadata.EntryPoints._from_text(text))  # type: ignore[attr-defined]
    assert {(entry.group, entry.name) for entry in entries} == {
        ("console_scripts", "flowref"),
        ("pytest11", "flowref"),
    }
    for entry in entries:
        module = importlib.import_module(entry.module)
        assert not entry.attr or callable(getattr(module, entry.attr))


@pytest.mark.deep
def test_the_wheel_works_alone(wheels: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Installed in an environment that has flowref's dependencies and not the repository, it does what
    a stranger tries first.
    """
    home = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = str(home / "bin" / "python")
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.check_output([python, "-c", ask], text=True).strip())
    # As plain lines of a path: what is installed there as editable is not found by it.
    others = [one for one in sys.path if one.endswith("-packages")]
    (packages / "dependencies.pth").write_text("\n".join(others))
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", str(wheels[2])],
        check=True, cwd=tmp_path,
    )  # fmt: skip
    subprocess.run([python, "-P", installed.__file__], check=True, cwd=tmp_path)
