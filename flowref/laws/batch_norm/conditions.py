"""Conditions under which laws of batch normalizers apply."""

from __future__ import annotations

import numpy as np

from flowref.laws.batch_norm.formula import (
    NEAR,
    ROWS,
    STATISTICS,
    Affine,
    Parameters,
    apparent,
    fit_channel_line,
    is_flow,
)
from flowref.laws.batch_norm.normalizer import normal_batch, number_of_channels, output, settable
from flowref.laws.common.outcomes import attempt
from flowref.model import PARTS, RENORM, RUNNING, SAMPLE, Array, Requirement, Unsupported, requires
from flowref.model.abilities import BatchNormal
from flowref.model.steps import Assign, Eval, Normalize, Roles, Run, State, Train
from flowref.model.structure.line_fits import WIDE

# A spread for which eps is negligible, and the allowed relative change of the output with eps.
HUGE_SPREAD, UNMOVED = 1e8, 1e-6
EPS_VALUES, MOMENTUM_VALUES = (1e-3, 1e-2), (0.25, 0.5)

# Its shape, and what its statistics are of.
has_axes = Requirement(lambda flow: bool(flow.event_shape), "its events have no axes")
has_channels = Requirement(lambda flow: number_of_channels(flow) > 1, "it has one channel")
normalizes_by_the_batch = Requirement(
    lambda flow: flow.normalizer.statistics == "batch",
    "in train mode it normalizes by running averages, which other laws check",
)
normalizes_by_averages = Requirement(
    lambda flow: flow.normalizer.statistics == RUNNING,
    "in train mode it normalizes by the statistics of the batch alone",
)
keeps_averages = Requirement(
    lambda flow: flow.normalizer.statistics in (RUNNING, RENORM),
    "in train mode it normalizes by the statistics of the batch alone",
)
normalizes_batches = Requirement(
    lambda flow: flow.normalizer.statistics not in SAMPLE,
    "it normalizes each sample by itself, which other laws check",
)
normalizes_whole_batches = Requirement(
    lambda flow: flow.normalizer.statistics not in (PARTS, RENORM),
    "it normalizes parts of a batch by themselves, or renormalizes it, which other laws check",
)

# The known roles, and trained parameters.
keeps_statistics = Requirement(
    lambda flow: set(STATISTICS) <= set(flow.normalizer.roles),
    "it keeps no running statistics under a known name",
    blocked=True,
)
keeps_some_statistics = Requirement(
    lambda flow: not flow.promises.get("batch-statistics"),
    "it normalizes by the batch in both modes, and keeps no statistics",
)
has_no_statistics = Requirement(
    lambda flow: not set(STATISTICS) & set(flow.normalizer.roles), "it keeps running statistics"
)
has_no_other_statistics = Requirement(
    lambda flow: bool(flow.promises.get("batch-statistics")) and not unexplained(flow),
    "the statistics of its eval mode are not known",
)
has_size = Requirement(
    lambda flow: bool({*STATISTICS, "weight", "bias"} & set(flow.normalizer.roles)),
    "it holds nothing per channel, and takes any number of channels",
)
has_parameters = Requirement(lambda flow: flow.trainable, "it has no parameters")
has_momentum = Requirement(
    lambda flow: "momentum" in flow.normalizer.roles, "its momentum is not known", blocked=True
)
tells_eps = Requirement(  # a fixed map does not show it
    lambda flow: "eps" in flow.normalizer.roles, "its eps is not known", blocked=True
)
counts = Requirement(
    lambda flow: "num_batches" in flow.normalizer.roles, "it does not count batches"
)
averages_variances = Requirement(
    lambda flow: (
        "running_var" not in (forms := flow.normalizer.forms)
        or forms["running_var"].kind == "itself"
    ),
    "it averages another function of the variance, which another law checks",
)
stands_offsets = Requirement(
    lambda flow: flow.normalizer.declared.get("offsets") != "documented",
    "its documentation states the less accurate one-pass variance",
)

# Layers of flows.
has_inverse = Requirement(lambda flow: "inverse" in flow.calls, "it is no layer of a flow")
is_no_flow = Requirement(
    lambda flow: not is_flow(flow),
    "it is a layer of a flow, which nn.BatchNorm cannot stand in for",
)


@requires("it offers no log-det")
def offers_log_det(flow: BatchNormal) -> bool:
    """The normalizing call returns a log-det."""
    run = Run(flow.normalizer.call, normal_batch(flow, np.random.default_rng(0), 3))
    return flow.play([Eval(), run]).of(run).ladj is not None


@requires("in train mode it returns a constant, whatever the batch")
def is_not_constant(flow: BatchNormal) -> bool:
    """Some channel has a nonzero weight."""
    x = WIDE * normal_batch(flow, np.random.default_rng(1), ROWS)
    return (
        bool((np.abs(fit_channel_line(x, output(flow, x, Train())).slope) > 0).any())
        and number_of_channels(flow) > 0
    )


@requires("its parameters are not one number for each channel of axis 1", blocked=True)
def is_per_channel(flow: BatchNormal) -> bool:
    """Parameters and statistics are one number for each entry of the first axis of an event."""
    values = flow.play([Roles()])[0]
    for role in ("weight", "bias", *STATISTICS):
        if values.get(role) is not None and np.size(values[role]) != number_of_channels(flow):
            raise Unsupported(f"its {role} is not one number for each channel of axis 1")
    return True


