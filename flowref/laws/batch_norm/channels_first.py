"""A view of a batch normalizer with its channels on axis 1, which its laws measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import SAMPLE, Array, Life, Mapped, Shape
from flowref.model.steps import Normalize, Pullback, Pulled, Run, Step

FIRST = (0,)


def channels_first(flow: Any) -> Any:
    """The subject with its channels on axis 1; the subject itself if they are there."""
    normalizer = flow.facts.normalizer
    if normalizer is None or normalizer.statistics in SAMPLE:
        return flow
    channel, shape = tuple(normalizer.channel), flow.event_shape
    if channel == FIRST or not shape:
        return flow
    view = partial(_played, flow.play, channel, shape)
    facts = replace(
        flow.facts,
        event_shape=channels_to_front(np.zeros((1, *shape)), channel).shape[1:],
        normalizer=replace(normalizer, channel=FIRST),
    )
    return replace(flow, play=view, facts=facts)


def channels_to_front(x: Array, channel: Sequence[int]) -> Array:
    """A batch ``(n, channels, *positions)`` with all channel axes merged into axis 1."""
    front = [axis + 1 for axis in channel]
    others = [axis for axis in range(1, x.ndim) if axis not in front]
    moved = x.transpose(0, *front, *others)
    return np.ascontiguousarray(moved.reshape(len(x), -1, *moved.shape[1 + len(front) :]))


def back(x: Any, channel: Sequence[int], shape: Shape) -> Array:
    """The inverse of `channels_to_front`; a batch of another rank keeps the order of its axes,
    with channels last if they are last.
    """
    x = np.asarray(x)
    if len(channel) == 1:
        (axis,) = channel
        place = -1 if axis == len(shape) - 1 else min(axis + 1, x.ndim - 1)
        return np.ascontiguousarray(np.moveaxis(x, 1, place))
    front = [axis + 1 for axis in channel]
    others = [axis for axis in range(1, len(shape) + 1) if axis not in front]
    if x.ndim != 2 + len(others) or x.shape[1] != np.prod([shape[axis] for axis in channel]):
        return np.asarray(x)
    rows = x.reshape(len(x), *[shape[axis] for axis in channel], *x.shape[2:])
    order = np.argsort([0, *front, *others])
    return np.ascontiguousarray(rows.transpose(order))


def _played(
    play: Any, channel: Sequence[int], shape: Shape, steps: Sequence[Step[Any]], fresh: bool = False
) -> Life:
    outcomes = play([_placed(step, channel, shape) for step in steps], fresh)
    outputs = [_channels_first_output(out, channel, shape) for out in outcomes]
    return Life(
        steps,
        [
            new if isinstance(step, Normalize | Run | Pullback) else out
            for step, out, new in zip(steps, outcomes, outputs, strict=True)
        ],
    )


def _placed(step: Step[Any], channel: Sequence[int], shape: Shape) -> Step[Any]:
    if isinstance(step, Normalize):
        return replace(step, x=back(step.x, channel, shape))
    if isinstance(step, Run):
        first_input, *others = step.inputs
        inputs = (back(first_input, channel, shape), *others)
        return Run(step.call, *inputs, how=step.how, draws=step.draws, held=step.held)
    if isinstance(step, Pullback):
        cotangent = back(step.cotangent, channel, shape)
        return replace(step, x=back(step.x, channel, shape), cotangent=cotangent)
    return step


def _channels_first_output(out: Any, channel: Sequence[int], shape: Shape) -> Any:
    def moved(value: Any) -> Any:
        array = np.asarray(value)
        if value is None or array.ndim < 2:
            return value
        if len(channel) == 1 and channel[0] == len(shape) - 1:
            return np.moveaxis(array, -1, 1)
        return channels_to_front(array, channel) if array.ndim == len(shape) + 1 else array

    if isinstance(out, Mapped):
        return Mapped(moved(out.value), out.ladj)
    if isinstance(out, Pulled):
        return replace(out, value=moved(out.value), x=moved(out.x))
    return moved(out) if isinstance(out, np.ndarray) else out
