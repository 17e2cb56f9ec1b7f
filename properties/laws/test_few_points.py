"""Laws of large models say what few points, and few steps, already decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flowref import loading, registry
from flowref.laws.bijection.log_det_by_differences import small
from flowref.laws.conduct.parameters import no_dead_start
from flowref.laws.coupling.stack import ENOUGH, stack_transforms_all
from flowref.loading.call_probes import refusing
from flowref.model import REAL, UNCOUNTED, Array, Batch, Mapped, Support, Undecidable
from flowref.model.steps import Learn, Trained

SIZE = 4


def mixing(matrix: Array) -> Any:
    """A map of which every point has this Jacobian."""
    return SimpleNamespace(
        jacobian=lambda which, x, context: np.repeat(matrix[None], len(x), 0), promises={}
    )


def test_a_dependence_that_one_point_shows_is_there() -> None:
    """Where every entry depends on others at two points, more points could not take that back."""
    residual = stack_transforms_all.measure(
        mixing(np.ones((SIZE, SIZE))), Batch(np.ones((2, SIZE)), None, 0)
    )
    assert not residual.per_row().any()


@pytest.mark.parametrize("points", [2, ENOUGH])
def test_an_entry_alone_needs_many_points(points: int) -> None:
    """An entry that seems to depend on itself alone does so at all of many points."""
    flow, batch = mixing(np.eye(SIZE)), Batch(np.ones((points, SIZE)), None, 0)
    if points < ENOUGH:
        with pytest.raises(Undecidable, match="too few points"):
            stack_transforms_all.measure(flow, batch)
    else:
        assert stack_transforms_all.measure(flow, batch).per_row().all()


def learning(losses: Sequence[float], reached: Sequence[str]) -> Any:
    """A flow with two parameters whose training goes like this, whatever is tried."""

    def play(steps: Sequence[Any], fresh: bool = False) -> list[Any]:
        gradients = {name: np.ones(1) * (name in reached) for name in ("weight", "bias")}
        made = iter([*losses, *[losses[-1]] * len(steps)])
        return [
            Trained(next(made), gradients) if isinstance(step, Learn) else None for step in steps
        ]

    return SimpleNamespace(
        play=play,
        calls={"forward": None},
        normalizing="forward",
        domain=Support.parse(REAL),
        event_shape=(SIZE,),
        context_shape=None,
        stateful=True,
        facts=SimpleNamespace(cost=UNCOUNTED),
    )


BATCH = Batch(np.ones((2, SIZE)), None, 0)


def test_what_was_reached_before_training_went_astray_counts() -> None:
    """A loss that is not finite after steps that are too long takes nothing back."""
    residual = no_dead_start.measure(learning([1.0, math.inf], ["weight", "bias"]), BATCH)
    assert not residual.per_row().any()


@pytest.mark.parametrize(
    ("losses", "said"),
    [([1.0, math.inf], "after a few steps of training"), ([math.nan], "at ordinary points")],
)
def test_training_that_went_astray_accuses_nobody(losses: list[float], said: str) -> None:
    """A parameter that was not reached until then may be reached by shorter steps."""
    with pytest.raises(Undecidable, match=said):
        no_dead_start.measure(learning(losses, ["weight"]), BATCH)


def test_maps_that_autograd_differentiates_wait_for_no_differences() -> None:
    """At any size: their log-det is the business of another law."""
    target = registry.parse_target("nflows:AffineCouplingTransform?features=160")
    silence = small.unmet(loading.load(target))
    assert silence is not None
    assert not silence.blocked
    assert "autograd" in silence.reason


def test_whether_an_ability_raises_is_known_once_it_does_not() -> None:
    """Calls that may be dear are not made after one that returned."""
    asked: list[int] = []

    def inverse(y: Array, context: Array | None) -> Mapped:
        asked.append(len(y))
        if len(y) > 1:
            raise ValueError("one at a time")
        return Mapped(y, np.zeros(len(y)))

    flow: Any = SimpleNamespace(
        domain=Support.parse(REAL),
        event_shape=(SIZE,),
        context_shape=None,
        forward=lambda x, context: Mapped(x, np.zeros(len(x))),
        inverse=inverse,
        sample=None,
        facts=SimpleNamespace(cost=UNCOUNTED),
    )
    assert not refusing(flow)
    assert asked == [3, 1]
