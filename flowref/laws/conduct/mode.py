"""Train and eval mode."""

from __future__ import annotations

import re

import numpy as np

from flowref.laws.common.cases import CONTEXT, MANY, NO_GRAD
from flowref.laws.common.outcomes import (
    agreement_residual,
    attempt,
    changed,
    finite_outcome_rows,
    flags,
    listed_names,
    outcome_gap,
    state_gap,
)
from flowref.laws.common.probes import (
    BATCHED,
    MAPS,
    POINTWISE,
    WITH_KERNELS,
    Outcomes,
    Probe,
    absent,
    agree,
    echo_of,
    lived,
    normalizing_probe,
    probes,
    random,
)
from flowref.laws.common.requirements import has_modules, not_estimator
from flowref.model import (
    ADVICE,
    EXACT,
    GIVEN,
    Array,
    Batch,
    Mapped,
    Residual,
    Undecidable,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Flow, Invertible, Living
from flowref.model.call import KERNELS, How
from flowref.model.steps import Eval, Modes, State, Train

# Rows that are also evaluated on their own, and twice in one batch.
ALONE, TWICE, LONG = 2, 4, 32
# Differences above rounding, after which randomness is tested.
APART = 1e-9
POINTED = (*POINTWISE, *BATCHED, *KERNELS)
MANNERS: tuple[How, ...] = ("no_grad", "inference_mode", "checkpoint")


# A module with deterministic evaluation.
has_steady_modes = has_modules & not_estimator


@law(
    "mode/protocol",
    tolerance=EXACT,
    effort=1,
    applies=has_modules,
    source="torch.nn.Module.train and .eval: both return the module; eval() is train(False) for all of its parts",
)
def protocol(flow: Living, batch: Batch) -> Residual:
    """train() and eval() can be called and return the module itself, and eval() reaches every
    submodule.
    """
    outcomes, error = attempt(flow.play, [Train(), Eval()])
    if error.startswith("NotImplementedError"):
        raise Unsupported(f"it documents that its mode is fixed ({error})")
    if error:
        return flags(True, len(batch.x), f"changing the mode raised {error}")
    training, evaluating = outcomes
    if raised := evaluating.raised or training.raised:
        return flags(True, len(batch.x), f"changing the mode raised {raised}")
    wrong = [
        name
        for name, out in (("train()", training), ("eval()", evaluating))
        if not out.returned_self
    ]
    # Not required of train(), since keeping a frozen part in eval mode by overriding train() is an
    # established idiom; nor of estimators, whose random parts may stay random in eval mode.
    stuck = not evaluating.recursed and not flow.certainty.estimate
    note = (
        f"{listed_names(wrong)} did not return the module"
        if wrong
        else "a submodule stayed in train mode after eval()"
    )
    return flags(bool(wrong) or stuck, len(batch.x), note)


@law(
    "same/manner[grad-modes]",
    key="mode/grad-modes-agree",
    effort=4,
    applies=not_estimator,
    source="a module's mode is its .training flag, and whether a graph is recorded is no part of it",
    pointwise=True,
    version=2,
)
def grad_modes_agree(flow: Flow, batch: Batch) -> Residual:
    """In eval mode, values and log-dets are the same with gradients, without, in inference mode
    and checkpointed, also those of random layers under one seed.
    """

    def outcomes(probe: Probe) -> Outcomes:
        plain = probe()
        for how in MANNERS:
            # A solver that differentiates inside its forward pass may raise without gradients,
            # which is not a wrong result.
            yield plain, attempt(probe, how=how)[0]

    note = "the result depends on whether gradients are recorded"
    probed = probes(flow, batch, calls=POINTED)
    return agree(probed, outcomes, note, "it runs under no other gradient mode")


@law(
    "same/manner[train-grad-modes]",
    key="mode/train-ignores-grad-mode",
    effort=4,
    applies=has_steady_modes,
    source="a training pass under no_grad (recalibrated statistics, re-entrant checkpoints) is a training pass",
)
def train_ignores_grad_mode(flow: Living, batch: Batch) -> Residual:
    """In train mode, values, log-dets and updated buffers are the same under no_grad as with
    gradients.
    """
    probe = normalizing_probe(flow, batch)
    refusal = f"{probe.name} refuses to run in train mode"
    _, plain, before = lived(flow, [Train(), probe.step(), State()], refusal)
    _, bare, after = lived(flow, [Train(), probe.step("no_grad"), State()], refusal)
    note = "a train-mode pass differs under no_grad"
    apart = state_gap(before, after)
    return agreement_residual([(plain, bare, probe.tolerance)], len(batch.x), note, apart)


@law(
    "same/train-mode[direction]",
    key="mode/not-a-direction",
    tolerance=EXACT,
    effort=4,
    applies=has_modules,
    source="a flow's direction is chosen by the method called; some implementations tie it to the training flag",
)
def not_a_direction(flow: Invertible, batch: Batch) -> Residual:
    """Train mode does not turn the forward map into the inverse map."""
    rows = len(batch.x)
    here = flow.forward(batch.x, batch.context)
    trained, _ = attempt(flow.forward.under, batch.x, batch.context, how="train")
    back, _ = attempt(flow.inverse, batch.x, batch.context)
    if trained is None:
        raise Unsupported("forward refuses to run in train mode")
    if back is None:
        # The inverse rejects points that forward accepts in train mode, so forward is not that map.
        return flags(False, rows)
    away, near = outcome_gap(here, trained, rows)[:, 0], outcome_gap(back, trained, rows)[:, 0]
    # A violation needs all points: one may be a fixed point, or belong to an involution.
    switched = bool((near < 1e-9).all() and (away > 1e-3).all())
    note = "in train mode forward returned what inverse returns in eval mode"
    return flags(
        switched,
        rows,
        note,
        decidable=finite_outcome_rows(here, rows) & finite_outcome_rows(back, rows),
    )


# Names of counters of a solver's function evaluations, which users may read.
EVALUATIONS = re.compile(
    r"(?i)(^|[._])(nfev?s?|(n|num|number)_?(of_?)?(f_?|function_?)?eval(uation)?s)$"
)


def tallies(name: str, before: Array, after: Array) -> bool:
    """Whether the changed tensor is a single counter of function evaluations."""
    whole = all(one.size == 1 and float(one.item()).is_integer() for one in (before, after))
    return whole and EVALUATIONS.search(name) is not None


@law(
    "effects/state[eval]",
    key="mode/eval-is-pure",
    version=2,
    tolerance=EXACT,
    effort=4,
    applies=has_modules,
    source="evaluation leaves a model as it was: running statistics belong to training",
    pointwise=True,
    cases=(NO_GRAD,),
)
def eval_is_pure(flow: Living, batch: Batch) -> Residual:
    """In eval mode no call changes a parameter or a buffer bitwise, except counters of a solver's
    function evaluations.
    """
    written: list[str] = []
    for probe in probes(flow, batch, complete=False, calls=WITH_KERNELS):
        _, before, _, after = flow.play([Eval(), State(), probe.step(), State()])
        written += [
            f"{name} (by {probe.name})"
            for name in changed(before, after)
            if not (name in before and name in after and tallies(name, before[name], after[name]))
        ]
    return absent(written, len(batch.x), "evaluation changed {}")


@law(
    "effects/state[mode]",
    key="mode/kept",
    tolerance=EXACT,
    effort=1,
    size=7,
    scales=GIVEN,
    applies=has_modules,
    source="a sampler that calls eval() and not train() again ends the training of dropout and batch normalization",
    pointwise=True,
)
def kept(flow: Living, batch: Batch) -> Residual:
    """A call leaves the mode of the object, and of every part of it, unchanged."""
    moved: list[str] = []
    for probe in probes(flow, batch, complete=False, calls=WITH_KERNELS):
        for mode in (Train(), Eval()):
            life, error = attempt(flow.play, [mode, Modes(), probe.step(), Modes()])
            if error:
                continue
            _, before, _, after = life
            names = sorted(name for name in before if after.get(name) != before[name])
            where = "train" if isinstance(mode, Train) else "eval"
            moved += [f"{name or 'the object'} (by {probe.name} in {where} mode)" for name in names]
    return absent(moved, len(batch.x), "a call changed the mode of {}")


# Advice: layers that initialize themselves from their first batch, in either mode, document that.
@law(
    "effects/state[first-call]",
    key="mode/first-call-in-eval",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    history="fresh",
    scales=GIVEN,
    applies=has_modules,
    source="a layer that initializes itself from data should do so in training, not from the first validation batch",
    pointwise=True,
)
def first_call_in_eval(flow: Living, batch: Batch) -> Residual:
    """In eval mode, the first call of a new object changes no parameter and no buffer."""
    refusal = "it refuses to be evaluated before training"
    probe, error = attempt(normalizing_probe, flow, batch)
    if probe is None:
        raise Unsupported(f"{refusal} ({error})")
    steps = [Eval(), State(), probe.step(), State()]
    _, before, _, after = lived(flow, steps, refusal, fresh=True)
    return absent(changed(before, after), len(batch.x), "the first evaluation changed {}")


@requires(not_estimator.otherwise, blocked=True)
def compares_rows(flow: Flow) -> bool:
    """Rows are independent, or members of an unordered set."""
    if not flow.promises.get("set"):
        not_estimator.demand(flow)
    return True


# Relative tolerance of the sum of two log-dets, and the hint for log-dets of batches.
SUM = 1e-5
OF_BATCH = (
    "its log-det is one number for a batch, the sum or the mean of those of its points: if that is meant, "
    "say ?ladj_form=batch"
)


@law(
    "same/rows",
    key="mode/rows-independent",
    version=2,
    effort=4,
    echo=echo_of(POINTWISE),
    applies=compares_rows,
    source="Ioffe and Szegedy 2015, section 3.1: at inference the output depends on the input alone",
    cases=(MANY, NO_GRAD, CONTEXT),
)
def rows_independent(flow: Flow, batch: Batch) -> Residual:
    """In eval mode, the result of a point depends neither on the rest of its batch nor on its
    place in it; the result of a member of a set (`?promises=set`) does not depend on its place.
    """
    rows = len(batch.x)
    order = np.random.default_rng(batch.seed).permutation(rows)
    a_set = bool(flow.promises.get("set"))
    arrangements = [order] if a_set else _arrangements(order, batch)
    columns, good = [], np.ones(rows, dtype=bool)
    for probe in probes(flow, batch, calls=POINTWISE):
        whole = probe()
        here = finite_outcome_rows(whole, rows)
        if probe.name in MAPS:
            good &= here
        found = [
            _rearranged(probe, whole, np.asarray(arrangement), required=position == 0)
            for position, arrangement in enumerate(arrangements)
        ]
        if np.nanmax(np.stack(found), initial=0.0) > APART and random(flow, probe):
            if a_set:
                raise Undecidable("it draws random numbers for each place")
            # Random numbers belong to the place in the batch: keep all points in place and change
            # one.
            found = [_influence_on_other_rows(probe, whole, int(order[0]))]
        columns += [np.where(here[:, None] | (probe.name in MAPS), one, 0.0) for one in found]
    value = np.stack(columns).max(0).max(1)
    depends = "its place in the set" if a_set else "its batch"
    note = f"a point's result depends on {depends}" if value[good].any() else ""
    if note and any(map(_sums_log_dets, probes(flow, batch, complete=False, calls=MAPS))):
        note = OF_BATCH
    return Residual(value, 1.0, decidable=good, note=note)


def _arrangements(order: Array, batch: Batch) -> list[Array]:
    """Index arrays: rows in another order, some twice, and some alone."""
    found = [np.concatenate([order, order[:TWICE]]), *([row] for row in order[-ALONE:])]
    # As many rows as the first axis of an event is long, for code that mixes up the two axes.
    size = batch.x.shape[1] if batch.x.ndim > 1 else 0
    if 1 < size <= LONG and size != len(order):
        found.append(np.resize(order, size))
    return [np.asarray(one) for one in found]


def _sums_log_dets(probe: Probe) -> bool:
    """Whether the single log-det of two points is the sum, or the mean, of their own."""
    last = len(probe.points) - 1
    asked = [attempt(probe.rows(np.asarray(rows)))[0] for rows in ([0], [last], [0, last])]
    log_dets = [np.asarray(one.ladj) for one in asked if one is not None and one.ladj is not None]
    if len(log_dets) < len(asked) or any(one.size != 1 for one in log_dets):
        return False
    first, second, both = (float(one.reshape(())) for one in log_dets)
    total = first + second
    near = SUM * (abs(first) + abs(second))
    # Two equal log-dets equal their mean, and zeros their sum, which decides nothing.
    means = abs(first - second) > near and abs(both - total / 2) <= near
    return means or (total != 0 and abs(both - total) <= near)


def _rearranged(probe: Probe, whole: Mapped, index: Array, required: bool) -> Array:
    """The differences of results for points in another order or number, ``(rows, 2)``."""
    rows = len(probe.points)
    some = probe.rows(index)
    # A rejected batch of one is reported by another law.
    part = some() if required else attempt(some)[0]
    column = np.zeros((rows, 2))
    if part is not None:
        ladj = _ladj_rows(whole, rows, index, part)
        expected = Mapped(np.asarray(whole.value)[index], ladj)
        got = Mapped(part.value, None if ladj is None else part.ladj)
        np.maximum.at(column, index, outcome_gap(expected, got, len(index), probe.tolerance))
    return column


def _influence_on_other_rows(probe: Probe, whole: Mapped, row: int) -> Array:
    """The change of the results of the other points when one point is replaced, ``(rows, 2)``."""
    rows = len(probe.points)
    index = np.arange(rows)
    index[row] = (row + 1) % rows
    other = probe.rows(index)()
    column = outcome_gap(whole, other, rows, probe.tolerance)
    column[row] = 0.0
    return column


def _ladj_rows(whole: Mapped, rows: int, index: Array, part: Mapped) -> Array | float | None:
    """The log-dets of some rows; None if the shape does not show which axis is the batch."""
    first, second = (
        np.asarray(whole.ladj, dtype=np.float64),
        np.asarray(part.ladj, dtype=np.float64),
    )
    if whole.ladj is None or part.ladj is None:
        return None
    if first.ndim == 0 and second.ndim == 0:
        return float(first)
    if first.ndim == 0 or second.ndim == 0 or len(first) != rows or len(second) != len(index):
        return None
    return first[index]
