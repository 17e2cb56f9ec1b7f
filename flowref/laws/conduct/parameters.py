"""Gradients with respect to parameters are finite and reach every parameter."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from flowref.laws.bijection.oracles import in_place
from flowref.laws.common.amounts import affordable_row_count, sparing
from flowref.laws.common.cases import CONTEXT
from flowref.laws.common.outcomes import attempt, flags, met_a_graph
from flowref.laws.common.probes import absent, data
from flowref.laws.common.requirements import as_built, has_parameters
from flowref.laws.conduct.autograd import without_gradient
from flowref.laws.conduct.state import not_fixed
from flowref.model import (
    ADVICE,
    CONTRACT,
    EXACT,
    GIVEN,
    NEARBY,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    draw_points,
    law,
)
from flowref.model.abilities import Invertible, Living, Pulling
from flowref.model.steps import Eval, Learn, Nudge, Step, Train, Trained

# Factor of points farther out, where tails are chosen by torch.where.
FARTHER = 4.0
# Perturbations and training steps after which a parameter without gradient counts as dead.
SEEDS, STEPS = 4, 3


@law(
    "gradient/finite",
    key="hygiene/gradients-finite",
    scanned=True,
    tolerance=EXACT,
    effort=4,
    scales=NEARBY,
    version=5,
    applies=has_parameters,
    source="a nan in the branch that torch.where does not choose is still a nan in the gradient (flowjax issue 239)",
    pointwise=True,
)
def gradients_finite(flow: Living, batch: Batch) -> Residual:
    """At ordinary points, and at points four times as far out, if the loss and its square are
    finite, its gradient is finite for every parameter; so is the gradient of the input at entries
    of zero or one, if differences converge.
    """
    # Random points: at a kink of the map a gradient may not exist.
    points = draw_points(flow.domain, batch.x.shape, np.random.default_rng(batch.seed))
    ordinary = Batch(points, batch.context, batch.seed)
    life, error = attempt(flow.play, [Learn(data(flow, ordinary), batch.context)])
    if error.startswith(("ValueError", "NotImplementedError")):
        raise Unsupported(f"it refuses to be trained in eval mode ({error})")
    if "modified by an inplace operation" in error:
        raise Unsupported("its loss overwrites what autograd needs to go back", blocked=True)
    if met_a_graph(error):
        raise Unsupported("its loss has a graph that it freed itself", blocked=True)
    if error:
        raise RuntimeError(error)
    (outcome,) = life
    (finite, broken), where = lost_in(flow, outcome), ""
    if not broken and flow.domain.kind == "real" and not sparing(flow):
        tails = Batch(FARTHER * points, batch.context, batch.seed)
        far, _ = attempt(lambda: flow.play([Learn(data(flow, tails), batch.context)]))
        if far is not None:
            (outcome,) = far
            broken = lost_in(flow, outcome)[1]
            where = f" at points {FARTHER:g} times as far out" * bool(broken)
    if not broken and (place := without_gradient(flow)):
        return absent(
            [place],
            len(batch.x),
            "autograd's derivative of {} is not finite, and differences converge",
        )
    note = f"the loss{where} is {outcome.loss:.4g}, and the gradient of {{}} is not finite"
    return absent(broken, len(batch.x), note, decidable=np.full(len(batch.x), finite))


def lost_in(flow: Living, outcome: Trained) -> tuple[bool, list[str]]:
    """Whether a loss should have gradients, and the parameters whose gradient is not finite."""
    # Derivatives may divide by squares, and overflow long before the loss does.
    finite = bool(abs(outcome.loss) < math.sqrt(np.finfo(flow.dtype).max))
    broken = [
        name
        for name, gradient in outcome.gradients.items()
        if finite and gradient is not None and not np.isfinite(gradient).all()
    ]
    return finite, broken


class LivingBothWays(Living, Invertible, Pulling, Protocol):
    """A trainable map with an inverse, both recorded by autograd."""


@law(
    "gradient/exists",
    tolerance=EXACT,
    effort=1,
    scales=GIVEN,
    applies=has_parameters,
    source="the output of a subnetwork was changed in place, and no coupling could be trained (FrEIA 08cc210)",
    pointwise=True,
)
def gradient_exists(flow: LivingBothWays, batch: Batch) -> Residual:
    """Autograd goes back through the map or through its inverse. One of them may write its coordinates
    into place, as an autoregressive solver does; a model of which both overwrite what autograd needs
    cannot be trained.
    """
    for which in ("forward", "inverse"):
        out, error = attempt(getattr(flow, which), batch.x, batch.context)
        if error:
            raise Unsupported(f"{which} raises, which map/finite reports")
        try:
            ones = np.ones(np.shape(out.value)), None
            _, error = attempt(flow.vjp, which, batch.x, batch.context, *ones)
        except Unsupported as refusal:
            if not in_place(refusal):
                raise
            continue
        if not error:
            return flags(False, len(batch.x))
        raise Unsupported(f"the backward pass of {which} raises {error}")
    note = "a value that the backward pass needs is overwritten, by forward and by inverse"
    return flags(True, len(batch.x), note)


# Advice, because healthy tensors without any gradient exist: weights that a mask empties for a
# single feature, the only logit of a softmax, the parameters of a base that the loss does not
# reach, a context network without context.
@law(
    "gradient/reaches-parameters",
    key="hygiene/no-dead-parameters",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    scales=GIVEN,
    applies=has_parameters,
    source="zero-initialized factors that multiply each other never learn (a dead coupling)",
    pointwise=True,
    cases=(CONTEXT,),
)
def no_dead_parameters(flow: Living, batch: Batch) -> Residual:
    """Every parameter tensor gets a nonzero gradient within a few steps and for some values of the
    others; the loss does not overwrite tensors that autograd needs.
    """
    step = Learn(data(flow, batch), batch.context)
    alive: set[str] = set()
    names: set[str] = set()
    overwritten: list[str] = []

    def train(*before: Step[Any]) -> None:
        life, error = attempt(flow.play, [*before, *([step] * STEPS)])
        if "modified by an inplace operation" in error:
            overwritten.append(error)
        for outcome in [] if error else life[len(before) :]:
            names.update(outcome.gradients)
            alive.update(name for name, g in outcome.gradients.items() if g is not None and g.any())

    # As built: zero-initialized outputs hide the layers behind them for one step, and dead pairs of
    # zeros for ever. In both modes, since some parameters matter in one only.
    modes: list[list[Step[Any]]] = [[Train()], [Eval()]] if flow.stateful else [[]]
    for mode in modes:
        train(*mode)
        if sparing(flow) and names and not names - alive:
            break
    if names - alive and not flow.promises.get("fixed"):
        # Tensors with zero gradient only for the given weights (units that are off) are exempt.
        for seed in range(SEEDS):
            train(Nudge(batch.seed + seed, 0.5))
    if overwritten and not names:
        note = f"no parameter ever received a gradient: the backward pass raises {overwritten[0]}"
        return flags(True, len(batch.x), note)
    if names - alive and flow.facts.optional_context:
        raise Unsupported("its context may reach more: see the case [context]", blocked=False)
    return absent(sorted(names - alive), len(batch.x), "{} never received a gradient")


# Training steps within which every parameter is reached, and the perturbation that tests whether an
# unreached parameter can be.
PATIENCE, FIRST, TOUCH, POINTS = 8, 2, 1e-3, 48
# A step that moves zeros without moving a large model far.
GENTLE = 1e-6
# The mean of the base in a second attempt.
OFF = 0.37
# Rounding of a zero gradient, as of a direction divided by its length, relative to the largest
# gradient.
RESIDUE = 1e-12


@law(
    "gradient/reaches-parameters[start]",
    key="conduct/no-dead-start",
    tolerance=EXACT,
    effort=1,
    history="fresh",
    scales=GIVEN,
    applies=has_parameters & not_fixed & as_built,
    version=2,
    source="of two zero-initialized factors neither gets a gradient, however long they are trained",
    pointwise=True,
)
def no_dead_start(flow: Living, batch: Batch) -> Residual:
    """As built, training reaches every parameter that it reaches after all parameters are moved by
    0.001.

    A zero-initialized last layer is reached in one step, and the layers behind it in two.
    """
    # Random points, enough of them to activate every unit.
    rng = np.random.default_rng(batch.seed)
    called = "log_prob" if "log_prob" in flow.calls else flow.normalizing
    count = affordable_row_count(flow, POINTS, 2, called, graphed=True)
    points = draw_points(flow.domain, (count, *flow.event_shape), rng)
    shape = flow.context_shape
    context = None if shape is None else rng.standard_normal((count, *shape))
    step = Learn(data(flow, Batch(points, context, batch.seed)), context)
    alive: set[str] = set()
    names: set[str] = set()
    astray = False
    modes: list[list[Step[Any]]] = [[Train()], [Eval()]] if flow.stateful else [[]]
    # Expensive flows take few steps first, which mostly reach everything.
    plans = [[*mode, *([step] * PATIENCE)] for mode in modes]
    if sparing(flow):
        plans.insert(0, [*modes[0], *([replace(step, rate=GENTLE)] * FIRST)])
    for plan in plans:
        mode = [one for one in plan if not isinstance(one, Learn)]
        life, error = attempt(flow.play, plan)
        for outcome in [] if error else life[len(mode) :]:
            if not np.isfinite(outcome.loss):
                # Longer steps may move a large model far: parameters reached before count.
                astray = True
                break
            names.update(outcome.gradients)
            alive.update(reached(outcome))
        if (sparing(flow) or astray) and names and not names - alive:
            break
    if astray and (not names or names - alive):
        where = "after a few steps of training" if names else "at ordinary points"
        raise Undecidable(f"its loss is not finite {where}")
    if not names:
        raise Unsupported("it refuses to be trained here")
    revived: set[str] = set()
    for mode in modes if names - alive else []:
        life, error = attempt(flow.play, [*mode, Nudge(batch.seed, TOUCH), step])
        revived |= set() if error else reached(life[-1], RESIDUE)
    dead = (names - alive) & revived
    for mode in modes if dead and called != "log_prob" else []:
        # If all images lie at the mean of the base, as with a zero scale, their gradient is zero.
        life, error = attempt(flow.play, [*mode, *([replace(step, center=OFF)] * PATIENCE)])
        for outcome in () if error else life[len(mode) :]:
            dead -= reached(outcome)
    note = f"{{}} got no gradient in {PATIENCE} steps as built, and gets one after a small perturbation"
    return absent(sorted(dead), len(batch.x), note)


def reached(outcome: Trained, share: float = 0.0) -> set[str]:
    """The parameters with a nonzero gradient, above this share of the largest one."""
    sizes = {
        name: float(np.abs(g).max(initial=0.0))
        for name, g in outcome.gradients.items()
        if g is not None
    }
    least = share * max((size for size in sizes.values() if np.isfinite(size)), default=0.0)
    return {name for name, size in sizes.items() if not size <= least}


@law(
    "gradient/reaches-parameters[every-step]",
    key="hygiene/all-parameters-used",
    force=CONTRACT,
    promise="ddp",
    tolerance=EXACT,
    effort=1,
    applies=has_parameters,
    source="torch.nn.parallel.DistributedDataParallel waits for the gradient of every parameter",
    pointwise=True,
)
def all_parameters_used(flow: Living, batch: Batch) -> Residual:
    """Every parameter takes part in every training step."""
    (outcome,) = flow.play([Learn(data(flow, batch), batch.context)])
    unused = [name for name, gradient in outcome.gradients.items() if gradient is None]
    return absent(unused, len(batch.x), "{} took no part")
