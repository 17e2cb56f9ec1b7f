"""What `test_claims` draws: bijections with points, linear layers with batches, and histories.

Numbers come from generators with drawn seeds, in sizes from 1e-6 to 1e6; nothing depends on torch's
global generator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import linear

from claims.bounds import UNIT
from flowref import reference as ref

Event = tuple[int, ...]
Build = Callable[[Any, Event], ref.Bijection]

SEEDS, PARITIES, SIGNS = st.integers(0, 2**32), st.integers(0, 1), st.sampled_from([1, -1])
SIZES, EPS = (st.floats(low, high).map(lambda k: 10.0**k) for low, high in ((-6, 6), (-8, 0)))
OFFSETS = st.sampled_from([0.0, 1.0, -30.0, 1e3])  # of a batch, in its deviations
DTYPES = st.sampled_from([torch.float64, torch.float32])
POWERS_OF_TWO = st.builds(lambda sign, k: sign * 2.0**k, SIGNS, st.integers(-20, 20))
FACTORS = st.builds(lambda sign, size: sign * size, SIGNS, SIZES)
BINS = 17.0


def normal_from(seed: int) -> Callable[..., Tensor]:
    """A source of standard normal numbers in double precision: called with a shape, it goes on."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)


# How normal numbers and a size become points of a set.
SETS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "reals": lambda points, size: size * points,
    "moderate": lambda points, size: min(size, 1.0) * points,
    "positive": lambda points, size: size * points.exp(),
    "unit": lambda points, size: points.sigmoid(),
    "pixels": lambda points, size: BINS * points.sigmoid(),
    "box": lambda points, size: 3 * points.tanh(),
}


class Component(NamedTuple):
    """A kind of bijection: shapes of events, how one is built for it, and where x and z lie."""

    events: st.SearchStrategy[Event]
    build: Build
    x: str = "reals"
    z: str = "reals"


Directions = tuple[tuple[ref.Bijection, Tensor], tuple[ref.Bijection, Tensor]]


@st.composite
def both_directions(draw: Any, component: Component) -> Directions:
    """A bijection with points x, and its inverse with points z, in eval mode, with drawn parameters
    and after up to three batches of training.
    """
    event, normal, size = draw(component.events), normal_from(draw(SEEDS)), draw(SIZES)
    layer, spread = component.build(draw, event).double(), draw(st.floats(0.05, 0.5))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(spread * normal(*parameter.shape))
        for _ in range(draw(st.integers(0, 3))):
            layer.train()(SETS[component.x](1 + normal(4, *event), size))
        x = SETS[component.x](normal(2, *event), size)
        z = SETS[component.z](normal(*layer.eval()(x)[0].shape), size)
    return (layer, x), (ref.Inverse(layer), z)


def coupling(kind: Callable[..., ref.Bijection], outputs: int) -> Build:
    """Couplings of vectors by any mask, with so many outputs for each transformed feature."""

    def build(draw: Any, event: Event) -> ref.Bijection:
        kept = draw(st.sets(st.integers(0, event[0] - 1), min_size=1, max_size=event[0] - 1))
        mask = torch.tensor([index in kept for index in range(event[0])])
        return kind(mask, ref.MLP(len(kept), outputs * (event[0] - len(kept)), (5,)))

    return build


def checkerboard(draw: Any, event: Event) -> ref.Bijection:
    """Couplings of images by the colors of a checkerboard."""
    mask = ref.checkerboard_mask(event[1], event[2], draw(PARITIES))
    return ref.AffineCoupling(mask, ref.ResNet(event[0], 2 * event[0], 3, 1))


