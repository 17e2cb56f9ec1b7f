"""Frameworks of other versions: too old is one sentence, and beyond what was tested is one remark."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from flowref import backends
from flowref.backends import versions
from flowref.model import TargetError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """What is installed is asked again."""
    versions._version.cache_clear()
    yield
    versions._version.cache_clear()


def pretend(folder: Path, name: str, version: str) -> None:
    """A distribution of a version, as far as its metadata say."""
    place = folder / f"{name}-{version}.dist-info"
    place.mkdir()
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize("version", ["2.5.1", "1.13.0+cu117", "2.5.0a0+git1"])
def test_a_torch_that_is_too_old_is_one_sentence(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there, what is needed, and how to have it."""
    pretend(tmp_path, "torch", version)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TargetError) as raised:
        backends.find("torch")
    sentence = str(raised.value)
    assert f"torch {version} is installed" in sentence and "torch>=2.6" in sentence
    assert "pip install 'flowref[torch]'" in sentence and "\n" not in sentence


@pytest.mark.parametrize(
    ("name", "version", "remarks"),
    [
        ("torch", "2.6.0", 0),
        ("torch", "2.13.0+cpu", 0),
        ("torch", "2.14.9", 0),
        ("torch", "2.15.0", 1),
        ("torch", "3.0", 1),
        ("torch", "2.5.1", 1),
        ("torch", "unknown", 1),
        ("jax", "0.7.2", 0),
        ("jax", "0.10.4", 0),
        ("jax", "0.7.1", 1),
        ("jax", "0.11.0", 1),
    ],
)
def test_a_version_that_was_not_tested_is_remarked(
    name: str, version: str, remarks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence each, with the version and the range."""
    monkeypatch.setattr(versions, "_version", {name: version}.get)
    said = versions.untested()
    assert len(said) == remarks
    assert all(version in one and versions.NEWEST[name] in one for one in said)


@pytest.mark.parametrize(
    ("version", "code", "said"),
    [("2.5.1", 2, "needs torch>=2.6"), ("2.99.0", 0, "torch 2.99.0 is not among the versions")],
)
def test_an_audit_says_so_once(version: str, code: int, said: str, tmp_path: Path) -> None:
    """From the command line, without a traceback."""
    pretend(tmp_path, "torch", version)
    done = subprocess.run(
        [sys.executable, "-m", "flowref", "audit", "reference:Affine", "--laws", "map/finite",
         "--profile", "quick", "--fresh"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    assert done.returncode == code
    assert len(re.findall(said, printed)) == 1
    assert "Traceback" not in printed


def test_the_oldest_and_the_newest_are_those_of_the_project() -> None:
    """Extras, continuous integration and the sentences name the same versions."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name, oldest in versions.OLDEST.items():
        assert f"{name}>={oldest}" in extras[name]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    oldest, newest = workflow["jobs"]["torch"]["strategy"]["matrix"]["torch"]
    assert oldest.startswith(versions.OLDEST["torch"] + ".")
    assert newest.startswith(versions.NEWEST["torch"] + ".")
    ini = configparser.ConfigParser()
    ini.read(ROOT / "tox.ini")
    assert f"TORCH:{oldest}" in ini["testenv:torch"]["commands"]
