"""What must be true of a batch normalizer before its laws speak."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.affine import apparent, close, settable, unexplained
from flowref.laws.batch_norm.normalizer import (
    NARROW_SPREAD,
    STATISTICS,
    Parameters,
    channels,
    normal_batch,
    output,
)
from flowref.laws.common.outcomes import attempt
from flowref.model import PARTS, RENORM, SAMPLE, Array, Requirement, Unsupported, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, State, Train

# A spread beside which no eps counts, and how little the output may then move with eps.
HUGE_SPREAD, UNMOVED = 1e8, 1e-6


@requires("its events have no axes")
def has_axes(flow: BatchNormal) -> bool:
    """Channels lie on axis 1 of a batch."""
    return bool(flow.event_shape)


@requires("its parameters are not one number for each channel of axis 1", waits=True)
def is_per_channel(flow: BatchNormal) -> bool:
    """Parameters and statistics are one number for each entry of the first axis of an event."""
    step = Roles()
    values = flow.play([step]).of(step)
    for role in ("weight", "bias", *STATISTICS):
        if values.get(role) is not None and np.size(values[role]) != channels(flow):
            raise Unsupported(f"its {role} is not one number for each channel of axis 1")
    return True


@requires("in train mode it is the same fixed map as in eval mode")
def has_modes(flow: BatchNormal) -> bool:
    """Layers that are the same fixed map in both modes are used for fine-tuning; train mode means
    nothing to them.
    """
    x = 3 + 2 * normal_batch(flow, np.random.default_rng(0), 8)
    trained, error = attempt(flow.play, [Train(), Normalize(x), State()])
    evaluated, refusal = attempt(flow.play, [Eval(), Normalize(x), Normalize(x[:5]), State()])
    if error or refusal:
        return True  # the law itself runs into it, which is then an error with a counterexample
    (_, y, after), (_, whole, part, before) = trained, evaluated
    fixed = np.array_equal(y, whole) and np.allclose(whole[:5], part, rtol=1e-9, atol=1e-12)
    same = set(before) == set(after) and all(
        np.array_equal(before[name], after[name]) for name in before
    )
    return not (fixed and same)


@requires("in train mode it normalizes by running averages, which other laws are about")
def normalizes_by_the_batch(flow: BatchNormal) -> bool:
    """Train mode takes its statistics from the batch alone."""
    return flow.normalizer.statistics == "batch"


@requires("it keeps no running statistics under a known name", waits=True)
def keeps_statistics(flow: BatchNormal) -> bool:
    """Running mean and running variance play their roles."""
    return set(STATISTICS) <= set(flow.normalizer.roles)


@requires("its weight or its bias is not known", waits=True)
def names_its_parameters(flow: BatchNormal) -> bool:
    """Weight and bias are known, or no tensor is left that could be one."""
    unnamed = unexplained(flow)
    if unnamed and not {"weight", "bias"} <= set(flow.normalizer.roles):
        raise Unsupported(f"its weight or its bias is not known (it holds {unnamed[0]})")
    return True


@requires(
    "its output is not multiplied by its weight and moved by its bias as they are", waits=True
)
def uses_its_parameters(flow: BatchNormal) -> bool:
    """The parameters that play the roles of weight and bias are those of the map, in train or in eval
    mode.
    """
    first, second = apparent(flow, -0.7, -0.3), apparent(flow, 1.1, -0.3)
    if first is None or second is None:
        return True  # the law itself runs into the error
    if any(close(one, first.assigned) for one in first.measured) or not all(
        close(one, first.measured[0]) for one in first.measured
    ):
        return True
    # Parameters may be kept in another form, each in its own; a bias that the weight moves is no
    # form of the bias.
    bias, moved = first.measured[0].bias, second.measured[0].bias
    return not close((bias, bias), (moved, moved))


def effective(role: str, values: tuple[float, float]) -> Requirement:
    """A constant that can be set, and whose setting changes what a normalizer does."""

    @requires(f"its {role} is fixed when it is built")
    def has_effect(flow: BatchNormal) -> bool:
        if role not in flow.normalizer.roles:
            raise Unsupported(f"its {role} is not known")
        (one, first), (two, second) = (_response(flow, role, value) for value in values)
        if first is None or second is None:
            return not np.array_equal(one, two)
        return not (np.array_equal(one, two) and np.array_equal(first, second))

    return has_effect


def _response(flow: BatchNormal, role: str, value: float) -> tuple[Array, Array | None]:
    """The output of a narrow batch, and the running mean after it, with a constant set."""
    x = NARROW_SPREAD**0.5 * normal_batch(flow, np.random.default_rng(2), 8)
    assign = Assign(role, value)
    if not settable(flow, assign):
        raise Unsupported(f"its {role} cannot be set")
    played, error = attempt(flow.play, [assign, Train(), Normalize(x), Roles()])
    if error:
        raise Unsupported(f"its {role} cannot be set to {value}")
    _, _, y, roles = played
    return y, Parameters.of(flow, roles).running_mean


EPS_VALUES, MOMENTUM_VALUES = (1e-3, 1e-2), (0.25, 0.5)


@requires("its eps enters more than the variance", waits=True)
def adds_eps_to_the_variance_alone(flow: BatchNormal) -> bool:
    """Some add eps to their weight as well, so that it stays away from zero: seen where the spread
    of a batch is huge.
    """
    x = HUGE_SPREAD * normal_batch(flow, np.random.default_rng(3), 8)
    one, two = (output(flow, x, Assign("eps", value), Train()) for value in EPS_VALUES)
    with np.errstate(all="ignore"):
        return bool(np.abs(one - two).max() <= UNMOVED * np.abs(one).max())


@requires("it normalizes each sample by itself, which other laws are about")
def normalizes_batches(flow: BatchNormal) -> bool:
    """Statistics are of batches."""
    return flow.normalizer.statistics not in SAMPLE


@requires("it averages another function of the variance, which another law is about")
def averages_variances(flow: BatchNormal) -> bool:
    """What is kept is a variance, and no deviation or precision."""
    form = flow.normalizer.forms.get("running_var")
    return form is None or form.kind == "itself"


@requires(
    "it normalizes parts of a batch by themselves, or renormalizes it, which other laws are about"
)
def normalizes_whole_batches(flow: BatchNormal) -> bool:
    """Statistics are of the batch as a whole, and of no parts of it."""
    return flow.normalizer.statistics not in (PARTS, RENORM)


channelled = normalizes_batches & normalizes_whole_batches & has_axes & is_per_channel
# It does in train mode something else than in eval mode.
usual = channelled & has_modes
# It normalizes by the statistics of the batch in train mode.
normalizes = normalizes_batches & normalizes_by_the_batch & usual
tracks = usual & keeps_statistics
averages = tracks & averages_variances
# Its output is multiplied by its weight and moved by its bias.
affine = names_its_parameters & uses_its_parameters
understood = normalizes & affine
understood_and_tracks = tracks & affine
takes_eps = effective("eps", EPS_VALUES) & adds_eps_to_the_variance_alone
takes_momentum = effective("momentum", MOMENTUM_VALUES)
