"""The components of Real NVP do what they state, by torch, scipy and formulas written out.

Round trips and log-determinants are in `test_claims`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from flowref import reference as ref

GENERATOR = 7
DOUBLE = torch.float64
UNITS = 64 * torch.finfo(DOUBLE).eps

VECTORS: dict[str, Callable[[], ref.Bijection]] = {
    "affine alternating": lambda: ref.AffineCoupling(ref.alternating_mask(4), ref.MLP(2, 4)),
    "affine halves": lambda: ref.AffineCoupling(ref.channel_mask(4), ref.MLP(2, 4)),
    "affine other halves": lambda: ref.AffineCoupling(ref.channel_mask(4, 1), ref.MLP(2, 4)),
    "affine any": lambda: ref.AffineCoupling(
        torch.tensor([True, False, False, True]), ref.MLP(2, 4)
    ),
    "affine one kept": lambda: ref.AffineCoupling(
        torch.tensor([False, False, True, False]), ref.MLP(1, 6)
    ),
    "additive": lambda: ref.AdditiveCoupling(
        torch.tensor([True, True, False, True]), ref.MLP(3, 1)
    ),
    "vector": lambda: ref.VectorRealNVP(4, depth=2),
}
IMAGES: dict[str, Callable[[], ref.Bijection]] = {
    "checkerboard": lambda: ref.AffineCoupling(ref.checkerboard_mask(4, 2), ref.ResNet(2, 4, 4, 1)),
    "channels": lambda: ref.AffineCoupling(ref.channel_mask(2), ref.ResNet(1, 2, 4, 1)),
    "image": lambda: ref.RealNVP((2, 4, 2), 17, hidden=4, blocks=1, couplings=1, final=1),
}


def moved(build: Callable[[], ref.Bijection], scale: float = 0.2) -> ref.Bijection:
    """A layer in double precision and eval mode, away from its initial values."""
    with torch.random.fork_rng():
        torch.manual_seed(GENERATOR)
        layer = build().double()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.add_(scale * torch.randn_like(parameter))
        return layer.eval()


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def pixels(*shape: int, bins: int = 17) -> Tensor:
    """Numbers in [0, bins)."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(3), dtype=DOUBLE) * bins


def chains(model: ref.RealNVP) -> list[list[Any]]:
    """The layers of each level."""
    return [list(cast(ref.Chain, level)) for level in model.scales.levels]


@pytest.mark.parametrize(
    "name", [name for name in VECTORS if "affine " in name or name in ("additive", "vector")]
)
def test_couplings_start_as_the_identity(name: str) -> None:
    """Before training a coupling changes nothing, bit for bit, and a stack of them only mixes."""
    with torch.random.fork_rng():
        torch.manual_seed(GENERATOR)
        layer = VECTORS[name]().double()
    x = normal(5, 4)
    if name == "vector":
        assert layer.eval()(x)[1].abs().max() < 1e-4  # running variances of 1 beside eps
    else:
        assert torch.equal(layer(x)[0], x)


@pytest.mark.parametrize("name", ["affine halves", "affine any", "checkerboard", "channels"])
def test_an_affine_coupling_is_the_masked_formula(name: str) -> None:
    """z = b x + (1 - b) (x exp(s(b x)) + t(b x)) with ladj sum (1 - b) s, written with masks
    throughout.
    """
    layer = moved(VECTORS.get(name) or IMAGES[name])
    assert isinstance(layer, ref.AffineCoupling)
    x = normal(4, 4) if name in VECTORS else normal(4, 2, 4, 2)
    mask = layer.partition.mask
    b = (
        (mask if mask.dim() == 2 else mask.view(-1, *[1] * (x.dim() - 2)))
        .expand(x.shape[1:])
        .double()
    )
    seen = x[:, mask] if mask.dim() == 1 else b * x
    raw, shift = layer.conditioner(seen).chunk(2, 1)
    scale = layer.scale.view(-1, *[1] * (x.dim() - 2)) * raw.tanh()
    s, t = torch.zeros_like(x), torch.zeros_like(x)
    if mask.dim() == 1:
        s[:, ~mask], t[:, ~mask] = scale, shift
    else:
        s, t = (1 - b) * scale, (1 - b) * shift
    z, ladj = layer(x)
    torch.testing.assert_close(z, b * x + (1 - b) * (x * s.exp() + t), rtol=UNITS, atol=UNITS)
    torch.testing.assert_close(ladj, ((1 - b) * s).flatten(1).sum(1), rtol=UNITS, atol=UNITS)


