"""What is drawn: weights, number of points and their reach. A fixed schedule first, then choices of
Hypothesis from small finite sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

REACHES = ("near", "wide", "far")
BATCHES = (1, 2, 3, 7, 16, 48)
SEEDS = tuple(range(1000))


@dataclass(frozen=True, order=True)
class Example:
    """One batch to measure: parameter perturbation, number of points, how far out they lie, seed,
    build and whether it was trained.

    ``build`` other than 0 is built from another random state, since some objects are wrong for some
    initial values only (a matrix with negative determinant).
    """

    scale: float
    batch: int
    reach: str
    seed: int
    build: int = 0
    trained: bool = False


# The first examples of every law, in this order; Hypothesis draws the rest.
SCHEDULE = (
    Example(0.0, 48, "wide", 1),
    Example(0.3, 48, "wide", 3),
    Example(0.0, 1, "near", 2),
    Example(1.0, 48, "wide", 4),
    Example(0.1, 3, "near", 5),
    Example(0.0, 48, "far", 6, build=1),
    Example(3.0, 48, "wide", 7),
    Example(1.0, 1, "wide", 8),
    Example(0.3, 16, "far", 9),
    Example(0.0, 7, "near", 10, build=2),
)

# The last example of a trainable subject.
TRAINED = Example(0.0, 48, "wide", 11, trained=True)

# Tried if no perturbed weights could be judged: wide and deep nets saturate at a tenth of the usual
# perturbation, and their unperturbed last layers are often zero. The largest comes first, since errors
# grow at least with its square.
GENTLE = (
    Example(0.1, 48, "near", 14),
    Example(0.03, 48, "near", 12),
    Example(0.01, 48, "near", 13),
)


class PlainProvider(providers.HypothesisProvider):
    """Hypothesis's generator without the constants that it collects from imported modules.

    Those depend on what a process imported so far, so that the same seed would draw differently in
    two processes.
    """

    def _maybe_draw_constant(self, *args: Any, **kwargs: Any) -> None:
        return None


providers.AVAILABLE_PROVIDERS.setdefault("flowref", f"{__name__}.PlainProvider")


def _nearer(example: Example) -> Example:
    """The example with ordinary points if the weights are unperturbed."""
    return example if example.scale else replace(example, reach="near")


def explore(
    scales: Sequence[float],
    largest: int,
    effort: int,
    root_seed: int,
    visit: Callable[[Example], None],
    first: float | None = None,
    near: bool = False,
) -> None:
    """Call ``visit`` with ``effort`` examples of at most ``largest`` points: the schedule, then
    Hypothesis draws.

    ``first``: the perturbation that comes first, since it may be the only one measured; it gets an
    example of its own if the schedule has none so small. ``near``: unperturbed weights are measured
    at ordinary points. ``visit`` may raise to stop, and is then called again with the same example.
    """
    planned = [
        replace(example, batch=min(example.batch, largest))
        for example in SCHEDULE
        if example.scale in scales
    ]
    if first and first < max(scales) and all(example.scale != first for example in planned):
        planned.insert(0, replace(GENTLE[0], scale=first, batch=min(GENTLE[0].batch, largest)))
    planned = list(dict.fromkeys(planned))[:effort]
    if near:
        planned = [_nearer(example) for example in planned]
    for example in sorted(
        planned,
        key=lambda example: (
            example.scale != first and first is not None,
            near and example.reach != "near",
        ),
    ):
        visit(example)
    remaining = effort - len(planned)
    if remaining <= 0:
        return
    examples = st.builds(
        Example,
        st.sampled_from(scales),
        st.sampled_from([size for size in BATCHES if size <= largest]),
        st.sampled_from(REACHES),
        st.sampled_from(SEEDS),
    )

    def examine(example: Example) -> None:
        visit(example)

    configured = settings(
        max_examples=remaining,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        backend="flowref",
    )
    seed(root_seed)(configured(given(examples)(examine)))()
