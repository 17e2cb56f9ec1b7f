"""Defects of batch normalization in values and gradients, put into the scenarios that a healthy
subject plays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from flowref.model import Array, Subject, mutant

VECTOR, IMAGE = "torch:BatchNorm1d", "torch:BatchNorm2d"
Steps = Sequence[tuple[Any, ...]]
EPS = 1e-5


class Moment(NamedTuple):
    """Where in a scenario a step stands: its mode, the eps that was assigned last, and the manner
    of the call.
    """

    training: bool
    eps: float
    how: str
    step: tuple[Any, ...]


Change = Callable[[Moment, Any, float], Any]


def moments(steps: Steps) -> list[Moment]:
    """The moment of every step."""
    training, eps, found = False, EPS, []
    for step in steps:
        training = {"train": True, "eval": False}.get(step[0], training)
        eps = step[2] if step[:2] == ("assign", "eps") else eps
        how = step[2] if step[0] == "normalize" and len(step) > 2 else "plain"
        found.append(Moment(training, eps, how, step))
    return found


def changing(
    play: Callable[..., list[Any]],
    name: str,
    change: Change,
    size: float,
    steps: Steps,
    fresh: bool = False,
) -> list[Any]:
    """Play a scenario with the outcomes of the steps of one name changed."""
    pairs = zip(moments(steps), play(steps, fresh), strict=True)
    return [change(moment, out, size) if moment.step[0] == name else out for moment, out in pairs]


def at(subject: Subject, name: str, change: Change, size: float) -> Subject:
    """The subject with the outcomes of one step changed."""
    return replace(subject, play=partial(changing, subject.play, name, change, size))


def per_channel(values: Array, x: Array) -> Array:
    """Numbers per channel, shaped to be combined with a batch."""
    return np.asarray(values).reshape(1, -1, *[1] * (x.ndim - 2))


def axes(x: Array) -> tuple[int, ...]:
    """All axes but that of the channels."""
    return tuple(axis for axis in range(x.ndim) if axis != 1)


def mean(x: Array) -> Array:
    """The mean of each channel, shaped to be combined with a batch."""
    return np.asarray(x.mean(axes(x), keepdims=True))


def stretched(y: Array, factor: Any) -> Array:
    """An output stretched about its mean, which is its bias."""
    return np.asarray(mean(y) + (y - mean(y)) * factor)


def hat(x: Array) -> Array:
    """A batch standardized."""
    return np.asarray((x - mean(x)) / np.sqrt(x.var(axes(x), keepdims=True) + EPS))


def trained(change: Callable[[Array, Array, float], Array]) -> Change:
    """A change of the output in train mode, from input and output."""
    return lambda moment, y, size: change(moment.step[1], y, size) if moment.training else y


def evaluated(change: Callable[[Array, Array, float], Array]) -> Change:
    """A change of the output in eval mode."""
    return lambda moment, y, size: y if moment.training else change(moment.step[1], y, size)


def _louder(x: Array, y: Array, size: float) -> Array:
    return y * (1 + size)


def _unbiased(x: Array, y: Array, size: float) -> Array:
    values = x[:, 0].size
    return stretched(y, np.sqrt((values - 1) / values))


def _eps_outside(moment: Moment, y: Array, size: float) -> Array:
    x = moment.step[1]
    var = x.var(axes(x), keepdims=True)
    return (
        stretched(y, np.sqrt(var + moment.eps) / (np.sqrt(var) + moment.eps))
        if moment.training
        else y
    )


@mutant("batch-norm/variance-convention", host="reference:InvertibleBatchNorm[img]")
def one_less_and_unsaid(subject: Subject, size: float = 1.0) -> Subject:
    """A flow layer normalizes by the unbiased variance, and nothing says so."""
    return at(subject, "normalize", trained(_unbiased), size)


@mutant("batch-norm/matches-reference", host=IMAGE)
def divided_by_one_less(subject: Subject, size: float = 1.0) -> Subject:
    """The batch is normalized by its unbiased variance."""
    return at(subject, "normalize", trained(_unbiased), size)


@mutant("batch-norm/matches-reference", host=VECTOR)
def eps_outside_the_root(subject: Subject, size: float = 1.0) -> Subject:
    """The standard deviation plus eps takes the place of the root of the variance plus eps."""
    return at(subject, "normalize", _eps_outside, size)


@mutant("batch-norm/matches-reference", host=IMAGE, sizes=(1e-10, 1e-3))
def evaluation_off(subject: Subject, size: float = 1e-3) -> Subject:
    """In eval mode the output is too large."""
    return at(subject, "normalize", evaluated(_louder), size)


@mutant("batch-norm/moments", host=VECTOR, sizes=(1e-10, 1e-3))
def variance_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The output varies too much."""
    return at(subject, "normalize", trained(lambda x, y, s: stretched(y, 1 + s)), size)


