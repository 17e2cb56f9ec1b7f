"""Initialization of couplings: the identity if promised, and trainable."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, reported, rows_max
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.requirements import as_built, has_parameters
from flowref.laws.coupling.parts import DINH, LivingCoupling, in_two_parts
from flowref.laws.coupling.structure import off_the_line, straight
from flowref.model import (
    CONTRACT,
    EXACT,
    GIVEN,
    Array,
    Batch,
    Residual,
    Undecidable,
    Unsupported,
    draw_points,
    law,
)
from flowref.model.abilities import Coupled
from flowref.model.steps import Learn, Run, State

# Steps of gradient descent after which a layer that starts at zero has passed gradients to all
# layers before it.
STEPS, SAMPLES, ODD = 3, 16, 5


@law(
    "coupling/identity-init",
    force=CONTRACT,
    promise="identity-init",
    applies=as_built,
    effort=2,
    scales=GIVEN,
    history="fresh",
    local=False,
    source="Kingma and Dhariwal 2018, Glow (arXiv:1807.03039), section 3.3: the last layer of a conditioner starts at zero",
)
def identity_init(flow: LivingCoupling, batch: Batch) -> Residual:
    """As built, the coupling is the identity, with log-det 0."""
    run = Run("forward", batch.x, batch.context)
    out = flow.play([run], fresh=True).of(run)
    ladj = reported(flow, out, len(batch.x))
    value = (np.asarray(out.value) - batch.x).reshape(len(batch.x), -1)
    return Residual(
        np.concatenate([value, ladj[:, None]], axis=1),
        scale=1 + rows_max(batch.x),
        observed={"x": batch.x, "f(x)": np.asarray(out.value), "log-det": ladj},
    )


class FirstSteps:
    """A few steps of gradient descent on a new coupling.

    ``names``: of the conditioner's parameters; ``dead``: those without a gradient; ``before`` and
    ``after``: the log-dets; ``free``: whether nothing in the conditioner is frozen or a buffer,
    which may fix the scale on purpose.
    """

    def __init__(self, flow: LivingCoupling, seed: int) -> None:
        x, context = training_points(flow, seed)
        probe, state = Run(flow.normalizing, x, context), State()
        steps = [probe, *[Learn(x, context)] * STEPS, probe, state]
        life, error = attempt(flow.play, steps, fresh=True)
        if error:
            raise Undecidable(f"it cannot be trained for a few steps: {error}")
        first, *learned, last, tensors = life
        self.before, self.after = (reported(flow, out, SAMPLES) for out in (first, last))
        gradients = [step.gradients for step in learned]
        prefix = f"{flow.coupling.conditioner}." if flow.coupling.conditioner else ""
        # A parameter without entries has nothing to learn.
        self.names = [
            name
            for name in gradients[0]
            if name.startswith(prefix) and np.size(tensors.get(name, 1.0))
        ]
        if not self.names:
            raise Unsupported("its conditioner has no trainable parameters")
        losses = [step.loss for step in learned]
        if not finite_rows(self.after[:, None]).all() or not np.isfinite(losses).all():
            raise Undecidable("the loss is not finite")
        self.dead = [
            name for name in self.names if not any(alive(step[name]) for step in gradients)
        ]
        self.free = {name for name in tensors if name.startswith(prefix)} <= set(gradients[0])


def training_points(flow: Coupled, seed: int) -> tuple[Array, Array | None]:
    """Ordinary points ``(n, *event)`` to train on, with contexts if needed."""
    rng = np.random.default_rng(seed)
    x = draw_points(flow.domain, (SAMPLES, *flow.event_shape), rng)
    if flow.context_shape is None:
        return x, None
    return x, rng.standard_normal((SAMPLES, *flow.context_shape))


def alive(gradient: Array | None) -> bool:
    """Whether some entry of a gradient is nonzero or nan; False without a gradient."""
    return gradient is not None and bool((np.nan_to_num(gradient, nan=1.0) != 0).any())


trainable = has_parameters & in_two_parts & as_built


@law(
    "gradient/reaches-parameters[conditioner-start]",
    key="coupling/init-not-dead",
    tolerance=EXACT,
    effort=2,
    scales=GIVEN,
    history="fresh",
    applies=trainable,
    source=f"{DINH}, section 4.1; where a learned scale and what it multiplies both start at zero, neither has a gradient",
)
def init_not_dead(flow: LivingCoupling, batch: Batch) -> Residual:
    """As built, the coupling can learn: three steps of gradient descent reach its conditioner, and
    the scales of an affine coupling.
    """
    trained = FirstSteps(flow, batch.seed)
    if len(trained.dead) == len(trained.names):
        return flags(
            True, len(batch.x), "no parameter of the conditioner has a gradient other than zero"
        )
    affine = flow.coupling.kind == "affine" and flow.coupling.copied and trained.free
    stuck = affine and np.array_equal(trained.before, trained.after)
    return flags(stuck, len(batch.x), "the scales do not move: their gradient is zero")


@law(
    "coupling/closed-form[odd-features]",
    key="coupling/odd-features",
    effort=4,
    local=False,
    rebuild="wide",
    features=ODD,
    source="halves of an odd number differ: the conditioner's inputs and outputs must be counted on the same side",
)
def odd_features(flow: Coupled, batch: Batch) -> Residual:
    r"""With an odd number of features the coupling raises, or has two nonempty parts and keeps its
    form: if affine, $y_b = s\,x_b + t$ with one slope per transformed entry and log-det $\sum
    \log|s|$.
    """
    if flow.event_shape != (ODD,):
        raise Unsupported("it is not one of vectors")
    if len(set(flow.coupling.kept)) < 2:
        return flags(True, len(batch.x), "one of the parts is empty")
    if straight(flow):
        return off_the_line(flow, batch)
    out = flow.forward(batch.x, batch.context)
    if np.shape(out.value) != batch.x.shape:
        return flags(True, len(batch.x), f"an event comes out with shape {np.shape(out.value)[1:]}")
    ladj = reported(flow, out, len(batch.x))
    return flags(False, len(batch.x), decidable=finite_rows(out.value, ladj))
