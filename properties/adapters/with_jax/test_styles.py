"""Styles in which JAX is written: each is taken for what it is, a bug in it is caught, and it is not accused
without; what cannot be judged is refused in a sentence that tells what to do.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="it is about code in JAX")
pytest.importorskip("equinox", reason="the modules are equinox's")
pytest.importorskip("flowjax", reason="a class derives from one of it")

import jax

from flowref import checking, registry
from flowref.adapters.user.jax.functions import functions_convention
from flowref.backends.jax.derivatives import reversible
from flowref.loading import recipe_of
from flowref.model import Law, Status, Target, TargetError, Unsupported

HERE = Path(__file__).parent
# A style, and what it is taken for.
KINDS = [
    ("functions_of_density", "density with sampler"),
    ("key_first", "density with sampler"),
    ("nameless", "density with sampler"),
    ("likelihood", "density with sampler"),
    ("axes", "bijection with inverse"),
    ("searching", "bijection with inverse"),
    ("transformed", "bijection with inverse"),
]
# A style, and the law that a bug in it violates.
BUGS = [
    ("functions_of_density", "sampling/follows-density[ratios]"),
    ("likelihood", "sampling/follows-density[ratios]"),
    ("axes", "map/log-det"),
    ("transformed", "map/log-det"),
    ("masked", "dtype/follows"),
    ("searching", "map/inverse"),
]
REFUSED = [
    ("scored", r"one number for each point and no log-det.*call the function log_prob"),
    ("unmade", r"maker takes a key first.*name a factory that calls it"),
    ("onto_sphere?event=3", r"to be audited in coordinates"),
    ("losing?event=2", r"loses its attribute power where it is flattened into its leaves"),
]


def target(spec: str) -> Target:
    """A target of the file of styles."""
    return registry.parse_target(f"{os.path.relpath(HERE / 'styles.py')}:{spec}")


def status(spec: str, law: str) -> Status:
    """What a law says of it."""
    found: Law = registry.find_law(law)
    return checking.pair_verdict(
        target(spec), found, checking.Settings("quick"), written=False
    ).status


@pytest.mark.parametrize(("spec", "kind"), KINDS)
def test_a_style_is_recognized(spec: str, kind: str) -> None:
    """A style is taken for what it is."""
    assert recipe_of(target(spec)).recognized.kind == kind


@pytest.mark.parametrize(("spec", "law"), BUGS)
def test_a_bug_is_caught(spec: str, law: str) -> None:
    """A bug in a style is caught."""
    assert status(f"{spec}?bug=true", law) is Status.VIOLATED


@pytest.mark.parametrize(("spec", "law"), BUGS)
def test_a_style_is_not_accused(spec: str, law: str) -> None:
    """Without the bug nothing is accused."""
    assert status(spec, law) is Status.HOLDS


@pytest.mark.parametrize(("spec", "sentence"), REFUSED)
def test_a_refusal_tells_the_way_out(spec: str, sentence: str) -> None:
    """What cannot be judged as it is handed over is refused with what to do."""
    with pytest.raises(TargetError, match=sentence):
        recipe_of(target(spec))


def test_a_way_back_that_searches_accuses_nobody() -> None:
    """A way back that iterates until it is near has no gradient in JAX: no error of the bijection."""
    assert status("searching", "same/manner[traced-gradient]") is Status.HOLDS


def test_a_sampler_is_no_way_back() -> None:
    """What takes a key and a number is not called with latents, whatever stands beside it."""

    def score(params: object, x: object) -> None:
        """Of points."""

    def generate(params: object, key: object, n: int) -> None:
        """Of a key and a number."""

    dialect = functions_convention((0.5, score, generate))
    assert dialect is not None and dialect.forward is not None
    assert dialect.inverse is None


def test_no_reverse_mode_is_an_ability_that_is_absent() -> None:
    """Where a loop of unknown length has no reverse mode, that is said, and no error."""
    with pytest.raises(Unsupported, match="no reverse mode"), reversible():
        jax.grad(lambda x: jax.lax.while_loop(lambda y: y < 9, lambda y: 2 * y, x))(1.0)


def test_estimates_are_not_trained_with_one_key() -> None:
    """The noise of one key is fitted by training: what that leads to accuses no estimate."""
    assert status("estimated", "map/one-to-one[orientation]") is Status.HOLDS