@mutant("batch-norm/moments", host=VECTOR, sizes=(1e-10, 1e-3))
def mean_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The mean of the batch is not quite taken away."""
    return at(subject, "normalize", trained(lambda x, y, s: y + s), size)


@mutant("batch-norm/shape-of-distribution", host=VECTOR, sizes=(1e-8, 1e-2))
def made_more_gaussian(subject: Subject, size: float = 1e-2) -> Subject:
    """Large values are drawn in, so that the output looks more Gaussian."""
    return at(subject, "normalize", trained(lambda x, y, s: y - s * (y - mean(y)) ** 3), size)


def _difference_of_squares(x: Array, y: Array, size: float) -> Array:
    values = x.astype(np.float32)
    square = (values * values).mean(axes(x), keepdims=True, dtype=np.float32)
    middle = values.mean(axes(x), keepdims=True, dtype=np.float32)
    with np.errstate(all="ignore"):
        found = np.sqrt(square - middle * middle + np.float32(EPS))
        return stretched(y, np.sqrt(x.var(axes(x), keepdims=True) + EPS) / found)


@mutant("batch-norm/offset-stability", host=IMAGE)
def difference_of_squares(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is the mean of squares less the square of the mean."""
    return at(subject, "normalize", trained(_difference_of_squares), size)