def channels(draw: Any, event: Event) -> ref.Bijection:
    """Couplings of images by halves of the channels."""
    mask = ref.channel_mask(event[0], draw(PARITIES))
    return ref.AffineCoupling(mask, ref.ResNet(event[0] // 2, event[0], 3, 1))


def flow_batch_norm(draw: Any, event: Event) -> ref.Bijection:
    """Batch normalization with a log-determinant, with any options."""
    stats, momentum = draw(st.sampled_from(["batch", "running"])), draw(st.floats(0, 1))
    return ref.InvertibleBatchNorm(event[0], draw(EPS), momentum, draw(st.booleans()), stats)


def affine(draw: Any, event: Event) -> ref.Bijection:
    """Shifts and scales of either sign, some 1e-3 to 1e3: one for all entries, or one for each."""
    normal, shape = normal_from(draw(SEEDS)), draw(st.sampled_from([(), event]))
    scale = draw(SIGNS) * 10.0 ** draw(st.floats(-3, 3)) * normal(*shape).exp()
    return ref.Affine(normal(*shape), scale)


def squeeze(draw: Any, event: Event) -> ref.Bijection:
    """Positions into channels, in any order."""
    return ref.Squeeze(draw(st.sampled_from(["pixel_unshuffle", "space_to_depth", "real_nvp"])))


def multi_scale(draw: Any, event: Event) -> ref.Bijection:
    """Two levels, of which the first squeezes."""
    first = ref.Chain(ref.Squeeze(), ref.ActNorm(4 * event[0]))
    half = (2 * event[0], event[1] // 2, event[2] // 2)
    return ref.MultiScale([first, convolution(draw, half)], [half, half])


def images(draw: Any, event: Event) -> ref.Bijection:
    """The model of images, small."""
    channels, height, width = event
    final, bins = draw(st.integers(1, 2)), int(BINS)
    return ref.RealNVP((channels, height, width), bins, 2, 1, final, hidden=2, blocks=1)


def logit(draw: Any, event: Event) -> ref.Bijection:
    """Pixels to the reals, as in preprocessing."""
    return ref.Logit(draw(st.floats(0.01, 0.4)), BINS)


def convolution(draw: Any, event: Event) -> ref.Bijection:
    """A matrix for the channels, as it is or factorized."""
    rotation = torch.Generator().manual_seed(draw(SEEDS))
    return ref.InvertibleConv1x1(event[0], draw(st.booleans()), rotation)


def permutation(draw: Any, event: Event) -> ref.Bijection:
    """Channels in any order."""
    return ref.Permute(draw(st.permutations(range(event[0]))))


def vectors(draw: Any, event: Event) -> ref.Bijection:
    """The model of vectors, small."""
    return ref.VectorRealNVP(event[0], draw(st.integers(1, 3)), (5,))


def spline(draw: Any, event: Event) -> ref.Bijection:
    """Splines of each entry, identities outside of a box."""
    return ref.Spline(event, draw(st.integers(2, 5)))


def boxed_spline(draw: Any, event: Event) -> ref.Bijection:
    """Splines of each entry, on the box alone."""
    return ref.Spline(event, draw(st.integers(2, 5)), 3.0, tails=None)


def autoregressive(kind: Callable[..., ref.Bijection]) -> Build:
    """Autoregressive flows in any order."""
    return lambda draw, event: kind(event[0], (6,), draw(st.permutations(range(event[0]))))


VECTORS = st.tuples(st.integers(2, 5))
IMAGES = st.sampled_from([(2, 4, 2), (1, 4, 4), (2, 2, 4)])
EVEN = st.sampled_from([(2, 2, 2), (2, 4, 2), (4, 2, 2)])
SQUARES = st.sampled_from([(2, 2, 3), (1, 3, 2)])
EVENTS = VECTORS | IMAGES | st.sampled_from([(3, 4), (2, 2, 1, 3)])
COMPONENTS: dict[str, Component] = {
    "batch norm": Component(EVENTS, flow_batch_norm),
    "activation norm": Component(EVENTS, lambda draw, event: ref.ActNorm(event[0])),
    "affine coupling": Component(VECTORS, coupling(ref.AffineCoupling, 2)),
    "additive coupling": Component(VECTORS, coupling(ref.AdditiveCoupling, 1)),
    "checkerboard coupling": Component(IMAGES, checkerboard),
    "channel coupling": Component(EVEN, channels),
    "permutation": Component(EVENTS, permutation),
    "reversal": Component(EVENTS, lambda draw, event: ref.Reverse(event[0])),
    "spline": Component(EVENTS, spline),
    "spline on a box": Component(EVENTS, boxed_spline, "box", "box"),
    "spline coupling": Component(VECTORS, coupling(partial(ref.SplineCoupling, bins=4), 11)),
    "autoregressive": Component(
        VECTORS, autoregressive(ref.MaskedAutoregressive), "moderate", "moderate"
    ),
    "autoregressive spline": Component(
        VECTORS, autoregressive(partial(ref.AutoregressiveSpline, bins=4))
    ),
    "periodic convolution": Component(
        SQUARES, lambda draw, event: ref.PeriodicConvolution(event[0], 2)
    ),
    "masked convolution": Component(
        SQUARES, lambda draw, event: ref.MaskedConvolution(event[0], 3, draw(st.booleans()))
    ),
    "emerging convolution": Component(
        SQUARES, lambda draw, event: ref.EmergingConvolution(event[0])
    ),
    "1x1 convolution": Component(EVENTS, convolution),
    "affine": Component(EVENTS, affine),
    "exponential": Component(EVENTS, lambda draw, event: ref.Exp(), "moderate", "positive"),
    "sigmoid": Component(EVENTS, lambda draw, event: ref.Sigmoid(), "moderate", "unit"),
    "logit": Component(EVENTS, logit, "pixels", "moderate"),
    "squeeze": Component(IMAGES, squeeze),
    "multi-scale": Component(EVEN, multi_scale),
    "empty chain": Component(EVENTS, lambda draw, event: ref.Chain()),
    "Real NVP of vectors": Component(VECTORS, vectors),
    "Real NVP of images": Component(IMAGES, images, "pixels", "moderate"),
}


class Linear(NamedTuple):
    r"""A linear layer before batch normalization: $x = Wu + b$ and $y = w\,\hat x$; dy: a gradient.

    u `(n, inputs)`, W `(channels, inputs)`, b and w `(channels,)`, dy `(n, channels)`.
    """

    u: Tensor
    W: Tensor
    b: Tensor
    w: Tensor
    eps: float
    dy: Tensor

    @property
    def product_error(self) -> Tensor:
        """How far off each entry of Wu is, also if W was multiplied before; `(n, channels)`."""
        return (len(self.W.T) + 2) * UNIT * linear(self.u.abs(), self.W.abs())


@st.composite
def linears(draw: Any) -> Linear:
    """Up to 20 rows, 4 inputs and 3 channels."""
    numbers = (st.integers(2, 20), st.integers(1, 4), st.integers(1, 3))
    rows, inputs, channels, seed, size = draw(st.tuples(*numbers, SEEDS, SIZES))
    normal = normal_from(seed)
    u, b = size * (normal(rows, inputs) + draw(OFFSETS)), size * normal(channels)
    W, w = normal(channels, inputs), normal(channels)
    return Linear(u, W, b, w, draw(EPS), normal(rows, channels))


def by_channel(events: Tensor) -> Tensor:
    """A batch `(N, C, ...)` as a matrix with a column for each channel."""
    return events.detach().movedim(1, -1).flatten(0, -2)


class Call(NamedTuple):
    """A batch, and the mode in which it is met."""

    training: bool
    rows: int
    size: float
    offset: float
    seed: int

    def batch(self, event: Event) -> Tensor:
        """`(rows, *event)`."""
        return self.size * (self.offset + normal_from(self.seed)(self.rows, *event))


class History(NamedTuple):
    """Options of a layer, the shape of an event `(C, ...)`, and the calls of the layer's life."""

    options: dict[str, Any]
    event: Event
    seed: int
    calls: list[Call]

    @property
    def native(self) -> type[Any]:
        """The class of torch for these events."""
        return (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[len(self.event) - 1]

    def layer(self, kind: Callable[..., Any]) -> Any:
        """A layer of this kind at the start of its life, with drawn weights and biases."""
        layer = kind(self.event[0], **self.options, dtype=torch.float64)
        normal = normal_from(self.seed)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(normal(*parameter.shape))
        return layer


OPTIONS = st.fixed_dictionaries(
    {
        "eps": EPS,
        "momentum": st.none() | st.floats(0, 1),
        "affine": st.booleans(),
        "bias": st.booleans(),
        "track_running_stats": st.booleans(),
    }
)
CALLS = st.builds(Call, st.booleans(), st.integers(2, 9), SIZES, OFFSETS, SEEDS)
HISTORIES = st.builds(History, OPTIONS, EVENTS, SEEDS, st.lists(CALLS, min_size=1, max_size=10))