@pytest.mark.parametrize("name", ["affine alternating", "affine any", "channels", "checkerboard"])
def test_what_a_coupling_keeps_is_copied_bit_for_bit(name: str) -> None:
    """Kept entries, infinities and negative zeros among them, come through unchanged in both
    directions.
    """
    layer = moved(VECTORS.get(name) or IMAGES[name])
    assert isinstance(layer, ref.AffineCoupling)
    x = normal(4, 4) if name in VECTORS else normal(4, 2, 4, 2)
    mask = layer.partition.mask
    kept = (mask if mask.dim() == 2 else mask.view(-1, *[1] * (x.dim() - 2))).expand(x.shape[1:])
    x[0][kept] = -0.0
    for call in (layer, layer.inverse):
        out = call(x)[0]
        assert torch.equal(out[:, kept].view(torch.int64), x[:, kept].view(torch.int64))


def test_a_log_scale_at_a_kept_position_is_never_exponentiated() -> None:
    """A conditioner may say anything about what is kept: output, ladj and gradients stay finite."""
    mask = ref.checkerboard_mask(2, 2)

    class Loud(nn.Module):
        """Shouts where it is not asked."""

        def forward(self, x: Tensor) -> Tensor:
            loud = torch.where(mask, x.new_tensor(1e3), x.new_tensor(1e-3)).expand(x.shape)
            return torch.cat((loud, loud), 1)

    layer = ref.AffineCoupling(mask, Loud()).double()
    with torch.no_grad():
        layer.scale.fill_(800.0)  # e^800 is no number
    x = normal(2, 1, 2, 2).requires_grad_()
    z, ladj = layer(x)
    assert z.isfinite().all()
    torch.testing.assert_close(
        ladj, torch.full_like(ladj, 2 * 800 * math.tanh(1e-3)), rtol=UNITS, atol=0
    )
    (gradient,) = torch.autograd.grad(z.sum() + ladj.sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("order", ["pixel_unshuffle", "space_to_depth", "real_nvp"])
def test_a_squeeze_puts_each_corner_where_its_order_says(order: Any) -> None:
    """Index by index, against the formula of the order."""
    channels, height, width = 3, 4, 6
    x = torch.arange(channels * height * width, dtype=DOUBLE).view(1, channels, height, width)
    z = ref.Squeeze(order)(x)[0]
    corners = [(0, 0), (1, 1), (0, 1), (1, 0)]
    for c in range(channels):
        for i, j in corners:
            place = {
                "pixel_unshuffle": 4 * c + 2 * i + j,
                "space_to_depth": (2 * i + j) * channels + c,
                "real_nvp": corners.index((i, j)) * channels + c,
            }[order]
            assert torch.equal(z[0, place], x[0, c, i::2, j::2])


def test_half_of_a_squeeze_in_the_order_of_real_nvp_is_one_color_of_a_checkerboard() -> None:
    """What that order factors out first are the positions with i + j even."""
    x = ref.checkerboard_mask(4, 4).double()[None, None]
    z = ref.Squeeze("real_nvp")(x)[0]
    assert z[:, :2].eq(1).all()
    assert z[:, 2:].eq(0).all()


@pytest.mark.parametrize("lu", [False, True])
def test_a_1x1_convolution_is_that_of_torch(lu: bool) -> None:
    """At each position the same matrix, and ladj is H W log|det W|."""
    layer = moved(lambda: ref.InvertibleConv1x1(3, lu=lu))
    assert isinstance(layer, ref.InvertibleConv1x1)
    x = normal(2, 3, 4, 5)
    z, ladj = layer(x)
    torch.testing.assert_close(
        z, torch.conv2d(x, layer.weight[:, :, None, None]), rtol=UNITS, atol=UNITS
    )
    expected = 20 * math.log(abs(np.linalg.det(layer.weight.detach().numpy())))
    torch.testing.assert_close(ladj, torch.full_like(ladj, expected), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("lu", [False, True])
def test_a_1x1_convolution_starts_as_a_rotation(lu: bool) -> None:
    """W W^T = I, so that volumes are preserved at first."""
    with torch.random.fork_rng():
        torch.manual_seed(GENERATOR)
        weight = ref.InvertibleConv1x1(5, lu=lu).double().weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(5, dtype=DOUBLE), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("x", [0.0, 1e-3, 128.0, 255.9, 256.0, 270.0, -14.0])
def test_the_logit_is_exact_up_to_rounding(x: float) -> None:
    """Value and log-derivative against fifty digits, near both ends of the domain as well."""
    h, ladj = ref.Logit(0.05, 256.0)(torch.tensor([[x]], dtype=DOUBLE))
    with mpmath.workdps(50):
        p = mpmath.mpf(0.05) + (1 - 2 * mpmath.mpf(0.05)) * mpmath.mpf(x) / 256
        value = mpmath.log(p / (1 - p))
        slope = mpmath.log((1 - 2 * mpmath.mpf(0.05)) / 256 * (1 / p + 1 / (1 - p)))
    nearness = float(1 / min(p, 1 - p))
    assert abs(float(h) - float(value)) <= 4 * torch.finfo(DOUBLE).eps * (
        abs(float(value)) + nearness
    )
    assert abs(float(ladj) - float(slope)) <= 8 * torch.finfo(DOUBLE).eps * (
        abs(float(slope)) + nearness
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("noise", ["none", "most"])
def test_the_logit_of_dequantized_levels_is_finite(dtype: torch.dtype, noise: str) -> None:
    """At the extremes of the noise too, where k + u is 0, or would round up to 256."""
    k = torch.arange(256, dtype=dtype)[:, None]
    u = torch.full_like(k, 0 if noise == "none" else 1 - torch.finfo(dtype).eps / 2)
    x, ladj = ref.Dequantize()(k, u)
    assert torch.equal(ladj, torch.zeros(256, dtype=dtype))
    assert ref.Logit()(x)[0].isfinite().all()


@pytest.mark.parametrize("dims", [1, 2, 7])
def test_the_base_density_is_the_multivariate_normal(dims: int) -> None:
    """Against scipy, constants included."""
    z = normal(5, dims)
    expected = stats.multivariate_normal(np.zeros(dims)).logpdf(z.numpy())
    torch.testing.assert_close(
        ref.StandardNormal((dims,)).log_prob(z),
        torch.as_tensor(expected).view(5),
        rtol=1e-14,
        atol=1e-14,
    )


def test_a_flow_is_the_change_of_variables() -> None:
    """An affine flow of a normal base is a normal density, by scipy."""
    scale, shift = torch.tensor([2.0, -0.5], dtype=DOUBLE), 3.0
    flow = ref.Flow(ref.StandardNormal((2,)), ref.Affine(shift, scale)).double()
    x = normal(6, 2)
    expected = stats.norm(-shift / scale.numpy(), 1 / scale.abs().numpy()).logpdf(x.numpy()).sum(1)
    torch.testing.assert_close(flow.log_prob(x), torch.as_tensor(expected), rtol=1e-13, atol=1e-13)


def test_uniform_pixels_cost_eight_bits() -> None:
    """The density 1/256 per entry on [0, 256) is 8 bits per dimension, and the same data in [0, 1)
    are, too.
    """
    dims = 3 * 32 * 32
    per_pixel = torch.tensor([-dims * math.log(256)], dtype=DOUBLE)
    assert abs(float(ref.bits_per_dim(per_pixel, dims)) - 8) < 1e-14
    assert float(ref.bits_per_dim(0 * per_pixel, dims, 1 / 256)) == 8.0


@pytest.mark.parametrize("factor", [0.25, 3.0, 255.0])
def test_rescaling_the_data_changes_bits_per_dim_by_the_logarithm_of_the_factor(
    factor: float,
) -> None:
    """Bits of a x are those of x plus log2 a, if the flow divides by a first; and none if the level
    is a as well.
    """
    flow = ref.Flow(
        ref.StandardNormal((64,)), moved(lambda: ref.RealNVP((1, 8, 8), 17, hidden=4, blocks=1))
    )
    x = pixels(3, 1, 8, 8)
    first = ref.Affine(0.0, 1.0).double()
    first.scale.fill_(
        1 / factor
    )  # built in float32, its rounding of 1 / a would be part of the map
    rescaled = ref.Flow(flow.base, ref.Chain(first, flow.bijection)).double()
    gained = rescaled.bits_per_dim(factor * x) - flow.bits_per_dim(x)
    torch.testing.assert_close(
        gained, torch.full_like(gained, math.log2(factor)), rtol=1e-11, atol=1e-11
    )
    kept = rescaled.bits_per_dim(factor * x, factor)
    torch.testing.assert_close(kept, flow.bits_per_dim(x), rtol=1e-11, atol=1e-11)


def test_the_penalty_stands_apart_from_the_likelihood() -> None:
    """The nll is the mean of -log p whatever the weight; the penalty is the weight times the
    squared scales.
    """
    flow = ref.Flow(ref.StandardNormal((4,)), moved(lambda: ref.VectorRealNVP(4, 2)))
    x = normal(5, 4)
    scales = sum(
        m.scale.square().sum().item() for m in flow.modules() if isinstance(m, ref.AffineCoupling)
    )
    with torch.no_grad():
        loss = ref.real_nvp_loss(flow, x, 0.1)
        nll = -flow.log_prob(x).mean()
    assert torch.equal(loss.nll, nll)
    assert float(loss.penalty) == pytest.approx(0.1 * scales, rel=1e-12)
    assert float(loss.total) == float(loss.nll + loss.penalty)


def test_samples_are_differentiable_only_where_that_is_asked_for() -> None:
    """Rsample carries gradients to the parameters, sample does not, and both draw the same numbers."""
    flow = ref.Flow(ref.StandardNormal((4,)), moved(lambda: ref.VectorRealNVP(4, 2))).double()
    drawn = [call(3, torch.Generator().manual_seed(1)) for call in (flow.rsample, flow.sample)]
    assert drawn[0].requires_grad
    assert not drawn[1].requires_grad
    assert torch.equal(drawn[0].detach(), drawn[1])


def test_a_real_nvp_has_the_layers_of_the_paper() -> None:
    """Three checkerboards, a squeeze, three channel masks, in the last level four checkerboards;
    widths double.
    """
    model = ref.RealNVP((3, 8, 8), scales=2, hidden=6, blocks=1, norm=None)
    first, last = chains(model)
    kinds = [type(layer).__name__ for layer in first]
    assert kinds == ["AffineCoupling"] * 3 + ["Squeeze"] + ["AffineCoupling"] * 3
    assert [layer.partition.mask.dim() for layer in (*first[:3], *first[4:], *last)] == [2] * 3 + [
        1
    ] * 3 + [2] * 4
    assert len(last) == 4
    assert [layers[-1].conditioner.enter.out_channels for layers in (first, last)] == [12, 12]
    assert first[0].conditioner.enter.out_channels == 6
    assert model.scales.shapes == [(6, 4, 4), (6, 4, 4)]


def test_consecutive_masks_of_a_real_nvp_complement_each_other() -> None:
    """What one coupling keeps the next transforms."""
    model = ref.RealNVP((1, 8, 8), scales=2, hidden=4, blocks=1, norm=None)
    for level in chains(model):
        masks = [layer.partition.mask for layer in level if isinstance(layer, ref.AffineCoupling)]
        for before, after in pairwise(masks):
            if before.shape == after.shape:
                assert torch.equal(before, ~after)


@pytest.mark.parametrize("order", ["pixel_unshuffle", "space_to_depth"])
def test_halves_of_the_channels_cut_an_image_otherwise_than_a_checkerboard(order: Any) -> None:
    """After a squeeze of these orders the channel masks mix what the checkerboards before it kept
    apart.
    """
    colors = ref.Squeeze(order)(ref.checkerboard_mask(4, 4).double()[None, None])[0]
    first = colors[:, ref.channel_mask(4)]
    assert 0 < float(first.mean()) < 1


@pytest.mark.parametrize("name", ["vector", "image"])
def test_a_reloaded_model_is_the_same_model(name: str) -> None:
    """A strict state_dict carries everything that outputs depend on."""
    build = VECTORS.get(name) or IMAGES[name]
    model, other = moved(build), moved(build, 0.5)
    other.load_state_dict(model.state_dict())
    x = normal(3, 4) if name in VECTORS else pixels(3, 2, 4, 2)
    for first, second in zip(model(x), other(x), strict=True):
        assert torch.equal(first, second)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "odd height": (lambda: ref.Squeeze()(torch.zeros(1, 1, 3, 4)), "even H and W"),
    "odd image": (lambda: ref.RealNVP((1, 6, 6), scales=3), "multiples of 4"),
    "odd channels": (lambda: ref.channel_mask(3), "even number"),
    "no channels to halve": (lambda: ref.Split()(torch.zeros(1, 3, 2, 2)), "even number"),
    "all kept": (lambda: ref.AffineCoupling(torch.ones(4, dtype=torch.bool), nn.Identity()), "4 of 4"),
    "none kept": (lambda: ref.AdditiveCoupling(torch.zeros(4, dtype=torch.bool), nn.Identity()), "0 of 4"),
    "a mask of floats": (lambda: ref.AffineCoupling(torch.tensor([1.0, 0.0]), nn.Identity()), "torch.bool"),
    "a long mask": (lambda: VECTORS["affine halves"]()(torch.zeros(2, 5)), "mask of 4 entries"),
    "a high mask": (lambda: IMAGES["checkerboard"]()(torch.zeros(2, 2, 2, 2)), "axes last"),
    "a conditioner of another width": (
        lambda: ref.AffineCoupling(ref.channel_mask(4), ref.MLP(2, 3))(torch.zeros(2, 4)), "expected (2, 4)"),
    "pixels out of range": (lambda: ref.Logit()(torch.tensor([[300.0]])), "between -14.2222 and 270.222"),
    "levels out of range": (lambda: ref.Dequantize(17)(torch.tensor([[17]])), "0 to 16"),
    "scaled levels": (lambda: ref.Dequantize(17)(torch.tensor([[0.5]])), "no whole numbers"),
    "noise out of range": (lambda: ref.Dequantize()(torch.tensor([[3]]), torch.tensor([[1.0]])), "outside [0, 1)"),
    "no permutation": (lambda: ref.Permute([0, 2, 2]), "once"),
    "a scale of zero": (lambda: ref.Affine(0.0, torch.tensor([1.0, 0.0])), "zero"),
    "the logarithm of nothing": (lambda: ref.Exp().inverse(torch.zeros(1, 2)), "strictly between 0 and inf"),
    "another order": (lambda: ref.Squeeze("nchw"), "space_to_depth"),  # type: ignore[arg-type]  # the mistake
    "another event": (lambda: ref.StandardNormal((3,)).log_prob(torch.zeros(2, 4)), "expected (N, 3)"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told_with_what_was_given_and_what_was_expected(mistake: str) -> None:
    """Each mistake raises `ValueError` in words."""
    make, words = WRONG[mistake]
    with pytest.raises(ValueError, match=r"got|gave") as raised:
        make()
    assert words in str(raised.value)
