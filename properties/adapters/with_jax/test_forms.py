"""Forms in which flows in JAX come: each is taken for what it is, a bug in it is caught, and it is not
accused without.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("equinox", reason="the modules are equinox's")
pytest.importorskip("flax", reason="the modules are flax's")

from flowref import checking, registry
from flowref.loading import recipe_of
from flowref.model import Ambiguous, Law, SpecError, Status, Target, TargetError

HERE = Path(__file__).parent
# A form, its event, and the law that a bug in it violates.
FORMS = [
    ("parameters_first", (3,), "map/log-det[inverse]"),
    ("compiled", (3,), "map/log-det[inverse]"),
    ("states", (3,), "map/log-det[inverse]"),
    ("named_tuple", (3,), "map/log-det"),
    ("bound", (3,), "map/log-det"),
    ("with_variables", (3,), "map/log-det"),
    ("with_state", (3,), "map/inverse"),
    ("told_context", (2,), "map/log-det"),
    ("channels_last", (3,), "map/log-det"),
    ("any_event", (4,), "map/log-det"),
    ("mixture", (2,), "sampling/follows-density[ratios]"),
    ("chained", (3,), "map/log-det"),
    ("flagged", (3,), "map/log-det[inverse]"),
    ("flagged_static", (3,), "map/log-det[inverse]"),
    ("leveled", (6,), "map/log-det"),
    ("leveled_alone", (6,), "map/log-det"),
]


def target(spec: str) -> Target:
    """A target of the file of forms."""
    return registry.parse_target(f"{os.path.relpath(HERE / 'forms.py')}:{spec}")


def status(spec: str, law: str) -> Status:
    """What a law says of it."""
    found: Law = registry.find_law(law)
    return checking.pair_verdict(
        target(spec), found, checking.Settings("quick"), written=False
    ).status


@pytest.mark.parametrize(("spec", "event", "law"), FORMS)
def test_a_form_is_recognized(spec: str, event: tuple[int, ...], law: str) -> None:
    """The event of a form is told by calls, its bug is caught, and without it nothing is accused."""
    assert recipe_of(target(spec)).facts.event_shape == event
    assert status(f"{spec}?bug=true", law) is Status.VIOLATED
    assert status(spec, law) is not Status.VIOLATED


@pytest.mark.parametrize("spec", ["any_event", "channels_last"])
def test_what_is_right_at_another_event_is_left_open(spec: str) -> None:
    """Where nothing but calls tells the event, a log-det that is right at another one is not accused,
    and the option that decides is named.
    """
    verdict = checking.pair_verdict(target(spec), registry.find_law("map/log-det"))
    assert verdict.status is Status.INCONCLUSIVE and "?event=" in verdict.reason


@pytest.mark.parametrize("spec", ["odd?forward=encoded&inverse=decoded", "odd_pair"])
def test_methods_are_named(spec: str) -> None:
    """Methods of other names are taken where the user names them, or hands them over."""
    found = recipe_of(target(spec))
    assert found.recognized.kind == "bijection with inverse"
    assert status(spec, "map/log-det[inverse]") is Status.HOLDS


def test_a_method_that_is_not_there() -> None:
    """A method that is named and missing is one sentence."""
    with pytest.raises(SpecError, match="'encode', which is no method of the Odd"):
        recipe_of(target("odd?forward=encode"))


@pytest.mark.parametrize("law", ["map/inverse", "map/one-to-one[orientation]"])
def test_positive_numbers_stay_positive(law: str) -> None:
    """A slope that has to be positive is so in all states in which it is judged."""
    assert status("leaky", law) is Status.HOLDS


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("chained", "running log-det, added (log_det)"),
        ("counting?running=add", "running log-det, added (logp)"),
        ("counting?sign=-1.0", "running log-det, subtracted (logp)"),
    ],
)
def test_a_running_log_det_is_fed(spec: str, said: str) -> None:
    """A running log-det is fed numbers and taken off again; a log-density falls by it, or grows where a user says so."""
    assert said in recipe_of(target(spec)).recognized.conventions
    for law in ("map/log-det", "map/log-det[inverse]"):
        assert status(spec, law) is Status.HOLDS


def test_a_log_density_that_grows_both_ways_is_asked_about() -> None:
    """Either both directions are wrong, or the name is."""
    with pytest.raises(Ambiguous, match=r"\?running=add.*\?running=subtract"):
        recipe_of(target("counting"))


@pytest.mark.parametrize(
    ("spec", "said"),
    [("flagged", "inverse: reverse=True"), ("flagged_static", "inverse: inverse=True")],
)
def test_a_flag_turns_the_map_around(spec: str, said: str) -> None:
    """A function with a flag for the direction is a bijection with inverse, and the line says so."""
    assert said in recipe_of(target(spec)).recognized.conventions


def test_a_way_back_that_only_draws_need_not_train() -> None:
    """A way back that records nothing whatever for parameters is not accused of it."""
    assert status("drawing_only", "gradient/parameters[value]") is Status.HOLDS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("list", "latent: 2 parts, 6 entries"),
        ("tuple", "latent: 2 parts, 6 entries"),
        ("states", "latent: the last of 3 states"),
    ],
)
def test_latents_come_as_a_list(given: str, said: str) -> None:
    """Latents of several levels are joined and handed back as they came; of states the last is the latent."""
    spec = f"leveled?given={given}"
    assert said in recipe_of(target(spec)).recognized.conventions
    for law in ("map/inverse", "map/log-det[inverse]"):
        assert status(spec, law) is Status.HOLDS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("lost", r"a list of \(7, 2, 2\), \(7, 1\) for 7 events"),
        ("mapping", "returned a dict where an array is expected"),
    ],
)
def test_latents_that_are_no_event_are_one_sentence(given: str, said: str) -> None:
    """A list that lacks entries, and a mapping, are named."""
    with pytest.raises(TargetError, match=said):
        recipe_of(target(f"leveled?given={given}&event=6"))


@pytest.mark.parametrize("style", ["batches", "batches alike", "back in batches"])
def test_a_sum_over_a_batch_is_accused(style: str) -> None:
    """One log-det for a batch that is a sum over its rows is none of each, where batches alone are taken by
    a direction; what is traced, or put together again, is not accused of it.
    """
    spec = f"summed?style={style}&event=4"
    for law in ("shape/one-number-per-point[log-det]", "map/log-det", "same/rows"):
        assert status(spec, law) is Status.VIOLATED
    for law in ("same/manner[second-trace]", "same/manner[tree]"):
        assert status(spec, law) is Status.HOLDS


@pytest.mark.parametrize("spec", ["summed?style=any&event=4", "one_for_all?event=3"])
def test_a_sum_over_one_event_is_right(spec: str) -> None:
    """One log-det is that of one event where a call may be given that, or the same for all rows."""
    for law in ("shape/one-number-per-point[log-det]", "map/log-det", "same/rows"):
        assert status(spec, law) is Status.HOLDS


@pytest.mark.parametrize("style", ["statistics", "mean", "attention"])
def test_rows_that_meet_are_judged(style: str) -> None:
    """What maps a row by others of its batch, with a log-det for each, is judged on batches, and accused."""
    assert status(f"meeting?style={style}&event=3", "same/rows") is Status.VIOLATED


def test_rows_that_meet_in_silence_are_refused() -> None:
    """Where no log-det shows that batches are taken, it is said that rows depend on each other."""
    with pytest.raises(TargetError, match="to another value among fewer rows"):
        recipe_of(target("meeting?style=silent&event=3"))


@pytest.mark.parametrize("law", ["same/rows", "map/log-det"])
def test_entries_that_meet_are_no_rows(law: str) -> None:
    """A map that is right as one of single events is not accused of what it would do to a batch."""
    assert status("turned_around?event=3", law) is Status.HOLDS


@pytest.mark.parametrize("single", ["true", "false"])
def test_a_key_that_is_not_heard_is_seen(single: str) -> None:
    """A layer that says that it draws and does not use its key is accused, and not one that seldom draws."""
    law = "random/seeded[no-draws]"
    assert status(f"jumping?single={single}&bug=true", law) is Status.VIOLATED
    assert status(f"jumping?single={single}", law) is Status.HOLDS