@mutant("batch-norm/constant-channel", host=IMAGE)
def difference_of_equal_squares(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is the mean of squares less the square of the mean, which is negative for some
    constants.
    """
    return at(subject, "normalize", trained(_difference_of_squares), size)


@mutant("batch-norm/identity-recovery", host=IMAGE, sizes=(1e-10, 1e-3))
def identity_off(subject: Subject, size: float = 1e-3) -> Subject:
    """The output is too large."""
    return at(subject, "normalize", trained(_louder), size)


@mutant("batch-norm/two-values", host=VECTOR)
def eps_twice(subject: Subject, size: float = 1.0) -> Subject:
    """The constant is added twice."""

    def change(moment: Moment, y: Array, size: float) -> Array:
        var = moment.step[1].var(axes(y), keepdims=True)
        return (
            stretched(y, np.sqrt((var + moment.eps) / (var + 2 * moment.eps)))
            if moment.training
            else y
        )

    return at(subject, "normalize", change, size)


@mutant("batch-norm/scale-law", host=VECTOR)
def eps_outside(subject: Subject, size: float = 1.0) -> Subject:
    """The standard deviation plus eps takes the place of the root of the variance plus eps."""
    return at(subject, "normalize", _eps_outside, size)


@mutant("batch-norm/scale-law", host=IMAGE)
def sign_lost(subject: Subject, size: float = 1.0) -> Subject:
    """The output is that of the absolute values."""

    def change(x: Array, y: Array, size: float) -> Array:
        return stretched(y, -1.0) if x.reshape(-1)[0] < 0 else y

    return at(subject, "normalize", trained(change), size)


@mutant("batch-norm/shift-law", host=IMAGE, sizes=(1e-8, 1e-2))
def mean_stays(subject: Subject, size: float = 1e-2) -> Subject:
    """A part of the mean of the batch stays in the output."""
    return at(subject, "normalize", trained(lambda x, y, s: y + s * mean(x)), size)


@mutant("batch-norm/permutation-equivariance", host=VECTOR, sizes=(1e-9, 1e-2))
def first_sample_weighs_more(subject: Subject, size: float = 1e-2) -> Subject:
    """The first sample counts for more than the others."""
    return at(subject, "normalize", trained(lambda x, y, s: y - s * y[:1]), size)


@mutant("batch-norm/positions-are-samples", host=IMAGE, sizes=(1e-8, 1e-1))
def positions_apart(subject: Subject, size: float = 1e-1) -> Subject:
    """Each position is centered on its own."""
    return at(
        subject,
        "normalize",
        trained(lambda x, y, s: y - s * (y.mean(0, keepdims=True) - mean(y))),
        size,
    )


@mutant("batch-norm/channel-independence", host=IMAGE, sizes=(1e-8, 1e-2))
def channels_mixed(subject: Subject, size: float = 1e-2) -> Subject:
    """The mean over all channels is taken away as well."""
    return at(
        subject, "normalize", trained(lambda x, y, s: y - s * hat(x).mean(1, keepdims=True)), size
    )


@mutant("batch-norm/nan-containment", host=IMAGE)
def nan_everywhere(subject: Subject, size: float = 1.0) -> Subject:
    """Channels are told apart by a product with zeros, which a nan survives."""
    return at(subject, "normalize", trained(lambda x, y, s: y + 0 * x.sum()), size)


@mutant("batch-norm/eval-affine-map", host=IMAGE, sizes=(1e-8, 1e-2))
def batch_in_evaluation(subject: Subject, size: float = 1e-2) -> Subject:
    """The spread of the batch enters the output in eval mode."""
    return at(subject, "normalize", evaluated(lambda x, y, s: y * (1 + s * np.tanh(x.std()))), size)


def pulling(
    name: str, change: Callable[[Array, Array, Array, float], Array], training: bool = True
) -> Change:
    """A change of one gradient: from the input, the cotangent and the gradient."""

    def apply(moment: Moment, out: dict[str, Any], size: float) -> dict[str, Any]:
        if moment.training is not training:
            return out
        return {**out, name: change(moment.step[1], moment.step[2], out[name], size)}

    return apply


def _slope(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x.var(axes(x), keepdims=True) + EPS))


def _mean_held(x: Array, dy: Array, dx: Array, size: float) -> Array:
    return dx + size * mean(dy) * _slope(x)


def _variance_held(x: Array, dy: Array, dx: Array, size: float) -> Array:
    return dx + size * hat(x) * mean(dy * hat(x)) * _slope(x)


@mutant("batch-norm/backward-closed-form", host=IMAGE, sizes=(1e-9, 1e-2))
def variance_without_gradient(subject: Subject, size: float = 1e-2) -> Subject:
    """The variance is held constant in the backward pass."""
    return at(subject, "pullback", pulling("x", _variance_held), size)


@mutant("batch-norm/backward-closed-form", host=IMAGE, sizes=(1e-9, 1e-2))
def weight_gradient_off(subject: Subject, size: float = 1e-2) -> Subject:
    """The gradient of the weight is too large."""
    return at(subject, "pullback", pulling("weight", lambda x, dy, g, s: g * (1 + s)), size)


@mutant("batch-norm/gradient-sums-to-zero", host=IMAGE, sizes=(1e-9, 1e-2))
def mean_without_gradient(subject: Subject, size: float = 1e-2) -> Subject:
    """The mean is held constant in the backward pass."""
    return at(subject, "pullback", pulling("x", _mean_held), size)


@mutant("batch-norm/gradient-along-output", host=VECTOR, sizes=(1e-9, 1e-2))
def variance_held(subject: Subject, size: float = 1e-2) -> Subject:
    """The variance is held constant in the backward pass."""
    return at(subject, "pullback", pulling("x", _variance_held), size)


@mutant("batch-norm/bias-before-is-idle", host=IMAGE, sizes=(1e-9, 1.0))
def bias_blows_up(subject: Subject, size: float = 1.0) -> Subject:
    """The mean is held constant in the backward pass, as by a stop-gradient."""
    return at(subject, "pullback", pulling("x", _mean_held), size)


@mutant("batch-norm/weight-before-orthogonality", host=VECTOR, sizes=(1e-8, 1.0))
def weights_pulled_along(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is held constant in the backward pass."""
    return at(subject, "pullback", pulling("x", _variance_held), size)


@mutant("batch-norm/weight-before-scale", host=VECTOR, sizes=(1e-9, 1e-2))
def gradient_grows_with_input(subject: Subject, size: float = 1e-2) -> Subject:
    """The backward pass has a term that grows with the input, as of a weight decay inside."""
    return at(subject, "pullback", pulling("x", lambda x, dy, dx, s: dx * (1 + s * x.std())), size)


@mutant("batch-norm/weight-before-growth", host=VECTOR, sizes=(1e-6, 1.0))
def weights_shrink(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is held constant in the backward pass."""
    return at(subject, "pullback", pulling("x", _variance_held), size)


@mutant("batch-norm/eval-still-trains", host=IMAGE)
def frozen_parameters(subject: Subject, size: float = 1.0) -> Subject:
    """In eval mode the weight gets no gradient."""
    return at(
        subject, "pullback", pulling("weight", lambda x, dy, g, s: 0 * g, training=False), size
    )


@mutant("batch-norm/eval-still-trains", host=IMAGE, sizes=(1e-9, 1e-2))
def evaluation_gradient_off(subject: Subject, size: float = 1e-2) -> Subject:
    """In eval mode the gradient of the input is too large."""
    return at(
        subject, "pullback", pulling("x", lambda x, dy, dx, s: dx * (1 + s), training=False), size
    )


@mutant("batch-norm/without-affine", host=f"{IMAGE}[affine=False]", sizes=(1e-10, 1e-3))
def hidden_scale(subject: Subject, size: float = 1e-3) -> Subject:
    """A layer without weight still scales."""
    return at(subject, "normalize", trained(_louder), size)


@mutant(
    "batch-norm/without-tracking", host=f"{IMAGE}[track_running_stats=False]", sizes=(1e-10, 1e-3)
)
def evaluation_differs(subject: Subject, size: float = 1e-3) -> Subject:
    """A layer that keeps no statistics has others in eval mode."""
    return at(subject, "normalize", evaluated(_louder), size)
