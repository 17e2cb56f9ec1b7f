"""Flows in JAX that solve, search or draw are held to what they can be held to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="what is JAX's is checked where JAX is installed")
pytest.importorskip("equinox", reason="the modules are equinox's")

import jax

from flowref import checking, registry
from flowref.backends.jax.jax_solver_steps import refined
from flowref.loading import recipe_of
from flowref.loading.user_code import import_place
from flowref.model import Status, Target, TargetError

QUICK = checking.Settings("quick")
PLACE = os.path.relpath(Path(__file__).parent / "solvers.py")


def target(spec: str) -> Target:
    """A target of the file of solvers."""
    return registry.parse_target(f"{PLACE}:{spec}")


def status(spec: str, law: str) -> Status:
    """What a law says of it."""
    return checking.pair_verdict(target(spec), registry.find_law(law), QUICK, written=False).status


@pytest.mark.parametrize("name", ["integrated", "OneWay"])
def test_a_field_that_is_integrated_is_held_to_its_steps(name: str) -> None:
    """The log-det of a solver is no exact one, and nobody says how accurate it is; a trace that is off is
    seen all the same.
    """
    found = recipe_of(target(name))
    assert found.facts.promises["assumed-accuracy"]
    assert status(name, "map/log-det") is Status.HOLDS
    assert status(f"{name}?bug=true", "map/log-det") is Status.VIOLATED


def test_what_falls_with_the_steps_is_no_error_of_the_map() -> None:
    """Of a solver that takes three steps the log-det is off by more than is assumed: more steps show that
    it is the solver's error.
    """
    assert status("integrated?steps=3", "map/log-det") is not Status.VIOLATED


@pytest.mark.parametrize(("spec", "accused"), [("written", False), ("written?bug=true", True)])
def test_steps_that_nothing_tells_accuse_nobody(spec: str, accused: bool) -> None:
    """Where no attribute tells how many steps are taken, what a coarse method misses on its way back is
    not judged; a way back that leads on is a gross error, and no solver's.
    """
    assert (status(spec, "map/inverse") is Status.VIOLATED) is accused


@pytest.mark.parametrize("style", ["module", "ordinary", "registered"])
def test_steps_of_a_class_are_turned(style: str) -> None:
    """Steps that are a number of its class are turned in a copy, which keeps them where it is flattened;
    so an error that does not fall with them is seen.
    """
    flow = import_place(PLACE).of_class(style=style)
    finer, turned = refined(flow, 4)
    leaves, structure = jax.tree.flatten(finer)
    assert turned
    assert (flow.steps, jax.tree.unflatten(structure, leaves).steps) == (6, 24)
    assert status(f"of_class?style={style}&event=2", "map/log-det") is not Status.VIOLATED
    buggy = status(f"of_class?style={style}&event=2&bug=true", "map/log-det")
    assert buggy is Status.VIOLATED


def test_a_number_that_is_only_called_steps_accuses_nobody() -> None:
    """Where more of what is called steps is the same program, nothing tells how many are taken."""
    assert status("misnamed", "map/inverse") is not Status.VIOLATED


def test_knobs_are_turned_in_a_copy() -> None:
    """More steps make another object, and leave the one that is given as it is."""
    flow, other = import_place(PLACE).integrated(), import_place(PLACE).halved()
    more, turned = refined({"flow": [flow]}, 4)
    assert turned
    assert (flow.steps, more["flow"][0].steps) == (6, 24)
    assert not refined(other, 4)[1]


def test_a_scan_over_layers_is_no_iteration() -> None:
    """Forty layers are held to the last bit, as three are."""
    assert "inverse-tolerance" not in recipe_of(target("layered")).facts.promises


def test_a_search_that_records_no_gradient_is_not_accused_of_one() -> None:
    """JAX refuses to differentiate a loop of unknown length backwards: training sees no wrong gradient."""
    assert status("halved", "map/inverse") is Status.HOLDS
    assert status("halved", "map/inverse-jacobian[solver]") is not Status.VIOLATED


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("drawing", "inverse of Sliced draws by its key"),
        ("unmapped", "forward of Unmapped takes one event at a time, and jax.vmap cannot map it"),
        ("estimated", "log_prob of Estimated draws by its key: an estimate of a log-density"),
    ],
)
def test_what_cannot_be_judged_is_told_why(spec: str, said: str) -> None:
    """A layer that draws, an estimated log-density, and what vmap cannot map are refused with what to
    give instead.
    """
    with pytest.raises(TargetError, match=said):
        recipe_of(target(spec))


def test_a_key_that_nothing_is_drawn_by() -> None:
    """A call that wants a key and does not use it is judged; parameters may be bound by partial."""
    assert (
        "log_prob takes a rng, always the same"
        in recipe_of(target("dropping")).recognized.conventions
    )
    assert status("dropping", "sampling/follows-density[ratios]") is Status.HOLDS


def test_a_sampler_that_takes_all_by_name() -> None:
    """Keys and shapes without a place are given by name."""
    assert status("by_name", "sampling/follows-density[ratios]") is Status.HOLDS
    assert status("by_name?scale=1.3", "sampling/follows-density[ratios]") is Status.VIOLATED


def test_a_log_det_of_the_way_back_is_the_one_that_is_told() -> None:
    """Where each direction has a method for its log-det, each is judged."""
    assert status("apart", "map/log-det[inverse]") is Status.HOLDS
    assert status("apart?sign=1.0", "map/log-det[inverse]") is Status.VIOLATED


def test_what_iterates_over_weights_alone_leaves_a_map_exact() -> None:
    """A power iteration makes no solver of a map: only its gradients in the weights are not asked for."""
    promises = recipe_of(target("normed")).facts.promises
    assert promises["iterated-weights"] and "log-det-tolerance" not in promises
    assert promises["inverse-tolerance"]
    waits = status("normed", "gradient/parameters[log-det]")
    assert waits is Status.NOT_APPLICABLE


@pytest.mark.parametrize(("bug", "expected"), [("", Status.HOLDS), ("first", Status.VIOLATED)])
def test_the_log_det_of_such_a_map_is_held_to_its_jacobian(bug: str, expected: Status) -> None:
    """The first term of a series is seen."""
    assert status(f"normed?bug={bug}" if bug else "normed", "map/log-det") is expected
