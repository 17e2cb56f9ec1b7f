"""Saving and casting with warm caches: values computed from old parameters are discarded."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowref.laws.common.amounts import planned
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.probes import (
    WITH_KERNELS,
    Probe,
    lived,
    normalizing_probe,
    probe_agreement_residual,
    probes,
)
from flowref.laws.common.requirements import any_batch, has_modules, in_double, repeatable
from flowref.laws.conduct.state import Steps, movable, nudge
from flowref.laws.conduct.training_batches import ROWS, ordinary_rows
from flowref.model import (
    EXACT,
    GIVEN,
    Array,
    Batch,
    Life,
    Residual,
    Undecidable,
    Unsupported,
    draw_points,
    law,
)
from flowref.model.abilities import Living
from flowref.model.steps import Cast, Eval, Restore, Rounded, Run, Save, State, Train

HINT = (
    "raise on such a batch, or bound its spread from below; if training never has one, add the "
    "promise varied-batches"
)
# The message if an ordinary batch after a degenerate one is not finite.
LOST = "makes the next ordinary batch come back not finite"


@law(
    "same/saved[restore]",
    key="state/restore-equals",
    effort=2,
    applies=movable,
    version=3,
    source="torch.nn.Module.load_state_dict writes into the parameters in place: what was computed from the old values must go",
    pointwise=True,
)
def restore_equals(flow: Living, batch: Batch) -> Residual:
    """After its parameters moved and calls were made, loading its saved state_dict makes an object
    return what it returned when it was saved: with and without gradients, saved in train mode and
    loaded in eval mode, or the other way round.
    """
    probed = probes(flow, batch, calls=WITH_KERNELS)
    asked: Steps = [probe.step() for probe in probed]
    # Caches are often read without gradients only.
    quiet: Steps = [probe.step("no_grad") for probe in probed]
    plain, error = attempt(flow.play, [Eval(), *asked, *quiet])
    if error:
        quiet, plain = [], flow.play([Eval(), *asked])
    moved = nudge(flow, batch)
    note = "after loading the saved state_dict into the same object the result differs"
    evaluated: Steps = [Eval(), *asked, Save(), Train(), moved, Restore(), Eval(), *asked]
    trained: Steps = [Train(), Save(), moved, Eval(), *asked, *quiet, Restore(), *asked, *quiet]

    def agrees(life: Life, runs: int) -> Residual:
        pairs = zip(probed * 2, plain[1 : 1 + runs], life[-runs:], strict=False)
        return probe_agreement_residual(pairs, len(batch.x), note)

    back = agrees(flow.play(evaluated), len(asked))
    forth = agrees(flow.play(trained), len(asked) + len(quiet))
    worse = np.asarray(forth.value) > np.asarray(back.value)
    return forth if worse.any() else back


@law(
    "same/saved[cast]",
    key="state/cast-and-back",
    effort=2,
    applies=has_modules & in_double & repeatable,
    source="torch.nn.Module.to casts parameters and buffers; a cache is neither",
    pointwise=True,
)
def cast_and_back(flow: Living, batch: Batch) -> Residual:
    """Cast to float32 and back after calls were made, an object returns what it returns with
    parameters and buffers rounded to float32.
    """
    probed = probes(flow, batch)
    asked = [probe.step() for probe in probed]
    plain: Steps = [Rounded("float32"), *asked]
    between = [Run(step.call, *step.inputs, how=step.how, draws=step.draws) for step in asked]
    there: Steps = [*asked, Cast("float32"), *between, Cast("float64"), *asked]
    first = flow.play(plain)[1:]
    life, error = attempt(flow.play, there)
    if error:  # objects that do not run in float32 may still be cast
        there = [*asked, Cast("float32"), Cast("float64"), *asked]
        life, error = attempt(flow.play, there)
    if error:
        raise Unsupported(f"it refuses to be cast ({error})")
    note = "after a cast to float32 and back the result differs"
    return probe_agreement_residual(
        zip(probed, first, life[-len(asked) :], strict=True), len(batch.x), note
    )


@law(
    "state/degenerate-batch",
    tolerance=EXACT,
    effort=1,
    size=ROWS,
    scales=GIVEN,
    applies=has_modules & repeatable & any_batch,
    version=2,
    source="a last batch of one row, a constant feature: a spread of zero, whose inverse outlives the batch",
)
def degenerate_batch(flow: Living, batch: Batch) -> Residual:
    """A train-mode batch of one row, of equal rows, or with a constant feature is rejected, or
    leaves every parameter, buffer and the next ordinary batch finite.
    """
    rows = len(batch.x)
    many = ordinary_rows(flow)
    ordinary = draw_points(
        flow.domain, (many, *flow.event_shape), np.random.default_rng(batch.seed)
    )
    context = None if batch.context is None else np.repeat(batch.context[:1], many, axis=0)
    # The normalizing call, at ordinary and at degenerate points.
    follows = normalizing_probe(flow, Batch(ordinary, context, batch.seed))
    found: dict[str, list[str]] = {}
    for name, points in degenerate(follows.points).items():
        spoiled = follows.at(points).rows(slice(len(points)))
        # Effects of a first batch recur with later ones, except for initialization.
        for fresh in planned(flow, (False, True), (True,)):
            start: Steps = [Train(), spoiled.step()]
            life, error = attempt(
                flow.play, [*start, State(), follows.step(), State(), Eval(), follows.step()], fresh
            )
            if error and attempt(flow.play, start, fresh)[1]:
                continue
            before = lived(flow, [Train(), State()], "it has no state", fresh)[-1]
            if life and (spoilt(before, life[2]) or spoilt(before, life[4])):
                alone, _ = attempt(flow.play, [Train(), follows.step(), State()], fresh)
                if alone and (lost := spoilt(before, alone[2])):
                    raise Undecidable(
                        f"an ordinary batch leaves {lost[0]} not finite already, as points outside a "
                        "domain do, which can be declared (?domain=)"
                    )
            wrong = f"lets an ordinary batch raise {error}" if error else ""
            if not error:
                wrong = _non_finite_remains(before, life[2], life[4], life[3].value, life[6].value)
                if wrong == LOST and ordinary_batch_finite(
                    flow, follows, fresh, (life[3], life[6])
                ):
                    wrong = ""
            if wrong:
                found.setdefault(wrong, []).append(name)
    messages = [
        f"a train batch {' or '.join(dict.fromkeys(names))} {wrong}"
        for wrong, names in found.items()
    ]
    return flags(bool(found), rows, "; ".join([*messages[:2], HINT]))


def _non_finite_remains(before: Any, after: Any, later: Any, trained: Array, used: Array) -> str:
    """A sentence about non-finite remains of a degenerate batch: in the state, at once and after
    an ordinary batch, and in the values of that batch, in train and in eval mode; empty if there
    are none.
    """
    names = [*spoilt(before, after), *spoilt(before, later)]
    broken = not np.isfinite(used).all()
    if names:
        for_good = ", for good" if names[0] in spoilt(before, later) else ""
        values = ", and so every value in eval mode" if broken else ""
        return f"leaves {names[0]} not finite{for_good}{values}"
    if broken or not np.isfinite(trained).all():
        return LOST
    return ""


def ordinary_batch_finite(flow: Living, follows: Probe, fresh: bool, outs: tuple[Any, Any]) -> bool:
    """Whether an ordinary batch is finite in train and eval mode wherever it is without the
    degenerate one; points outside the domain never are.
    """
    lost = [~np.isfinite(np.asarray(out.value, float)) for out in outs]
    if not any(one.any() for one in lost):
        return True
    alone, error = attempt(flow.play, [Train(), follows.step(), Eval(), follows.step()], fresh)
    if error:
        return True
    finite = [np.isfinite(np.asarray(out.value, float)) for out in (alone[1], alone[3])]
    return not any((gone & had).any() for gone, had in zip(lost, finite, strict=True))


def degenerate(points: Array) -> dict[str, Array]:
    """Batches of zero spread, by name. Scalar points have no feature to be constant."""
    found = {
        "of one row": points[:1],
        "of equal rows": np.repeat(points[:1], len(points), axis=0),
    }
    if points.ndim > 1:
        found["with a constant feature"] = points.copy()
        found["with a constant feature"][..., 0] = points[:1, ..., 0]
    return found


def spoilt(before: Any, after: Any) -> list[str]:
    """Names of tensors that were finite and no longer are."""
    floating = [name for name, a in after.items() if np.issubdtype(a.dtype, np.floating)]
    return [
        name
        for name in floating
        if not np.isfinite(after[name]).all()
        and (name not in before or np.isfinite(before[name]).all())
    ]
