"""What heavy calls take is planned by what was counted: fewer rows and batches, calls set aside,
and what cannot fit is told before it is tried.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flowref import checking, loading, registry
from flowref.checking.plan import DEFAULT_PLAN, planned
from flowref.checking.settings import Settings
from flowref.checking.tally import Tally
from flowref.model import CallCost, Cost, LinearCost, Status, Subject, Undecidable
from flowref.model.budget import (
    MEBIBYTE,
    Budget,
    BudgetExceeded,
    affordable_rows,
    asked_for,
    current_budget,
    limited_budget,
    too_large,
)

SECOND = 1e9
TARGET = "nflows:AffineCouplingTransform"


def subject(**calls: CallCost) -> Subject:
    """A subject whose calls take this."""
    loaded = loading.load(registry.parse_target(TARGET))
    return loaded.with_facts(cost=Cost(calls, 0))


def lasting(seconds: float) -> CallCost:
    """A call of which each row takes so long."""
    return CallCost(10, work=LinearCost(0.0, seconds * SECOND))


def test_light_subjects_are_measured_as_ever() -> None:
    """Where an ordinary batch takes next to nothing there is no plan."""
    law = registry.find_law("map/inverse[latents]")
    light = subject(forward=lasting(1e-5), inverse=lasting(1e-5))
    assert planned(law, light, Settings()) is DEFAULT_PLAN


@pytest.mark.parametrize("law", ["map/inverse[latents]", "same/rows"])
def test_batches_hold_fewer_rows_the_more_a_row_takes(law: str) -> None:
    """They never grow, and hold two at least, or rows could not be told apart."""
    chosen, settings = registry.find_law(law), Settings()
    rows = [
        planned(chosen, subject(forward=lasting(take), inverse=lasting(take)), settings).rows or 0
        for take in (0.005, 0.02, 0.1, 0.3)
    ]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] > rows[-1] == 2


@pytest.mark.parametrize(
    ("event", "latent", "rows"), [((12,), (12,), 2), ((12,), (3, 2, 2), 1), ((3, 2, 2), (12,), 1)]
)
def test_one_row_of_images_is_enough(
    event: tuple[int, ...], latent: tuple[int, ...], rows: int
) -> None:
    """Of what has positions one row shows what several do, whichever side is flat."""
    law = registry.find_law("map/inverse[latents]")
    heavy = subject(forward=lasting(0.3), inverse=lasting(0.3))
    image = heavy.with_facts(event_shape=event, latent_shape=latent)
    assert planned(law, image, Settings()).rows == rows


def test_a_law_of_several_points_is_given_as_many_however_dear_they_are() -> None:
    """Of fewer it would say nothing: a constant is told by three."""
    chosen = registry.find_law("density/base-constant[latents]")
    dear = subject(**dict.fromkeys(("forward", "inverse", "log_prob"), lasting(0.3)))
    assert planned(chosen, dear, Settings()).rows == chosen.fewest >= 3


def test_more_time_is_used_for_more_rows() -> None:
    """--timeout decides how densely large models are measured."""
    law = registry.find_law("map/inverse[latents]")
    heavy = subject(forward=lasting(0.02), inverse=lasting(0.02))
    short, long = (planned(law, heavy, Settings(seconds=s)).rows for s in (60.0, 600.0))
    assert short is not None
    assert long is not None
    assert long >= 5 * short


def test_a_call_that_takes_long_is_set_aside_where_a_law_can_do_without() -> None:
    """The law is measured on the other calls, and its verdict says so."""
    heavy = subject(forward=lasting(0.005), inverse=lasting(20.0))
    law = registry.find_law("same/history[repeat]")
    layout = planned(law, heavy, Settings())
    assert layout.skipped_calls == {"inverse"}
    assert set(layout.without_skipped_calls(heavy).calls) == {"forward"}
    assert "inverse" in layout.note


def test_a_law_that_asks_for_it_all_the_same_is_undecided() -> None:
    """As one does that trains whichever call takes data to latents; what was never there is an error of
    the law.
    """
    heavy = subject(forward=lasting(0.005), inverse=lasting(20.0))
    calls = (
        planned(registry.find_law("same/history[repeat]"), heavy, Settings())
        .without_skipped_calls(heavy)
        .calls
    )
    with pytest.raises(Undecidable, match="inverse would take too long here"):
        calls["inverse"]
    with pytest.raises(KeyError):
        calls["sample"]


def test_a_law_that_needs_such_a_call_says_which_time_out_it_needs() -> None:
    """And is not measured."""
    heavy = subject(forward=lasting(0.005), inverse=lasting(20.0))
    law = registry.find_law("map/inverse[latents]")
    silence = planned(law, heavy, Settings()).silence
    assert "one call of inverse takes about 20 s" in silence
    asked = float(silence.partition("--timeout ")[2].removesuffix("s"))
    assert not planned(law, heavy, Settings(seconds=asked)).silence


def test_nothing_is_left_out_where_every_call_takes_long() -> None:
    """A subject without calls would be none."""
    heavy = subject(forward=lasting(20.0), inverse=lasting(20.0))
    assert not planned(registry.find_law("same/history[repeat]"), heavy, Settings()).skipped_calls


def test_no_batch_is_added_once_the_planned_work_is_spent() -> None:
    """Unless nothing was decided so far: then a second may take more than a third."""
    law = registry.find_law("map/inverse[latents]")
    layout = planned(law, subject(forward=lasting(0.1), inverse=lasting(0.1)), Settings())
    spent, work = Budget(), Settings().planned
    tally = Tally()
    assert not layout.enough(tally, spent, Settings())
    tally.batches, spent.spent = 1, work / 4
    tally.points["held"] = 1
    assert not layout.enough(tally, spent, Settings())
    spent.spent = work
    assert layout.enough(tally, spent, Settings())
    tally.points["held"], spent.spent = 0, 3 * work
    assert not layout.enough(tally, spent, Settings())
    tally.batches = 2
    assert layout.enough(tally, spent, Settings())
    tally.batches, spent.spent = 1, 5 * work
    assert layout.enough(tally, spent, Settings())


def test_what_does_not_fit_is_not_tried_and_says_what_it_needs() -> None:
    """In memory, and in time; what was asked for before counts."""
    with limited_budget(Budget(memory=2**30, work=10 * SECOND)):
        current_budget().ask("a call", 2**29, 6 * SECOND)
        with pytest.raises(BudgetExceeded, match=r"a call needs 3\.0 GiB: --memory 8192"):
            current_budget().ask("a call", 3 * 2**30, 0.0)
        with pytest.raises(BudgetExceeded, match="takes about 12 s: --timeout 22s"):
            current_budget().ask("a call", 0.0, 6 * SECOND)
    assert current_budget().left == math.inf


@pytest.mark.parametrize("mebibytes", [64, 100, 2048, 5000])
def test_the_memory_that_is_asked_for_is_enough(mebibytes: int) -> None:
    """With the limit that the sentence names, the call fits."""
    needed = Settings(memory=mebibytes).means.memory * 1.01
    asked = int(too_large(needed).rpartition(" ")[2])
    assert Settings(memory=asked).means.memory >= needed


def test_a_law_that_is_stopped_says_why_and_costs_no_other_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not judged; the others are."""
    from flowref.backends.torch.live import Live

    def short(self: Live, what: str, *details: object, graphed: bool = False) -> None:
        if what.startswith("a Jacobian"):
            raise BudgetExceeded(f"not judged: {what} needs 9 GiB: --memory 16384")

    monkeypatch.setattr(Live, "_ask", short)
    stopped = checking.pair_verdict(TARGET, "map/log-det", Settings("quick"))
    assert stopped.status is Status.INCONCLUSIVE
    assert stopped.reason == "not judged: a Jacobian of forward needs 9 GiB: --memory 16384"
    held = checking.pair_verdict(TARGET, "map/inverse[latents]", Settings("quick"))
    assert held.status is Status.HOLDS


