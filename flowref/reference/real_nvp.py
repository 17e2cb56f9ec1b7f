"""Real NVP: the multi-scale model of images, and a stack of couplings for vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from flowref.reference.bijection import Bijection, Chain
from flowref.reference.conditioners import MLP, Norm, ResNet
from flowref.reference.convolution import InvertibleConv1x1
from flowref.reference.coupling import AffineCoupling
from flowref.reference.elementwise import Logit
from flowref.reference.invertible_batch_norm import InvertibleBatchNorm
from flowref.reference.masks import alternating_mask, channel_mask, checkerboard_mask
from flowref.reference.multi_scale import MultiScale
from flowref.reference.permutation import Order, Squeeze

PathNorm = Literal["running", "batch"] | None


class VectorRealNVP(Chain):
    r"""``depth`` times [`AffineCoupling`, `InvertibleBatchNorm`, `InvertibleConv1x1`] for vectors,
    masks alternating.

    ``norm``: the statistics that the batch norm uses in train mode, or None to leave it out;
    ``mixing``: whether there are 1x1 convolutions.
    Shapes: x and z `(N, features)`, ladj `(N,)`.
    """

    def __init__(
        self,
        features: int = 2,
        depth: int = 6,
        hidden: Sequence[int] = (64, 64),
        norm: PathNorm = "running",
        mixing: bool = True,
        momentum: float = 0.005,
    ) -> None:
        layers: list[Bijection] = []
        for index in range(depth):
            mask = alternating_mask(features, index)
            kept = int(mask.sum())
            layers.append(AffineCoupling(mask, MLP(kept, 2 * (features - kept), hidden)))
            if norm is not None:
                layers.append(InvertibleBatchNorm(features, momentum=momentum, stats=norm))
            if mixing:
                layers.append(InvertibleConv1x1(features))
        super().__init__(*layers)
        self.features = features


class RealNVP(Bijection):
    r"""Images to latents, by levels of couplings: checkerboards, a squeeze, channels, and half of
    the channels leave.

    Each level but the last has ``couplings`` of checkerboard masks, a `Squeeze`, and as many of
    channel masks; the last has
    ``final`` checkerboards. Parities alternate, and the width of the conditioners doubles from
    level to level. Pixels in [0, bins) pass a `Logit` first. Every coupling is followed by an
    `InvertibleBatchNorm`.

    ``norm``: the statistics that these use in train mode, or None to leave them out;
    ``conditioner_norm``: of the `ResNet`.
    Shapes: x `(N, C, H, W)`, z `(N, C H W)`, ladj `(N,)`.  Units: nats, per unit volume of pixel
    values.
    Raises: `ValueError` where H or W cannot be halved once for each level but the last.
    Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), sections 3.6, 3.7 and 4.1.
    """

    def __init__(
        self,
        event_shape: tuple[int, int, int],
        bins: int = 256,
        scales: int = 2,
        couplings: int = 3,
        final: int = 4,
        hidden: int = 64,
        blocks: int = 4,
        norm: PathNorm = "running",
        conditioner_norm: Norm = "instance",
        momentum: float = 0.005,
        alpha: float = 0.05,
        order: Order = "pixel_unshuffle",
    ) -> None:
        super().__init__()
        channels, height, width = event_shape
        factor = 2 ** (scales - 1)
        if scales < 1 or height % factor or width % factor:
            raise ValueError(
                f"got images of {height} by {width} for {scales} scales; expected both to be "
                f"multiples of {factor}"
            )

        def coupling(mask: Tensor, hidden: int) -> list[Bijection]:
            inputs = int(mask.sum()) if mask.dim() == 1 else channels
            outputs = 2 * (channels - inputs) if mask.dim() == 1 else 2 * channels
            conditioner = ResNet(inputs, outputs, hidden, blocks, conditioner_norm)
            layers: list[Bijection] = [AffineCoupling(mask, conditioner)]
            if norm is not None:
                layers.append(InvertibleBatchNorm(channels, momentum=momentum, stats=norm))
            return layers

        levels: list[Bijection] = []
        shapes = []
        for _ in range(scales - 1):
            layers = [
                c
                for k in range(couplings)
                for c in coupling(checkerboard_mask(height, width, k), hidden)
            ]
            layers.append(Squeeze(order))
            channels, height, width, hidden = 4 * channels, height // 2, width // 2, 2 * hidden
            layers += [
                c for k in range(couplings) for c in coupling(channel_mask(channels, k), hidden)
            ]
            levels.append(Chain(*layers))
            channels //= 2
            shapes.append((channels, height, width))
        last = [
            c for k in range(final) for c in coupling(checkerboard_mask(height, width, k), hidden)
        ]
        self.event_shape = event_shape
        self.preprocessing = Logit(alpha, float(bins))
        self.scales = MultiScale([*levels, Chain(*last)], [*shapes, (channels, height, width)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        h, preprocessing = self.preprocessing(x)
        z, ladj = self.scales(h)
        return z, preprocessing + ladj

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        h, ladj = self.scales.inverse(z)
        x, preprocessing = self.preprocessing.inverse(h)
        return x, ladj + preprocessing