@requires("in train mode it is the same fixed map as in eval mode")
def has_modes(flow: BatchNormal) -> bool:
    """Layers that are the same fixed map in both modes are used for fine-tuning."""
    x = 3 + 2 * normal_batch(flow, np.random.default_rng(0), 8)
    trained, error = attempt(flow.play, [Train(), Normalize(x), State()])
    evaluated, refusal = attempt(flow.play, [Eval(), Normalize(x), Normalize(x[:5]), State()])
    if error or refusal:
        return True  # the law itself will raise, which is then an error with a counterexample
    (_, y, after), (_, whole, part, before) = trained, evaluated
    fixed = np.array_equal(y, whole) and np.allclose(whole[:5], part, rtol=1e-9, atol=1e-12)
    same = set(before) == set(after) and all(
        np.array_equal(before[name], after[name]) for name in before
    )
    return not (fixed and same)


def train_is_eval_map(flow: BatchNormal) -> bool:
    """Whether train mode is the fixed map of eval mode."""
    return has_modes.unmet(flow) is not None


is_fixed = Requirement(train_is_eval_map, "train mode and eval mode are different maps")


def unexplained(flow: BatchNormal) -> list[str]:
    """Names of floating parameters and buffers without a known role."""
    roles = set(flow.normalizer.roles.values())
    return [
        name
        for name, value in flow.play([State()])[0].items()
        if np.issubdtype(value.dtype, np.floating)
        and not any(name == role or name.endswith(f".{role}") for role in roles)
    ]


@requires("its weight or its bias is not known", blocked=True)
def names_its_parameters(flow: BatchNormal) -> bool:
    """Weight and bias are known, or no tensor is left that could be one."""
    unnamed = unexplained(flow)
    if unnamed and not {"weight", "bias"} <= set(flow.normalizer.roles):
        raise Unsupported(f"its weight or its bias is not known (it holds {unnamed[0]})")
    return True


@requires(
    "its output is not scaled by its weight and shifted by its bias as they are", blocked=True
)
def uses_its_parameters(flow: BatchNormal) -> bool:
    """The tensors in the roles of weight and bias scale and shift the output, in train or in eval
    mode.
    """
    first, second = apparent(flow, -0.7, -0.3), apparent(flow, 1.1, -0.3)
    if first is None or second is None:
        return True  # the law itself will raise
    assigned, *measured = first
    if any(one.like(assigned) for one in measured):
        return True
    if not all(one.like(measured[0]) for one in measured):
        return True
    # Parameters may be stored in another form, each by itself; a bias that depends on the weight is
    # none.
    bias, moved = measured[0].bias, second[1].bias
    return not Affine(bias, bias).like(Affine(moved, moved))


def effective(role: str, values: tuple[float, float]) -> Requirement:
    """The requirement that a constant can be set to each of ``values``, and that this changes the
    output.
    """

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
    """The output of a narrow batch with a constant set, and the running mean after it. Raises
    `Unsupported` if it cannot be set.
    """
    x = NEAR**0.5 * normal_batch(flow, np.random.default_rng(2), 8)
    assign = Assign(role, value)
    if not settable(flow, assign):
        raise Unsupported(f"its {role} cannot be set")
    played, error = attempt(flow.play, [assign, Train(), Normalize(x), Roles()])
    if error:
        raise Unsupported(f"its {role} cannot be set to {value}")
    return played[2], Parameters.of(flow, played[3]).running_mean


@requires("its eps enters more than the variance", blocked=True)
def adds_eps_to_the_variance_alone(flow: BatchNormal) -> bool:
    """Some layers add eps to their weight as well, which keeps it from zero; a batch of huge
    spread shows that.
    """
    x = HUGE_SPREAD * normal_batch(flow, np.random.default_rng(3), 8)
    one, two = (output(flow, x, Assign("eps", value), Train()) for value in EPS_VALUES)
    with np.errstate(all="ignore"):
        return bool(np.abs(one - two).max() <= UNMOVED * np.abs(one).max())


channelled = normalizes_batches & normalizes_whole_batches & has_axes & is_per_channel
# Train mode and eval mode differ.
usual = channelled & has_modes


@requires("its framework has names of its own")
def follows_torch(flow: BatchNormal) -> bool:
    """No declaration names another framework's momentum."""
    return flow.normalizer.declared.get("momentum") != "keep"


@requires("its weight and its bias are not known")
def plainly_scaled(flow: BatchNormal) -> bool:
    """Nothing is trained, or weight and bias of a renormalizing layer are known."""
    return not flow.trainable or (
        flow.normalizer.statistics == RENORM and affine.unmet(flow) is None
    )


# In train mode it normalizes by the statistics of the batch.
normalizes = normalizes_batches & normalizes_by_the_batch & usual
tracks = usual & keeps_statistics
averages = tracks & averages_variances
# Its output is scaled by its weight and shifted by its bias.
affine = names_its_parameters & uses_its_parameters
understood = normalizes & affine
understood_and_tracks = tracks & affine
takes_eps = effective("eps", EPS_VALUES) & adds_eps_to_the_variance_alone
takes_momentum = effective("momentum", MOMENTUM_VALUES)
# Layers of flows, which may normalize by running averages.
layer = has_inverse & channelled & affine
tracked_layer = keeps_statistics & layer