def test_memory_that_cannot_be_had_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed allocation inside a call passes whatever a law catches."""
    loading.load(registry.parse_target(TARGET))
    from flowref.backends.torch import evaluation

    def full(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 1 byte")

    monkeypatch.setattr(evaluation, "as_mapped", full)
    verdict = checking.pair_verdict(TARGET, "same/rows", Settings("quick"))
    assert verdict.status is Status.INCONCLUSIVE
    assert "needs more than 2048 MiB: --memory 4096" in verdict.reason


def test_memory_that_another_error_comes_from_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library that says in words of its own where it failed has failed for the same reason."""
    loading.load(registry.parse_target(TARGET))
    from flowref.backends.torch import evaluation

    def full(*_: object, **__: object) -> None:
        try:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 1 byte")
        except RuntimeError as error:
            raise ValueError("the first layer encountered an error") from error

    monkeypatch.setattr(evaluation, "as_mapped", full)
    verdict = checking.pair_verdict(TARGET, "same/rows", Settings("quick"))
    assert verdict.status is Status.INCONCLUSIVE
    assert "needs more than 2048 MiB: --memory 4096" in verdict.reason


@pytest.mark.parametrize("law", ["mode/protocol", "same/copied", "map/log-det"])
def test_a_copy_that_has_no_room_is_no_refusal(monkeypatch: pytest.MonkeyPatch, law: str) -> None:
    """Where there is no memory for a copy of the object, nothing is said of it."""
    loading.load(registry.parse_target(TARGET))
    from flowref.backends.torch import live, state

    def full(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 1 byte")

    monkeypatch.setattr(live, "duplicate", full)
    monkeypatch.setattr(state, "duplicate", full)
    loading.forget()
    verdict = checking.pair_verdict(TARGET, law, Settings("quick"))
    assert verdict.status is Status.INCONCLUSIVE
    assert "a copy needs more memory than there is" in verdict.reason


def test_what_is_conspicuous_may_take_more() -> None:
    """Until then most of the time is kept."""
    reserved = Settings().reserved
    assert reserved.work + reserved.reserve == Settings().means.work
    with limited_budget(reserved), pytest.raises(BudgetExceeded, match="--timeout"):
        current_budget().ask("a call", 0.0, reserved.work * 2)
    reserved.draw_on_reserve()
    with limited_budget(reserved):
        current_budget().ask("a call", 0.0, reserved.work * 0.9)
    with limited_budget(reserved), pytest.raises(BudgetExceeded, match="--timeout"):
        current_budget().ask("a call", 0.0, reserved.work * 0.9)


@pytest.mark.parametrize(
    ("call", "copies", "fits"), [(0.59, 0.0, 1), (0.3, 0.55, 1), (0.3, 0.65, 0)]
)
def test_copies_take_of_what_no_call_may_hold(call: float, copies: float, fits: bool) -> None:
    """A model whose copies fill half of the limit is called in what is left of it; and with the limit that
    the sentence names, what does not fit does.
    """
    limit = 2048 * MEBIBYTE
    with limited_budget(Settings(memory=2048).means):
        if fits:
            current_budget().ask("a call", call * limit, 0.0, copies * limit)
            return
        with pytest.raises(BudgetExceeded) as refused:
            current_budget().ask("a call", call * limit, 0.0, copies * limit)
    with limited_budget(Settings(memory=asked_for(refused.value.reason)).means):
        current_budget().ask("a call", call * limit, 0.0, copies * limit)


@pytest.mark.parametrize("seconds", [20.0, 60.0, 300.0])
def test_the_time_that_is_asked_for_is_enough(seconds: float) -> None:
    """With the time-out that the sentence names, the work fits before anything is conspicuous."""
    few = Settings(seconds=seconds).reserved
    work = few.work * 3
    with limited_budget(few), pytest.raises(BudgetExceeded) as refused:
        current_budget().ask("a call", 0.0, work)
    asked = float(refused.value.reason.partition("--timeout ")[2].removesuffix("s"))
    assert Settings(seconds=asked).reserved.work >= work


def test_several_calls_of_a_law_share_what_there_is() -> None:
    """What is light is not counted."""
    heavy = replace(lasting(0.1), held=LinearCost(0.0, 2**20))
    with limited_budget(Budget(memory=2**30, work=40 * SECOND)):
        assert affordable_rows(heavy) == 20
        assert affordable_rows(lasting(0.0)) > 1000


@pytest.mark.parametrize("ahead", [6.0, 9.0])
def test_what_lies_ahead_is_asked_about_before_anything_is_spent(ahead: float) -> None:
    """Samples that would be drawn for nothing are not drawn; what fits costs nothing yet."""
    granted = Budget(work=10.0, spent=2.0)
    if ahead > 8:
        with pytest.raises(BudgetExceeded, match="takes about"):
            granted.foresee("log_prob of many points", ahead)
    else:
        granted.foresee("log_prob of many points", ahead)
    assert granted.spent == 2


def test_batches_of_few_rows_are_ordinary_ones() -> None:
    """Where so few points fit that all may lie far out, those at the weights as given do not."""
    law = registry.find_law("map/inverse[latents]")
    near = [
        planned(
            law, subject(forward=lasting(take), inverse=lasting(take)), Settings()
        ).ordinary_points
        for take in (1e-5, 0.005, 0.3)
    ]
    assert near == [False, False, True]
