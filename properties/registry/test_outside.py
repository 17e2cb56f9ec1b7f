"""What another distribution offers joins the catalogue, and nothing of flowref is edited; what is
wrong with it is one sentence, and everything else goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from effort import PATIENCE

ROOT = Path(__file__).parent.parent.parent

LIBRARY = '''
"""A library of one map."""
import torch


class Shift(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.amount = torch.nn.Parameter(torch.linspace(-1.0, 1.0, features))

    def push(self, x):
        return x + self.amount, x.new_zeros(len(x))

    def pull(self, z):
        return z - self.amount, z.new_zeros(len(z))
'''
ADAPTER = '''
"""How flowref calls it."""
from flowref import Adapter, Component, Dialect, Facts


def forward(obj, x, context=None):
    return obj.push(x)


def inverse(obj, z, context=None):
    return obj.pull(z)


def build(features=3):
    from tiny import Shift
    return Shift(features)


def describe(obj, event_shape):
    return Facts(event_shape=(len(obj.amount),), promises={"translation": True})


def facts(features=3):
    return Facts(event_shape=(features,), promises={"translation": True})


def recognizes(obj):
    return SHIFT


def components():
    return {"Shift": Component("Shift", build, SHIFT, facts)}


def healthy():
    return ("Shift",)


SHIFT = Dialect(forward=forward, inverse=inverse)
TINY = Adapter("tiny", "tiny", "Tiny", components, recognizes, describe, healthy=healthy)
'''
LAWS = '''
"""A law that needs a promise, and its mutant."""
from flowref import Residual, law, mutant
from flowref.model import CONTRACT, Mapped
from flowref.model.abilities import Bijection


@law("outside/translation", force=CONTRACT, promise="translation")
def translation(flow: Bijection, batch):
    r"""$f(x) - x$ is the same for every $x$."""
    steps = flow.forward(batch.x, batch.context).value - batch.x
    return Residual(steps - steps[:1], scale=abs(batch.x).max() + 1)


@mutant("outside/translation", host="tiny:Shift", sizes=(1e-6, 1e-2))
def bent(subject, size=1e-3):
    """The map bends."""
    def forward(x, context=None):
        image = subject.forward(x, context)
        return Mapped(image.value + size * x**2, image.ladj)
    return subject.with_call("forward", forward)
'''
SPECIMENS = '''
"""A flow as its user writes it, and a bug in it."""
import torch

from flowref_zoo.specimens.specimen import Specimen


class Moved(torch.nn.Module):
    event_shape = (3,)
    promises = {"translation": True}

    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.amount = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        bend = x**3 if self.defect == "drifts" else 0.0
        return x + self.amount + bend, x.new_zeros(len(x))

    def inverse(self, z):
        return z - self.amount, z.new_zeros(len(z))


def moved(defect=""):
    return Moved(defect)


SPECIMENS = (Specimen("moved", {"drifts": ("outside/translation",)}),)
'''
MODULES = {
    "tiny": LIBRARY,
    "tiny_adapter": ADAPTER,
    "tiny_laws": LAWS,
    "tiny_specimens": SPECIMENS,
}
OFFERS = {
    "flowref.adapters": "tiny_adapter",
    "flowref.laws": "tiny_laws",
    "flowref.specimens": "tiny_specimens",
}
# Runs commands one after the other and prints what became of each.
RUN = """
import json, sys
from click.testing import CliRunner
from flowref.cli import main
rows = []
for command in json.loads(sys.argv[1]):
    done = CliRunner().invoke(main, command)
    rows.append([done.exit_code, done.stdout, done.stderr])
print(json.dumps(rows))
"""
HELD = ["audit", "--in-process", "--profile", "quick", "--laws", "map/log-det*"]


@dataclass(frozen=True)
class Done:
    """What became of a command."""

    code: int
    out: str
    err: str


def install(folder: Path, modules: dict[str, str], offers: dict[str, str]) -> Path:
    """A folder as a distribution leaves it where it is installed."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    info = folder / "tiny_flowref-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-flowref\nVersion: 1.0\n")
    groups = [f"[{group}]\ntiny = {value}\n" for group, value in offers.items()]
    (info / "entry_points.txt").write_text("\n".join(groups))
    return folder


def python(folder: Path, program: str, *arguments: str) -> str:
    """What a program prints that is run where a distribution is installed."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def flowref(folder: Path, *commands: list[str]) -> list[Done]:
    """What becomes of commands that are run where a distribution is installed."""
    return [Done(*row) for row in json.loads(python(folder, RUN, json.dumps(commands)))]


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library, and the distribution that brings it to flowref."""
    return install(tmp_path_factory.mktemp("outside"), MODULES, OFFERS)


