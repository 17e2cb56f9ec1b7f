"""The floors: who imports whom, who imports a framework, and what naming things loads."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from effort import PATIENCE
from floors import FLOORS, FOREIGN, LIBRARIES, PACKAGE, circles, faults
from flowref import registry

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "hypothesis", *LIBRARIES.values())

# A file that breaks a rule -> what is reported of it.
PLANTED = {
    ("model/planted.py", "from flowref.checking.tolerance import judge"): "model does not import checking",
    ("model/planted.py", "import torch"): "model does not import torch",
    ("laws/planted/law.py", "import torch.nn"): "laws does not import torch",
    ("laws/planted/law.py", "from flowref import registry"): "laws does not import registry",
    ("laws/planted/law.py", "def f():\n    from flowref_zoo import specimens"): "no room may import flowref_zoo",
    ("laws/planted/law.py", "from flowref.adapters.zuko.adapter import forward"): "laws does not import adapters",
    ("adapters/planted/adapter.py", "from flowref.adapters.zuko.adapter import forward"): "only what is common",
    ("adapters/nflows/adapter.py", "def f():\n    import zuko"): "only the adapter of zuko imports it",
    ("adapters/zuko/planted.py", "import zuko.flows"): "inside functions only",
    ("adapters/zuko/adapter.py", "import torch"): "inside functions only",
    ("backends/torch/planted.py", "from ...laws import bijection"): "backends does not import laws",
    ("backends/planted.py", "def f():\n    import torch"): "only backends/torch imports torch",
    ("loading/planted.py", "def f():\n    import torch"): "loading does not import torch",
    ("auditing/planted.py", "def f():\n    import torch"): "auditing does not import torch",
    ("loading/planted.py", "def f():\n    from flowref.backends.torch import state"): "reached by its name",
    ("training/planted.py", "import nflows"): "only the adapter of nflows imports it",
    ("registry/planted.py", "from flowref import loading"): "registry does not import loading",
    ("loading/planted.py", "from flowref.checking import check"): "loading does not import checking",
    ("checking/planted.py", "from flowref.auditing import running"): "checking does not import auditing",
    ("reporting/planted.py", "from flowref.auditing.pool import Pool"): "reporting does not import auditing",
    ("auditing/planted.py", "from flowref.cli import main"): "auditing does not import cli",
    ("auditing/planted.py", "import requests"): "no room may import requests",
    ("attic.py", "import math"): "the room attic has no floor",
}  # fmt: skip


def test_nobody_imports_upwards() -> None:
    """Every import of the tree keeps to the floors."""
    assert faults(ROOT) == []


@pytest.mark.parametrize(
    ("planted", "said"), PLANTED.items(), ids=[f"{path}-{n}" for n, (path, _) in enumerate(PLANTED)]
)
def test_a_planted_violation_is_reported(
    tmp_path: Path, planted: tuple[str, str], said: str
) -> None:
    """The test of the test: one import that breaks a rule is the one fault that is found."""
    path = tmp_path / PACKAGE / planted[0]
    path.parent.mkdir(parents=True)
    path.write_text(planted[1] + "\n")
    (fault,) = faults(tmp_path)
    assert said in fault
    assert fault.startswith(f"{PACKAGE}.{planted[0].removesuffix('.py').replace('/', '.')}:")


def test_libraries_are_read_off_their_adapters() -> None:
    """Every library that has an adapter is found, with its package; what several rooms may import,
    flowref itself and user code are no libraries.
    """
    packages = {adapter.package for adapter in registry.adapters().values()}
    assert set(LIBRARIES.values()) == packages - {"", "flowref", *FOREIGN}


def test_the_floors_have_no_cycle() -> None:
    """Rooms can be put in an order in which each imports only earlier ones."""
    left = {room: set(below) for room, below in FLOORS.items()}
    while ready := sorted(room for room, below in left.items() if not below & set(left)):
        for room in ready:
            del left[room]
    assert left == {}


def test_no_modules_import_each_other() -> None:
    """Within rooms as well imports go one way, those inside functions included."""
    assert circles(ROOT) == []


def test_a_planted_circle_is_reported(tmp_path: Path) -> None:
    """The test of the test: two modules that import each other by way of a third are reported, and
    who imports them is not.
    """
    room = tmp_path / PACKAGE / "model"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text("from flowref.model import one\n")
    (room / "one.py").write_text("def f():\n    from flowref.model.two import name\n")
    (room / "two.py").write_text("from .three import name\n")
    (room / "three.py").write_text("import flowref.model.one\nimport math\n")
    assert circles(tmp_path) == [[f"flowref.model.{name}" for name in ("one", "three", "two")]]


def test_a_folder_without_faults_has_none(tmp_path: Path) -> None:
    """A copy of the laws and the model alone keeps to the floors, whatever stands around it."""
    for room in ("model", "laws"):
        shutil.copytree(ROOT / PACKAGE / room, tmp_path / PACKAGE / room)
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import flowref; dir(flowref)", HEAVY),
        (
            "from flowref import registry; registry.adapters(); registry.parse_target('zuko:NSF')",
            HEAVY[2:],
        ),
        ("from flowref import registry; registry.laws()", HEAVY[2:]),
        (
            "import flowref.cli, sys; sys.argv = ['flowref', '--help']; runs(flowref.cli.main)",
            HEAVY,
        ),
        (
            "import flowref.cli, sys; sys.argv = ['flowref', 'audit', '--help']; "
            "runs(flowref.cli.main)",
            HEAVY,
        ),
        (
            "import flowref.cli, sys; sys.argv = ['flowref', 'laws']; runs(flowref.cli.main)",
            HEAVY[2:],
        ),
    ],
    ids=["import", "adapters", "laws", "help", "audit-help", "list-laws"],
)
def test_naming_things_loads_nothing_heavy(program: str, heavy: tuple[str, ...]) -> None:
    """Importing flowref, asking for help and listing names load no library (and the first two no
    framework).
    """
    prelude = "def runs(main):\n    try:\n        main()\n    except SystemExit as end:\n        assert not end.code\n"
    check = f"\nimport sys\nfound = sorted(set({heavy!r}) & set(sys.modules))\nassert not found, found\n"
    done = subprocess.run(
        [sys.executable, "-c", prelude + program + check],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# Nouns of the field in -ing; other participles name no file, nor do prepositions and adverbs.
NOUNS = frozenset(
    {
        *(
            "annealing",
            "centering",
            "coupling",
            "lightning",
            "normalizing",
            "preprocessing",
            "rounding",
        ),
        *("sampling", "tracing", "training"),
    }
)
OTHERS = frozenset(
    {"ahead", "back", "beside", "between", "beyond", "later", "once", "onward", "within"}
)
# Modules that each library's folder has, with functions of the same names; and commands, named as they are typed.
FOLDERS = frozenset(
    {"adapter", "bases", "calls", "constructions", "facts", "published_models", "structure"}
)
# One of the protocol of derivatives, in both frameworks, and a public one.
SHARED = frozenset({"steps"})


def test_a_file_is_named_by_a_noun() -> None:
    """By none of its participles, and by no preposition."""
    names = {path.stem for path in (ROOT / PACKAGE).rglob("*.py")} - NOUNS
    assert [one for one in sorted(names) if "_" not in one and one.endswith(("ing", "ed"))] == []
    assert sorted(names & OTHERS) == []


def test_no_name_stands_in_three_modules() -> None:
    """A function or a class has a name of its own."""
    places = defaultdict(set)
    for path in (ROOT / PACKAGE).rglob("*.py"):
        room = path.relative_to(ROOT / PACKAGE).parts[0]
        if room == "cli" or (room == "adapters" and path.stem in FOLDERS):
            continue
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                continue
            if not statement.name.startswith("__"):
                places[statement.name].add(str(path.relative_to(ROOT)))
    often = {name: sorted(paths) for name, paths in places.items() if len(paths) > 2}
    assert {name: often[name] for name in set(often) - SHARED} == {}
