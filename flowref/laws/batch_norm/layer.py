"""What laws have to know of a batch normalizer before they speak; each condition returns a reason
not to, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flowref.laws.batch_norm.oracle import (
    NARROW_SPREAD,
    WIDE_SPREAD,
    Steps,
    channels,
    held,
    moments,
    ordinary,
    per_channel,
    play,
    spec,
)
from flowref.laws.common.outcomes import attempt
from flowref.model import Array, Subject
from flowref.model.abilities import Flow
from flowref.model.steps import Assign, Eval, Normalize, Roles, State, Train

Affine = tuple[Array, Array]
# How near an effective scale or shift must come to the parameter that is said to be it.
NEAR = 0.05
# A spread beside which no eps counts, and how little the output may then move with eps.
HUGE_SPREAD, UNMOVED = 1e8, 1e-6


def normalizes(flow: Flow) -> str | None:
    """A normalizer of channels on axis 1 that uses the statistics of the batch in train mode."""
    if spec(flow).statistics != "batch":
        return "in train mode it normalizes by running averages, of which other laws speak"
    return usual(flow)


def usual(flow: Flow) -> str | None:
    """A normalizer of channels on axis 1 that does in train mode something else than in eval mode."""
    return channelled(flow) or frozen(flow)


def channelled(flow: Flow) -> str | None:
    """What is held per channel is held for the first axis of an event."""
    if not flow.event_shape:
        return "its events have no axes"
    found = play(flow, [Roles()])[0]
    for role in ("weight", "bias", "running_mean", "running_var"):
        if found.get(role) is not None and np.size(found[role]) != channels(flow):
            return f"its {role} is not one number for each channel of axis 1"
    return None


def frozen(flow: Flow) -> str | None:
    """Layers that are the same fixed map in both modes are used for fine-tuning; train mode means
    nothing to them.
    """
    rng = np.random.default_rng(0)
    x = 3 + 2 * ordinary(flow, rng, 8)
    trained, error = attempt(play, flow, [Train(), Normalize(x), State()])
    calm, refusal = attempt(play, flow, [Eval(), Normalize(x), Normalize(x[:5]), State()])
    if error or refusal:
        return None  # the law itself runs into it, which is then an error with a counterexample
    (_, y, after), (_, whole, part, before) = trained, calm
    fixed = np.array_equal(y, whole) and np.allclose(whole[:5], part, rtol=1e-9, atol=1e-12)
    same = set(before) == set(after) and all(
        np.array_equal(before[name], after[name]) for name in before
    )
    return "in train mode it is the same fixed map as in eval mode" if fixed and same else None


def tracks(flow: Flow) -> str | None:
    """A normalizer that keeps running statistics."""
    reason = usual(flow)
    if reason is None and not {"running_mean", "running_var"} <= set(spec(flow).roles):
        reason = "it keeps no running statistics under a known name"
    return reason


def understood(flow: Flow) -> str | None:
    """A normalizer whose weight and bias are known, and are what its output is multiplied by and
    moved by.
    """
    return normalizes(flow) or affine(flow)


def understood_and_tracks(flow: Flow) -> str | None:
    """Both."""
    return tracks(flow) or affine(flow)


def affine(flow: Flow) -> str | None:
    """The parameters that are said to be weight and bias are those of the map, in train or in eval
    mode.
    """
    known, unnamed = spec(flow).roles, unexplained(flow)
    if unnamed and not {"weight", "bias"} <= set(known):
        return f"its weight or its bias is not known (it holds {unnamed[0]})"
    found = [apparent(flow, -0.7, -0.3), apparent(flow, 1.1, -0.3)]
    if found[0] is None or found[1] is None:
        return None  # the law itself runs into the error
    (wanted, seen), (_, others) = found[0], found[1]
    if any(close(one, wanted) for one in seen) or not all(close(one, seen[0]) for one in seen):
        return None
    # Parameters may be kept in another form, each in its own; a bias that the weight moves is no
    # form of the bias.
    if not close((seen[0][1], seen[0][1]), (others[0][1], others[0][1])):
        return None
    return "its output is not multiplied by its weight and moved by its bias as they are"


def apparent(flow: Flow, low: float, shift: float) -> tuple[Affine, list[Affine]] | None:
    """Weight and bias as held, after they were set where that is possible, and as they appear in
    train and in eval mode; None where a call raises.
    """
    x, count = ordinary(flow, np.random.default_rng(1), 64), channels(flow)
    steps: Steps = []
    for role, start in (("weight", low), ("bias", shift)):
        step = Assign(role, start + 1.3 * np.arange(count))
        if role in spec(flow).roles and not refused(flow, step):
            steps.append(step)
    begin: Steps = [*steps, Roles()]
    trained, error = attempt(play, flow, [*begin, Train(), Normalize(WIDE_SPREAD * x)])
    if error:
        return None
    here = held(trained[len(steps)])
    mean, var = moments(WIDE_SPREAD * x)
    found = [fitted(WIDE_SPREAD * x, trained[-1], mean, np.sqrt(var))]
    if here.running_mean is not None and here.running_var is not None:
        calm, error = attempt(play, flow, [*begin, Eval(), Normalize(x)])
        if error:
            return None
        found.append(
            fitted(
                x,
                calm[-1],
                here.running_mean,
                np.sqrt(np.abs(here.running_var) + (here.eps or 0.0)),
            )
        )
    return (here.scale(count), here.shift(count)), found


def refused(flow: Flow, step: tuple[Any, ...]) -> bool:
    """Whether an attribute cannot be set."""
    try:
        play(flow, [step])
    except Exception:  # a property, or a value computed from something else
        return True
    return False


def fitted(x: Array, y: Array, mean: Array, scale: Array) -> Affine:
    """Weight and bias of the map per channel that a batch went through, relative to a mean and a
    standard deviation.
    """
    if np.shape(y) != np.shape(x):
        return np.full(len(mean), np.nan), np.full(len(mean), np.nan)
    given, got = per_channel(x), per_channel(y)
    center, level = given.mean(1), got.mean(1)
    moved = given - center[:, None]
    slope = (moved * got).sum(1) / (moved**2).sum(1)
    shift = level + slope * (mean - center)
    return np.asarray(slope * scale, dtype=np.float64), np.asarray(shift, dtype=np.float64)


def close(one: Affine, other: Affine) -> bool:
    """Whether two pairs of weight and bias agree but for conventions of the variance."""
    size = 0.05 + np.abs(other[0])
    return all(bool((np.abs(a - b) <= NEAR * size).all()) for a, b in zip(one, other, strict=True))


def unexplained(flow: Flow) -> list[str]:
    """Names of floating parameters and buffers that no role names."""
    known = set(spec(flow).roles.values())
    state = play(flow, [State()])[0]
    floating = [
        name for name, value in state.items() if np.issubdtype(np.asarray(value).dtype, np.floating)
    ]
    return [
        name
        for name in floating
        if not any(name == role or name.endswith(f".{role}") for role in known)
    ]


def effective(
    role: str, values: tuple[Any, Any], mode: str = "train"
) -> Callable[[Subject], str | None]:
    """A constant that can be set, and whose setting changes what a normalizer does."""

    def applies(flow: Flow) -> str | None:
        if role not in spec(flow).roles:
            return f"its {role} is not known"
        x = NARROW_SPREAD**0.5 * ordinary(flow, np.random.default_rng(2), 8)
        outcomes = []
        for value in values:
            step = Assign(role, value)
            if refused(flow, step):
                return f"its {role} cannot be set"
            played, error = attempt(play, flow, [step, (mode,), Normalize(x), Roles()])
            if error:
                return f"its {role} cannot be set to {value}"
            found = held(played[3])
            outcomes.append((played[2], found.running_mean))
        (one, first), (two, second) = outcomes
        if np.array_equal(one, two) and (
            first is None or second is None or np.array_equal(first, second)
        ):
            return f"its {role} is fixed when it is built"
        return enters_weight(flow, role, values) if role == "eps" else None

    return applies


def enters_weight(flow: Flow, role: str, values: tuple[Any, Any]) -> str | None:
    """Some add eps to their weight as well, so that it stays away from zero: seen where the spread
    of a batch is huge.
    """
    x = HUGE_SPREAD * ordinary(flow, np.random.default_rng(3), 8)
    one, two = (play(flow, [Assign(role, value), Train(), Normalize(x)])[-1] for value in values)
    with np.errstate(all="ignore"):
        same = np.abs(one - two).max() <= UNMOVED * np.abs(one).max()
    return None if same else f"its {role} enters more than the variance"


def both(*reasons: Callable[[Subject], str | None]) -> Callable[[Subject], str | None]:
    """The first reason that any of several conditions gives."""

    def applies(flow: Flow) -> str | None:
        return next((found for found in (reason(flow) for reason in reasons) if found), None)

    return applies
