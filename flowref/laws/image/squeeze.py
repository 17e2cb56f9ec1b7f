"""Squeezes: windows of positions become channels, by a permutation of entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flowref.laws.common.outcomes import attempt, flags
from flowref.model import (
    ADVICE,
    EXACT,
    GIVEN,
    Array,
    Batch,
    Call,
    Mapped,
    Residual,
    Unsupported,
    law,
    requires,
)
from flowref.model.abilities import Squeezed

DINH = "Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.6"
# A squeeze is the same at every point: few small measurements suffice.
WHOLE: dict[str, Any] = {"size": 1, "local": False, "scales": GIVEN, "effort": 2}
# The corners of a window of 2 by 2 in the order of "real_nvp", each as f i + j.
DIAGONALS = (0, 3, 1, 2)


class Images(NamedTuple):
    """The images that a squeeze takes: the call that turns positions into channels, their shape,
    and the range of their values.
    """

    call: Call[Mapped]
    shape: tuple[int, int, int]
    low: float
    high: float

    def squeezed(self, factor: int) -> tuple[int, int, int]:
        """The shape after the squeeze."""
        channels, height, width = self.shape
        return factor**2 * channels, height // factor, width // factor


def input_images(flow: Squeezed) -> Images:
    """The inputs of the squeeze. Raises `Unsupported` if it has no such call, or takes no images."""
    which = flow.squeezing.call
    forwards = which == "forward"
    support = flow.domain if forwards else flow.codomain or flow.domain
    shape = flow.event_shape if forwards else flow.latent_shape
    if which not in flow.calls:
        raise Unsupported(f"it offers no {which}")
    if len(shape) != 3:
        raise Unsupported(
            f"its events have {len(shape)} axes; three are expected: channels, rows and columns"
        )
    channels, height, width = shape
    call: Call[Mapped] = flow.calls[which]
    return Images(call, (channels, height, width), float(support.low), float(support.high))


def distinct(count: int, low: float, high: float) -> Array:
    """Distinct numbers within an interval that are exact in single precision, ``(count,)``."""
    steps = np.arange(1, count + 1, dtype=np.float64)
    if np.isfinite(low) and np.isfinite(high):
        return np.asarray(
            (low + (high - low) * steps / (count + 1)).astype(np.float32).astype(np.float64)
        )
    if np.isfinite(high):
        return np.asarray(np.floor(high) - steps)
    return np.asarray((np.ceil(low) if np.isfinite(low) else 0.0) + steps)


def sources(flow: Squeezed, seed: int) -> tuple[Array, tuple[int, ...]]:
    """The image entry of each output entry, for two images ``(2, outputs)``, -1 if there is none;
    and the output's shape.

    The images hold the same distinct numbers in two orders.
    """
    call, shape, low, high = input_images(flow)
    count = int(np.prod(shape))
    values = distinct(count, low, high)
    orders = np.stack([np.random.default_rng(seed).permutation(count), np.arange(count)])
    context = None if flow.context_shape is None else np.zeros((2, *flow.context_shape))
    out = np.asarray(call(values[orders].reshape(2, *shape), context).value, dtype=np.float64)
    flat = out.reshape(2, -1)
    ranks = np.clip(np.searchsorted(values, flat), 0, count - 1)
    back = np.argsort(orders, axis=1)
    entries = np.where(values[ranks] == flat, np.take_along_axis(back, ranks, 1), -1)
    return entries, tuple(out.shape[1:])


def squeezed_entries(flow: Squeezed, seed: int) -> Array:
    """The image entry of each output entry as (channel, row, column), ``(f^2 C, H/f, W/f, 3)``.

    Raises `Unsupported` if it is no permutation into the shape of a squeeze, which another law
    reports.
    """
    taken = input_images(flow)
    entries, shape = sources(flow, seed)
    expected = taken.squeezed(flow.squeezing.factor)
    if shape != expected:
        raise Unsupported(f"it makes {shape} of {taken.shape}, where a squeeze makes {expected}")
    if (np.sort(entries[0]) != np.arange(entries.shape[1])).any():
        raise Unsupported("it does not permute the entries of an image")
    return np.stack(np.unravel_index(entries[0].reshape(shape), taken.shape), axis=-1)


def orders(channels: int, factor: int) -> dict[str, Array]:
    """The common orders: the (channel, corner) of each output channel, ``(f^2 C, 2)``, by name."""
    corners = np.arange(factor**2)
    by_channel = [(c, corner) for c in range(channels) for corner in corners]
    named = {
        "pixel_unshuffle": np.array(by_channel),
        "space_to_depth": np.array([(c, corner) for corner in corners for c in range(channels)]),
    }
    if factor == 2:
        named["real_nvp"] = np.array([(c, corner) for corner in DIAGONALS for c in range(channels)])
    return named


def order_of(flow: Squeezed, seed: int) -> str:
    """The name of the order of the channels, or "". Raises `Unsupported` if a window is not mapped
    to one position.
    """
    pixels = squeezed_entries(flow, seed)
    factor, declared = flow.squeezing.factor, flow.squeezing.order
    corner = factor * (pixels[..., 1] % factor) + pixels[..., 2] % factor
    seen = np.stack([pixels[..., 0], corner], axis=-1)
    if (seen != seen[:, :1, :1]).any():
        return ""
    named = orders(input_images(flow).shape[0], factor)
    alike = [name for name, order in named.items() if np.array_equal(seen[:, 0, 0], order)]
    # With one channel two of the orders coincide.
    return declared if declared in alike else (alike or [""])[0]


@law(
    "squeeze/permutes",
    tolerance=EXACT,
    source=DINH,
    **WHOLE,
)
def permutes(flow: Squeezed, batch: Batch) -> Residual:
    """A squeeze maps every entry of the image to one output entry, bitwise, and in the same place
    for every image.
    """
    entries, shape = sources(flow, batch.seed)
    expected = input_images(flow).squeezed(flow.squeezing.factor)
    note = ""
    if shape != expected:
        note = f"the output has shape {shape}; expected {expected}"
    elif (entries < 0).any():
        strange = int((entries[0] < 0).sum())
        note = f"{strange} entries of the output are no entries of the image"
    elif (np.sort(entries[0]) != np.arange(entries.shape[1])).any():
        lost = entries.shape[1] - len(np.unique(entries[0]))
        note = f"{lost} entries of the image are not in the output, and others are twice"
    elif (entries[0] != entries[1]).any():
        note = "the entries of two images go to different places"
    return flags(bool(note), len(batch.x), note)


@law("squeeze/permutes[windows]", key="squeeze/windows-stay", tolerance=EXACT, source=DINH, **WHOLE)
def windows_stay(flow: Squeezed, batch: Batch) -> Residual:
    """The channels at a position of the output are the entries of the window of the image at that
    position.
    """
    pixels = squeezed_entries(flow, batch.seed)
    windows = pixels[..., 1:] // flow.squeezing.factor
    positions = np.stack(
        np.meshgrid(*(np.arange(size) for size in pixels.shape[1:3]), indexing="ij"), axis=-1
    )
    wrong = (windows != positions).any(-1)
    scattered = (windows != windows[:1]).any()
    note = "the windows are at other positions"
    if scattered:
        note = f"{int(wrong.sum())} of {wrong.size} entries of the output come from another window"
    return flags(bool(wrong.any()), len(batch.x), note)


@requires("its documentation states no order of channels")
def order_documented(flow: Squeezed) -> bool:
    """The order of the channels is documented."""
    return bool(flow.squeezing.order)


@requires("its order of channels is documented")
def order_undocumented(flow: Squeezed) -> bool:
    """Without documentation it is advice."""
    return not flow.squeezing.order


@law(
    "squeeze/order[declared]",
    key="squeeze/declared-order",
    tolerance=EXACT,
    applies=order_documented,
    source="weights of the layers that follow belong to an order of channels",
    **WHOLE,
)
def declared_order(flow: Squeezed, batch: Batch) -> Residual:
    """The channels are in the documented order."""
    seen = order_of(flow, batch.seed)
    order = flow.squeezing.order
    note = f"the order is {seen or 'none that has a name'}; it is documented as {order}"
    return flags(seen != order, len(batch.x), note)


@law(
    "squeeze/order[known]",
    key="squeeze/known-order",
    force=ADVICE,
    tolerance=EXACT,
    applies=order_undocumented,
    source="torch.nn.PixelUnshuffle, tf.nn.space_to_depth and the code of Real NVP order channels in these ways",
    **WHOLE,
)
def known_order(flow: Squeezed, batch: Batch) -> Residual:
    """The channels are in one of the common orders (pixel_unshuffle, space_to_depth, real_nvp), or
    in a documented one.
    """
    return flags(not order_of(flow, batch.seed), len(batch.x), "no order that has a name")


@law(
    "shape/wrong-refused[image-size]",
    key="squeeze/odd-sizes",
    force=ADVICE,
    tolerance=EXACT,
    source="an image that no windows tile has no squeeze; a strided view of it drops a row",
    **WHOLE,
)
def odd_sizes(flow: Squeezed, batch: Batch) -> Residual:
    """An image whose rows or columns are no multiple of the window raises an error; no entry of it
    is dropped.
    """
    call, (channels, height, width), low, high = input_images(flow)
    dropped = []
    for shape in (
        (channels, height + 1, width),
        (channels, height, width + 1),
        (channels, height + 1, width + 1),
    ):
        x = distinct(int(np.prod(shape)), low, high).reshape(1, *shape)
        context = None if flow.context_shape is None else np.zeros((1, *flow.context_shape))
        out, error = attempt(call, x, context)
        left = x.size if error else np.asarray(out.value).size
        if left != x.size:
            dropped.append(f"{left} of the {x.size} entries of {shape} are left")
    return flags(bool(dropped), len(batch.x), "; ".join(dropped))
