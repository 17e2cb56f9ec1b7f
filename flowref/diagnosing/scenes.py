"""The points on which known bugs are tried: those of the case, fresh ones, and fresh ones with
other weights.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from flowref import loading
from flowref.checking.examples import Example
from flowref.checking.points import example_batch
from flowref.checking.replay import batch_of
from flowref.model import Batch, Condition, Counterexample, Law, Subject, Target

# Number of fresh points; scale and seed of the other weights.
FRESH = 15
OTHERS = ((0.3, 101), (0.1, 102))
# Largest event with a Jacobian; operations of a round trip up to which other weights are tried, and up
# to which the case's own are.
LARGEST, OPERATIONS, LONGEST = 64, 1500, 20_000


@dataclass(frozen=True)
class Scene:
    """One set of weights and points; the first ``cases`` rows are those of the recorded case."""

    subject: Subject
    batch: Batch
    cases: int


def scenes_of(target: Target, law: Law, case: Counterexample) -> Iterator[Scene]:
    """Yield the scenes of a case, its own weights first; none if the subject is expensive. Weights
    that cannot be loaded are skipped.
    """
    condition = replace(case.condition, dtype="float64", weights=loading.weights_digest(target))
    if case.x is None:
        return
    own = batch_of(case)
    subject = _loaded(target, condition, own)
    if subject.operations > LONGEST or subject.cost.heavy:
        return
    yield Scene(subject, _joined_batches(own, _fresh(subject, law, own.seed)), len(own.x))
    if not subject.trainable or subject.promises.get("fixed") or subject.operations > OPERATIONS:
        return
    for scale, seed in OTHERS:
        moved = replace(condition, scale=scale, seed=condition.seed + seed)
        other = _subject_with_weights(target, moved, own)
        if other is not None:
            yield Scene(other, _fresh(other, law, own.seed + seed), 0)


def scenes_of_part(target: Target, law: Law, case: Counterexample, part: str) -> Iterator[Scene]:
    """Yield the scenes of the part named by a verdict ("part 2 of 3 (Coupling)"), at the points
    with which it is reached.
    """
    named = re.match(r"part (\d+) of ", part)
    if named is None or case.x is None or case.condition.part:
        return
    index, own = int(named[1]) - 1, batch_of(case)
    x = own.x
    condition = replace(case.condition, dtype="float64", weights=loading.weights_digest(target))
    for layer in loading.load(target, condition).part_maps[:index]:
        x = layer(x, own.context).value
    inner = replace(case, x=x.tolist(), condition=replace(case.condition, part=(index,)))
    yield from scenes_of(target, law, inner)


def _loaded(target: Target, condition: Condition, own: Batch) -> Subject:
    subject = loading.load(target, condition)
    if not condition.part:
        return subject
    return subject.with_facts(event_shape=own.x.shape[1:], latent_shape=subject.latent_shape)


def _subject_with_weights(target: Target, condition: Condition, own: Batch) -> Subject | None:
    try:
        return _loaded(target, condition, own)
    except Exception:  # it cannot be built with these weights
        return None


def _fresh(subject: Subject, law: Law, seed: int) -> Batch:
    region = "domain" if law.points == "beyond" else law.points
    return example_batch(subject, Example(0.0, FRESH, "near", 1_000 + seed), region)


def _joined_batches(own: Batch, fresh: Batch) -> Batch:
    """The rows of both; contexts are dropped unless both have them."""
    x = np.concatenate([own.x.reshape(-1, *fresh.x.shape[1:]), fresh.x])
    if own.context is None or fresh.context is None:
        return Batch(x, None, own.seed)
    return Batch(x, np.concatenate([own.context, fresh.context]), own.seed)
