"""Gradients of values and log-densities with respect to parameters are derivatives, as those of
log-dets are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from flowref.laws.common.cases import CONTEXT, INVERSE_IN_TRAINING, TRAIN
from flowref.laws.common.end_rounding import finite_beside
from flowref.laws.common.outcomes import attempt, finite_outcome_rows
from flowref.laws.common.probes import Probe, absent, data, probes
from flowref.laws.common.quotients import unit_directions
from flowref.laws.common.requirements import (
    has_parameters,
    in_double,
    true_gradients,
    weights_as_given,
)
from flowref.laws.common.slopes import Slope
from flowref.laws.conduct.autograd import differentiable
from flowref.laws.conduct.parameters import reached
from flowref.laws.conduct.state import moves_little, not_fixed
from flowref.model import (
    EXACT,
    NEARBY,
    Array,
    Batch,
    Mapped,
    Residual,
    Subject,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Flow, Living, Parametric, offers
from flowref.model.steps import Eval, Learn, Train, Weights

# Larger values, or log-densities with more nats per entry, decide nothing.
LARGEST, NATS = 1e3, 10.0
# The largest number of parameter tensors that are moved separately to name those of a violation.
NAMED = 16
# The step of one parameter; the change of values, relative to their size, that exceeds the step
# choice of a solver; and the relative tolerance of the ratio of changes.
SHORT, MOVED, ALIKE = 2.0**-5, 1e-3, 0.1


class LivingParametric(Parametric, Living, Protocol):
    """An object with named parameters."""


def training_probes(flow: Flow, batch: Batch) -> list[Probe]:
    """The calls that training differentiates: the normalizing one, and log_prob. Raises
    `Unsupported` if these iterate.
    """
    found = probes(flow, batch, complete=False, calls=("forward", "inverse", "log_prob"))
    names = {flow.normalizing, "log_prob"}
    usable = [one for one in found if one.name in names and not one.tolerance]
    if not usable:
        raise Unsupported("the calls that training differentiates iterate")
    return usable


def slope_of(flow: Parametric, probe: Probe, seed: int, only: str = "") -> tuple[Slope, Array]:
    """The derivative of the output of a call, values weighted in random directions, and the points
    it is taken over, ``(n,)``: those with values of ordinary size.
    """
    name, inputs = probe.name, probe.inputs
    out = flow.along(name, *inputs, seed, 0.0)
    rows, value = len(probe.points), _values_of(out)
    size = np.abs(value).reshape(rows, -1).max(1, initial=0.0)
    largest = max(LARGEST, NATS * probe.points[0].size) if value.ndim == 1 else LARGEST
    usable = (
        finite_outcome_rows(out, rows) & finite_beside(flow, name, inputs, seed) & (size < largest)
    )
    some = inputs if usable.all() else tuple(one if one is None else one[usable] for one in inputs)
    shape = value[usable].shape
    mapped = value.ndim > 1 and usable.any()
    weights = unit_directions(shape, seed + 1) if mapped else np.ones(shape)
    return Slope(flow, name, some, seed, _values_of, weights, name != "log_prob", only), usable


def _values_of(out: Mapped) -> Array:
    return np.asarray(out.value, dtype=np.float64)


def culprits(flow: LivingParametric, batch: Batch) -> dict[str, Any]:
    """The parameters whose own derivative is wrong, with both derivatives."""
    (weights,) = flow.play([Weights()])
    found: dict[str, Any] = {}
    for probe in training_probes(flow, batch):
        for name in list(weights)[:NAMED]:
            slope, usable = slope_of(flow, probe, batch.seed, name)
            if not usable.any():
                continue
            one = slope.compared()
            if one.decides and one.excess > 1:
                found[f"{probe.name} by {name}, autograd"] = one.slope
                found[f"{probe.name} by {name}, differences"] = one.estimate
    return found


def gradients_only_in_training(flow: Living, probe: Probe) -> bool:
    """Whether parameters have gradients in train mode, and none in eval mode."""
    learnt = []
    for mode in (Train(), Eval()):
        life, error = attempt(flow.play, [mode, Learn(*probe.inputs)])
        gradients = [] if error else life[-1].gradients.values()
        learnt.append(any(g is not None and g.any() for g in gradients))
    return learnt == [True, False]


def name_culprits(subject: Subject, point: Batch) -> tuple[dict[str, Any], str]:
    """Numbers for the report; the verdict does not depend on them."""
    return (culprits(subject, point) if offers(subject, LivingParametric) else {}), ""


def slopes(flow: Parametric, batch: Batch) -> Iterator[tuple[Probe, Slope, Array]]:
    """The derivatives of the calls that training differentiates, with their probes and points."""
    for probe in training_probes(flow, batch):
        slope, usable = slope_of(flow, probe, batch.seed)
        if usable.any():
            yield probe, slope, usable


def echo(flow: Parametric, batch: Batch) -> Callable[[], Array]:
    """The largest self-comparison noise of these derivatives; see `Slope.echo`."""
    each = [slope.echo(len(batch.x)) for _, slope, _ in slopes(flow, batch)]
    return lambda: np.max([np.abs(one()) for one in each], axis=0)


@law(
    "gradient/parameters[value]",
    key="conduct/parameter-gradient",
    effort=2,
    size=7,
    scales=NEARBY,
    local=False,
    applies=differentiable & weights_as_given & has_parameters & not_fixed,
    arbitrate=name_culprits,
    echo=echo,
    source="torch.autograd.gradcheck; a detached, rounded or .item() branch trains another function than it computes",
    pointwise=True,
    version=5,
    cases=(INVERSE_IN_TRAINING, TRAIN, CONTEXT),
)
def parameter_gradient(flow: Parametric, batch: Batch) -> Residual:
    """Autograd's derivative of the normalizing call and of log_prob with respect to the parameters
    is their derivative. If training uses log_prob, the normalizing call may record no graph.

    Measured along one direction of the space of all parameters, against differences.
    """
    judged, found = np.zeros(len(batch.x), dtype=bool), []
    for probe, slope, usable in slopes(flow, batch):
        compared = slope.compared()
        if (
            not compared.slope
            and offers(flow, LivingParametric)
            and gradients_only_in_training(flow, probe)
        ):
            raise Unsupported(
                "in eval mode it records nothing for its parameters, in training it does"
            )
        if compared.decides:
            judged |= usable
            found.append((probe.name, compared))
    if any(name == "log_prob" and compared.slope for name, compared in found):
        # If training uses a log-density, other calls may run without a graph.
        found = [one for one in found if one[0] == "log_prob" or one[1].slope]
    if not found:
        return Residual(np.zeros(len(judged)), decidable=judged)
    name, worst = max(found, key=lambda one: one[1].excess)
    idle = not any(one.slope or one.estimate for _, one in found)
    return worst.residual(judged, f"of {name}", trivial=idle)


@requires("its log-det is exact, and its gradients are compared with differences")
def is_estimated_or_adaptive(flow: Flow) -> bool:
    """Estimates and adaptive solvers are too rough for differences."""
    return flow.certainty.estimate


@law(
    "gradient/reaches-parameters[log-det-estimate]",
    key="conduct/parameters-reached",
    version=2,
    tolerance=EXACT,
    effort=1,
    size=7,
    scales=NEARBY,
    local=False,
    applies=in_double & true_gradients & is_estimated_or_adaptive & has_parameters & moves_little,
    source="a time, a scale or a net that is detached before a solver is never trained "
    "(Chen et al., arXiv:1806.07366, section 2: the end time has a gradient, too)",
    pointwise=True,
)
def parameters_reached(flow: LivingParametric, batch: Batch) -> Residual:
    """With an estimated log-det too, each parameter that moves the values of the normalizing call
    smoothly gets a gradient from a training step, in train or in eval mode.
    """
    rows, call = len(batch.x), flow.normalizing
    names: set[str] = set()
    alive: set[str] = set()
    step = Learn(data(flow, batch), batch.context)
    for mode in ([Train()], [Eval()]) if flow.stateful else ([],):
        life, refused = attempt(flow.play, [*mode, step])
        if not refused and np.isfinite(life[-1].loss):
            names |= set(life[-1].gradients)
            alive |= reached(life[-1])
    if not names:
        raise Unsupported("it refuses to be trained here", blocked=False)

    def at(t: float, name: str) -> Array:
        out = flow.along(call, batch.x, batch.context, batch.seed, t, name)
        return np.asarray(out.value, dtype=np.float64).reshape(rows, -1)

    lost, tried = [], sorted(names - alive)[:NAMED]
    for name in tried:
        here = at(0.0, name)
        short, long = at(SHORT, name) - here, at(2 * SHORT, name) - here
        moves = np.abs(long).max(1, initial=0.0)
        smooth = np.abs(long - 2 * short).max(1, initial=0.0) <= ALIKE * moves
        if ((moves > MOVED * (1 + np.abs(here).max(1, initial=0.0))) & smooth).any():
            lost.append(name)
    return absent(lost, rows, f"{{}} moves the values of {call}, and gets no gradient")