def test_an_offer_joins_the_catalogue(outside: Path) -> None:
    """A library, a law with its mutant and a specimen from outside are audited, listed, explained
    and put to the test as ours are.
    """
    own = [*HELD[:-1], "outside/*"]
    audited, mutated, buggy, listed, explained = flowref(
        outside,
        [*HELD[:-1], "map/log-det*,outside/*", "tiny"],
        [*own, "tiny:Shift?mutant=outside/translation#bent"],
        [*own, "tiny_specimens:moved?defect=drifts"],
        ["laws"],
        ["explain", "outside/translation"],
    )
    assert audited.code == 0, audited
    assert "tiny:Shift" in audited.out
    assert mutated.code == 1
    assert "outside/translation" in mutated.out
    assert buggy.code == 1
    assert listed.code == 0
    assert "outside/translation" in listed.out
    assert explained.code == 0
    assert "    - The map bends." in explained.out


def test_an_offer_joins_the_selftest(outside: Path) -> None:
    """The self-test audits what the adapter vouches for and the healthy specimen, and its mutants
    include the one from outside, which it catches.
    """
    program = """
from flowref import registry
from flowref.auditing.selftest import healthy_specs, trial
assert {"tiny:Shift", "tiny_specimens:moved"} <= set(healthy_specs())
assert registry.specimens()["tiny_specimens:moved"]
mutant = registry.find_mutant("outside/translation#bent")
assert mutant in registry.mutants()
assert trial(mutant, "quick").caught
assert registry.problems() == ()
"""
    python(outside, program)


# What is wrong -> changes to the modules, changes to the offers, and the sentence.
FAULTS = {
    "an adapter that does not import": (
        {"tiny_adapter": "import tinny"},
        {},
        "the entry point 'tiny' of the group 'flowref.adapters' names tiny_adapter, whose import "
        "raised ModuleNotFoundError: No module named 'tinny'; fix or uninstall the distribution "
        "that offers it",
    ),
    "an adapter that exits": (
        {"tiny_adapter": "raise SystemExit('no license')"},
        {},
        "names tiny_adapter, whose import raised SystemExit: no license; fix",
    ),
    "an adapter instead of its module": (
        {},
        {"flowref.adapters": "tiny_adapter:TINY"},
        "names tiny_adapter:TINY, which is no module but of type Adapter; fix",
    ),
    "two adapters of one name": (
        {"tiny_adapter": ADAPTER.replace('Adapter("tiny"', 'Adapter("zuko"')},
        {},
        "there are two adapters 'zuko', in flowref.adapters.zuko.adapter and in tiny_adapter; the "
        "second is left out until one of them is renamed",
    ),
    "two laws of one id": (
        {"tiny_laws": LAWS.replace("outside/translation", "map/log-det")},
        {},
        "there are two laws 'map/log-det', in flowref.laws.bijection.log_det and in "
        "tiny_laws; the second is left out until one of them is renamed",
    ),
    "specimens that do not import": (
        {"tiny_specimens": "1 / 0"},
        {},
        "names tiny_specimens, whose import raised ZeroDivisionError: division by zero; fix",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_offer_is_one_sentence(tmp_path: Path, fault: str) -> None:
    """Every front end says once what is wrong, with exit code 2, and audits the other targets."""
    modules, offers, sentence = FAULTS[fault]
    folder = install(tmp_path, {**MODULES, **modules}, {**OFFERS, **offers})
    audited, listed, explained = flowref(
        folder,
        [*HELD, "--json", "report.json", "torch:TanhTransform"],
        ["laws"],
        ["explain", "map/log-det"],
    )
    assert [audited.code, listed.code, explained.code] == [2, 2, 2]
    assert [done.err.count(sentence) for done in (audited, listed, explained)] == [1, 1, 1]
    assert "map/log-det" in listed.out
    report = json.loads((folder / "report.json").read_text())
    assert {verdict["status"] for verdict in report["verdicts"]} <= {"HOLDS", "NOT_APPLICABLE"}
    (problem,) = report["problems"]
    assert sentence in problem["message"]


def test_a_missing_name_comes_with_its_reason(tmp_path: Path) -> None:
    """Where an adapter does not import, asking for its library says both that there is none of that
    name and why; the library beside it is audited.
    """
    folder = install(tmp_path, {**MODULES, "tiny_adapter": "import tinny"}, OFFERS)
    both, unlawful = flowref(
        folder,
        [*HELD, "tiny", "torch:TanhTransform"],
        [*HELD[:-1], "nowhere/*", "torch:TanhTransform"],
    )
    assert both.code == 2
    assert "'tiny' names no library" in both.err
    assert both.err.count("No module named 'tinny'") == 1
    assert "torch:TanhTransform" in both.out
    assert unlawful.code == 2
    assert unlawful.err.count("No module named 'tinny'") == 1
