"""The programs of reports/scripts: each shows its finding without flowref, in the numbers of the audit.

A program ends with ``VIOLATED <law>`` and exits with 1. Where a number is wrong, a line says
``off by <number>``: it agrees to `CLOSE` with what the audit recorded for a target and that law of
the finding, or, where the input of the program is simpler, with an entry of the finding's ``off_by``.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

from causes import read
from flowref import registry
from flowref.model import Status
from flowref.reporting.report import Report
from flowref.reporting.report_diff import renamed_report
from flowref.scripting.trial_run import ProgramOutcome
from rows import one_of_each
from scripting.alone import Alone

REPORTS = Path(__file__).parents[2] / "reports"
FINDINGS = REPORTS / "findings.toml"
PROGRAMS = sorted((REPORTS / "scripts").glob("*.py"))

# The first part of a program's name -> the distribution and the package that it is about.
ABOUT = {
    "torch": ("torch", "torch"),
    "zuko": ("zuko", "zuko"),
    "nflows": ("nflows", "nflows"),
    "normflows": ("normflows", "normflows"),
    "freia": ("FrEIA", "FrEIA"),
    "pyro": ("pyro-ppl", "pyro"),
    "glasflow": ("glasflow", "glasflow"),
    "torchflows": ("torchflows", "torchflows"),
    "scipy": ("scipy", "scipy"),
    "sklearn": ("scikit-learn", "sklearn"),
    "sbi": ("sbi", "sbi"),
    "gpytorch": ("gpytorch", "gpytorch"),
    "botorch": ("botorch", "botorch"),
    "nessai": ("nessai", "nessai"),
    "torch_geometric": ("torch_geometric", "torch_geometric"),
    "diffusers": ("diffusers", "diffusers"),
    "flow_matching": ("flow_matching", "flow_matching"),
}
# The same of what is written in JAX: it runs where that is installed (`tox -e jax`).
ABOUT_JAX = {
    "flowjax": ("flowjax", "flowjax"),
    "numpyro": ("numpyro", "numpyro"),
    "bijx": ("bijx", "bijx"),
    "equinox": ("equinox", "equinox"),
    "distrax": ("distrax", "distrax"),
    "tfp": ("tfp-nightly", "tensorflow_probability"),
}
FRAMEWORKS = {
    **dict.fromkeys(ABOUT, ("torch",)),
    **dict.fromkeys(ABOUT_JAX, ("jax", "equinox", "flax")),  # the first is what a program needs
}
LONGEST = 40
CLOSE = (
    1e-3  # six digits are printed, and libm and BLAS may differ in the last ones of what they round
)


def library_of(program: Path) -> str:
    """The first part of its name."""
    return program.stem.partition("-")[0]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    """A process that runs programs without flowref."""
    process = Alone(tmp_path_factory.mktemp("alone"))
    yield process
    process.close()


def run(alone: Alone, program: Path) -> ProgramOutcome:
    """How a program ends. What is of torch is imported once for all; JAX has threads, which no copy of
    a process has.
    """
    library = library_of(program)
    return alone.run(program, *(("torch", ABOUT[library][1]) if library in ABOUT else ()))


@cache
def audit() -> Report:
    """The published audit, its laws under the ids of today."""
    return published("audit.json")


def published(name: str) -> Report:
    """A published report, its laws under the ids of today."""
    return renamed_report(Report.load(REPORTS / name), registry.former())


@cache
def entries() -> dict[str, tuple[frozenset[str], dict[str, list[float]], list[float]]]:
    """Name of a program -> the laws of its finding, what the audit measured by law, and off_by."""
    every = (*audit().verdicts, *published("audit-jax.json").verdicts)
    violated = [verdict for verdict in every if verdict.status is Status.VIOLATED]
    table = {}
    for finding in read(FINDINGS):
        measured: dict[str, list[float]] = {}
        for verdict in filter(finding.explains, violated):
            if verdict.evidence is not None:
                measured.setdefault(verdict.law, []).append(verdict.evidence.residual)
        table[Path(finding.script).stem] = (
            frozenset(finding.laws),
            measured,
            list(finding.off_by),
        )
    return table


def form(text: str, name: str) -> list[str]:
    """What is wrong with the text of a program: its length, its first line, its imports."""
    tree = ast.parse(text)
    library = name.partition("-")[0]
    distribution, package = (ABOUT | ABOUT_JAX)[library]
    start = f"{distribution} {version(distribution).partition('+')[0]}: "
    faults = []
    if (length := len(text.splitlines())) > LONGEST:
        faults.append(f"it has {length} lines; at most {LONGEST} are read")
    if not (ast.get_docstring(tree) or "").startswith(start):
        faults.append(f"it does not begin with {start!r}, what is installed")
    if "# The bug" not in text:
        faults.append("no comment says which lines of the library are the bug")
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    allowed = {package, *FRAMEWORKS[library], "numpy", *sys.stdlib_module_names}
    strange = sorted({module.partition(".")[0] for module in imported} - allowed)
    return faults + [f"it imports {module}" for module in strange]


def shown(outcome: ProgramOutcome, name: str) -> list[str]:
    """What is wrong with the outcome of a program: its exit code, its last line, its numbers."""
    lines = outcome.out.splitlines()
    if outcome.code != 1 or not lines:
        return [f"it exits with {outcome.code}: {outcome.err[-500:] or lines[-1:]}"]
    laws, measured, off_by = entries()[name]
    law = lines[-1].removeprefix("VIOLATED ")
    if law == lines[-1] or law not in laws:
        return [f"it ends with {lines[-1]!r}; its finding lists {', '.join(sorted(laws))}"]
    numbers = [float(match[1]) for line in lines if (match := re.match(r"off by ([-+\w.]+)", line))]
    recorded = measured.get(law, [])
    if not numbers and any(math.isfinite(residual) and residual != 1 for residual in recorded):
        return [f"no line says 'off by'; the audit recorded {recorded}"]
    return [
        f"it is off by {number:g}; the audit recorded {recorded}, its finding {off_by}"
        for number in numbers
        if not any(math.isclose(number, other, rel_tol=CLOSE) for other in recorded + off_by)
    ]


@pytest.mark.parametrize("program", one_of_each(PROGRAMS, library_of), ids=lambda path: path.stem)
def test_a_program_shows_its_finding_without_flowref(program: Path, alone: Alone) -> None:
    """It exits with 1 and names a law of its finding, in at most 40 lines that need its library, the
    framework, numpy and the standard library only; its numbers are those of the audit or the finding.
    """
    library = library_of(program)
    for package in ((ABOUT | ABOUT_JAX)[library][1], FRAMEWORKS[library][0]):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed here")
    assert form(program.read_text(encoding="utf-8"), program.stem) == []
    assert shown(run(alone, program), program.stem) == []


def test_each_program_belongs_to_one_finding() -> None:
    """Every program is named by a finding, and every number of a finding is shown by a program."""
    findings = read(FINDINGS)
    named = [Path(finding.script).stem for finding in findings if finding.script]
    assert sorted(named) == [program.stem for program in PROGRAMS]
    assert [finding.id for finding in findings if finding.off_by and not finding.script] == []


PLAIN = REPORTS / "scripts" / "torch-affine-scalar-tensor.py"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("sys.exit(wrong)", "sys.exit(0)", "it exits with 0"),
        ("import torch\n", "import torch\nimport flowref\n", "import of flowref halted"),
    ],
)
def test_a_program_that_passes_or_needs_flowref_is_caught(
    alone: Alone, tmp_path: Path, old: str, new: str, fault: str
) -> None:
    """A program that exits with 0, and one that cannot run without flowref, are no proofs."""
    text = PLAIN.read_text(encoding="utf-8")
    assert old in text
    changed = tmp_path / PLAIN.name
    changed.write_text(text.replace(old, new), encoding="utf-8")
    assert fault in str(shown(run(alone, changed), PLAIN.stem))


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (("off by 2.07944", "VIOLATED map/log-det"), ""),
        (("off by 2.07944", "VIOLATED map/one-to-one"), "its finding lists map/"),
        (("off by 2.07944", "holds"), "it ends with 'holds'"),
        (("off by 2.084", "VIOLATED map/log-det"), "it is off by 2.084; the audit recorded"),
        (("off by nan", "VIOLATED map/log-det"), "it is off by nan"),
        (("much", "VIOLATED map/log-det"), "no line says 'off by'"),
        (("off by 2.07944", "off by 1", "VIOLATED map/log-det"), "it is off by 1;"),
        ((), "it exits with 1"),
    ],
)
def test_an_outcome_that_shows_something_else_is_caught(lines: tuple[str, ...], fault: str) -> None:
    """Another law than the finding's, another number than the audit's, or none, is no proof."""
    faults = shown(ProgramOutcome(1, "\n".join(lines)), PLAIN.stem)
    assert fault in str(faults) if fault else faults == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("import torch\n", "import torch\nfrom flowref.model import Law\n", "it imports flowref"),
        ("import torch\n", "import torch\nimport scipy.linalg\n", "it imports scipy"),
        ('"""torch 2', '"""torch 1', "it does not begin with 'torch 2"),
        ("# The bug", "# What", "no comment says which lines"),
        ("\nwrong", "\n" * 20 + "wrong", "lines; at most 40 are read"),
    ],
)
def test_a_program_in_another_form_is_caught(old: str, new: str, fault: str) -> None:
    """A program that needs more than its library, is about another version, does not say where the
    bug is, or is too long to be read, is no proof.
    """
    text = PLAIN.read_text(encoding="utf-8")
    assert old in text
    assert form(text, PLAIN.stem) == []
    assert fault in str(form(text.replace(old, new), PLAIN.stem))
