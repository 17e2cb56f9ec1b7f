"""The seam between flowref and frameworks: nothing but a framework's own folder needs it, and others
can be brought from outside.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from effort import PATIENCE
from flowref import backends
from flowref.model import Status, TargetError
from flowref.reporting.report import Report
from rows import DEEP

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
OUTSIDE = HERE / "outside"
# Found first by every process started in it: no finder gets to torch.
NO_TORCH = """
import sys


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


sys.meta_path.insert(0, Missing())
"""
ENTRY_POINTS = """
[flowref.adapters]
toy = toyflows_flowref

[flowref.backends]
broken = no_such_module
toy-numpy = toyflows_flowref
"""
FLOWS = """
from toyflows import Affine


def doubled():
    return Affine([2.0, 2.0], [0.0, 1.0])


def wrong():
    return Affine([2.0, 2.0], [0.0, 1.0], wrong=True)


class Neither:
    def forward(self, x):
        return x, 0.0

    def inverse(self, z):
        return z, 0.0
"""
TORCH_FLOWS = "import torch\n\nmake = torch.nn.Identity\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder where torch cannot be imported and the distribution of a toy library is
    installed.
    """
    place = tmp_path_factory.mktemp("without_torch")
    (place / "sitecustomize.py").write_text(NO_TORCH)
    (place / "flows.py").write_text(FLOWS)
    (place / "torch_flows.py").write_text(TORCH_FLOWS)
    information = place / "toyflows-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toyflows\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    return place


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python program in that folder."""
    path = os.pathsep.join([str(folder), str(OUTSIDE), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )


def flowref(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of flowref in that folder."""
    return run(folder, "-m", "flowref", *arguments)


def test_torch_is_out_of_reach(folder: Path) -> None:
    """The test of these tests: a program that imports torch fails there."""
    done = run(folder, "-c", "import torch")
    assert done.returncode == 1 and "No module named 'torch'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--help",), "audit"),
        (("laws",), "map/log-det"),
        (("explain", "map/log-det"), "bugs it is tested to catch"),
        (("laws", "--for", "toy:Affine"), "laws apply"),
    ],
)
def test_what_needs_no_framework_works_without_torch(
    folder: Path, arguments: tuple[str, ...], shown: str
) -> None:
    """Help, the catalogue and what a law states are there without torch."""
    done = flowref(folder, *arguments)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_the_package_is_imported_without_torch(folder: Path) -> None:
    """Every public name can be imported without torch."""
    program = "import flowref\nfor name in flowref.__all__: getattr(flowref, name)"
    done = run(folder, "-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", [("-j", "1"), ("--in-process",)])
def test_a_library_of_another_framework_is_audited(folder: Path, how: tuple[str, ...]) -> None:
    """A library and a backend from outside are audited without torch, in workers and in this
    process: the wrong log-det is a violation, and the correct map holds.
    """
    done = flowref(folder, "audit", "toy", "--profile", "quick", "--json", "out.json", *how)
    assert done.returncode == 1, done.stdout + done.stderr
    report = Report.load(folder / "out.json")
    assert not report.problems
    assert {(found.target, found.law) for found in report.violations} == {
        ("toy:Affine[wrong]", "map/log-det"),
        ("toy:Affine[wrong]", "map/log-det[antisymmetry]"),
    }
    assert report.with_status(Status.HOLDS)
    assert dict(report.environment.versions).keys() == {"numpy", "toyflows"}


@DEEP
def test_code_of_a_user_is_audited_by_the_adapter_of_its_library(folder: Path) -> None:
    """A user's factory that returns an object of that library is audited without torch."""
    law = ("--laws", "map/log-det", "--profile", "quick", "-j", "1")
    assert flowref(folder, "audit", "flows.py:doubled", *law).returncode == 0
    assert flowref(folder, "audit", "flows.py:wrong", *law).returncode == 1


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("torch:SigmoidTransform", "torch"),
        ("nflows:BatchNorm", "torch is not installed"),
        ("reference:*", "torch is not installed"),
        ("torch_flows.py:make", "pip install 'flowref[torch]'"),
        ("flows.py:make", "has no 'make'"),
        ("flows.py:Neither?event=2", "the framework of a Neither is unknown"),
    ],
)
def test_a_target_of_torch_is_one_sentence_without_it(folder: Path, spec: str, said: str) -> None:
    """Without torch a target that needs it is one sentence and exit 2, and others are audited."""
    done = flowref(folder, "audit", spec, "toy:Affine", "--laws", "map/log-det", "-j", "1")
    assert done.returncode == 2, done.stdout + done.stderr
    (told,) = [line for line in done.stderr.splitlines() if said in line]
    assert told.startswith("flowref: ") and "Traceback" not in done.stderr
    assert "toy:Affine   bijection with inverse   1 check: 1 passed" in done.stdout


@pytest.mark.parametrize("arguments", [("fit", "moons"), ("sample", "runs/moons-1")])
def test_training_without_torch_is_one_sentence(folder: Path, arguments: tuple[str, ...]) -> None:
    """The commands that train say what is missing, and exit 2."""
    done = flowref(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "training needs torch, which is not installed" in done.stderr
        and "Traceback" not in done.stderr
    )


def test_a_backend_that_does_not_import_is_left_alone(folder: Path) -> None:
    """A distribution whose backend does not import is a sentence where it is asked for, and nothing
    to others.
    """
    program = (
        "from flowref import backends\nfrom flowref.model import TargetError\n"
        "assert backends.backend_names() == ('toy-numpy',)\n"
        "try:\n    backends.find('broken')\nexcept TargetError as error:\n    print(error)"
    )
    done = run(folder, "-c", program)
    assert done.returncode == 0, done.stderr
    assert "is offered by no_such_module, whose import raised ModuleNotFoundError" in done.stdout
    assert "fix or uninstall" in done.stdout


@pytest.mark.parametrize("name", ["torhc", "jacks"])
def test_a_backend_that_is_not_there_is_one_sentence(name: str) -> None:
    """An unknown backend is a `TargetError` that names those that there are."""
    with pytest.raises(TargetError, match=f"no backend '{name}'.*torch"):
        backends.find(name)
    assert not backends.installed(name)


@pytest.mark.parametrize("imported", [False, True])
def test_a_folder_of_its_name_is_no_framework(
    imported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders without code can be imported, as namespaces: a project may well have one called so."""
    (tmp_path / "a_framework_of_dreams").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    if imported:
        module = importlib.import_module("a_framework_of_dreams")
        monkeypatch.setitem(sys.modules, "a_framework_of_dreams", module)
    assert not backends.importable("a_framework_of_dreams")
