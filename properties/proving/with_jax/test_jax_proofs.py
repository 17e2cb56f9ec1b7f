"""Proofs of constructions and of users' code in JAX: what is right is proved, what is planted is not, and repairs have lines."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

from effort import PATIENCE
from flowref import registry
from flowref.model import TargetError
from flowref.proving import STATEMENTS, Certificate, certified, clause, patch, repairs_of

MAP = {"map/log-det", "map/log-det[inverse]", "map/inverse", "map/log-det[antisymmetry]"}
# A construction, and which of its statements are proved for all inputs and weights.
PROVED = [
    ("flowjax:Affine", MAP),
    ("flowjax:Coupling[affine]", MAP),
    ("flowjax:Householder", MAP),
    ("flowjax:Scan[Affine]", {"map/log-det"}),
    ("flowjax:TriangularAffine", {"map/log-det"}),
    ("flowjax:distributions.Normal", {"density/change-of-variables"}),
]
# What is proved on paths, or under conditions.
IN_PART = [
    ("flowjax:RationalQuadraticSpline", "paths that drawn points take"),
    ("flowjax:Power[2]", "conditions and counts in code"),
]
HOME = "flowref_zoo.jax_specimens."
# Of the others the programs are long.
QUICK = ("flows:halves", "normalizers")
PLANTED = [
    pytest.param(spec, law, marks=() if any(one in twin for one in QUICK) else pytest.mark.deep)
    for twin, defects in sorted(registry.specimens().items())
    if twin.startswith(HOME)
    for spec, laws in defects.items()
    for law in STATEMENTS
    if law in laws
]
NO_JAX = "import sys; sys.modules['jax'] = None; from flowref.cli import main; main(sys.argv[1:])"


def claim_of(spec: str, law: str) -> Certificate:
    """What is found of one statement."""
    return next(iter(certified(registry.parse_target(spec), (registry.find_law(law),))))


@pytest.mark.parametrize(
    ("spec", "law"), [(spec, law) for spec, laws in PROVED for law in sorted(laws)]
)
def test_constructions_of_flowjax_are_proved(spec: str, law: str) -> None:
    """For all inputs and weights."""
    found = claim_of(spec, law).proof
    assert found.whole, found.reason or found.clause


@pytest.mark.parametrize(("spec", "clause"), IN_PART)
def test_a_claim_says_where_it_holds(spec: str, clause: str) -> None:
    """On the paths of drawn points, or where code does not raise."""
    found = claim_of(spec, "map/log-det").proof
    assert found.proved and not found.whole and clause in found.clause


@pytest.mark.parametrize(("spec", "law"), PLANTED)
def test_no_planted_defect_is_proved(spec: str, law: str) -> None:
    """Not in part either: each is wrong wherever it is looked at."""
    with contextlib.suppress(TargetError):  # a map that is none is refused
        assert not clause(registry.parse_target(spec), registry.find_law(law))


def test_a_repair_has_the_line_of_user_code() -> None:
    """Of what is called within functions of JAX too."""
    (repair,) = claim_of(f"{HOME}flows:halves?defect=log-det-mean", "map/log-det").repairs
    assert repair.startswith("flows.py:") and "proved for all inputs and all weights" in repair


WARP = """
import equinox as eqx
import jax
import jax.numpy as jnp


class Warp(eqx.Module):
    tail: jax.Array

    def forward(self, x):
        return jnp.sinh(x) * self.tail, {}


def warp():
    return Warp(jnp.array([1.2, 0.7, 2.0]))
"""
RIGHT = "(jnp.log(jnp.cosh(x)) + jnp.log(abs(self.tail))).{}()"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (RIGHT.format("mean"), RIGHT.format("sum")),
        (
            "jnp.log(jnp.cosh(x)).sum()",
            "jnp.log(jnp.cosh(x)).sum() + jnp.log(abs(self.tail)).sum()",
        ),
    ],
    ids=["a mean", "a term that is missing"],
)
def test_a_patch_is_written_in_jax(
    wrong: str, right: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its file is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warp.py").write_text(WARP.format(wrong))
    target, law = registry.parse_target("warp.py:warp?event=3"), registry.find_law("map/log-det")
    diff = patch(target, law, repairs_of(target, law))
    line = " " * 8 + "return jnp.sinh(x) * self.tail, "
    assert f"\n-{line}{wrong}\n+{line}{right}\n" in diff


def test_weights_are_named_as_code_names_them() -> None:
    """By their place in the object."""
    graph = claim_of("flowjax:Chain", "map/log-det").graph
    assert graph is not None and "self.bijections[0].loc" in graph.weights


def test_a_file_is_checked_without_jax(tmp_path: Path) -> None:
    """The graph and its constants are in it."""
    file = tmp_path / "spline.json"
    claim_of("flowjax:RationalQuadraticSpline", "map/log-det").save(file)
    done = subprocess.run(
        [sys.executable, "-c", NO_JAX, "certificate", "check", str(file)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
