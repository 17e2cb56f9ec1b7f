"""Surjections, RAD and augmentation of the reference: what they forget comes back by its noise, and their
densities have a mass of one, by quadrature and by enumeration.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from flowref import reference as ref

DOUBLE = torch.float64


def network(inputs: int, outputs: int, seed: int = 0) -> nn.Module:
    """A small network in double precision."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, 5), nn.Tanh(), nn.Linear(5, outputs)).double()


def normal(*shape: int, seed: int = 1) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def standard(z: Tensor) -> Tensor:
    """The standard normal log-density of each row."""
    return -0.5 * (z.square() + math.log(2 * math.pi)).flatten(1).sum(1)


KERNELS: dict[str, tuple[Callable[[], ref.Kernel], tuple[int, ...]]] = {
    "abs": (ref.Abs, (3,)),
    "slice": (lambda: ref.Slice(2, ref.ConditionalNormal(1, network(2, 2))), (3,)),
    "sort": (ref.Sort, (4,)),
    "max-pool": (lambda: ref.MaxPool(0.7), (2, 4, 2)),
    "rounding": (lambda: ref.Rounding(8), (3,)),
    "RAD": (lambda: ref.RAD(2, (-0.5, 1.0), network(2, 3)).double(), (2,)),
    "chain": (
        lambda: ref.KernelChain(
            ref.Affine(0.5, 2.0), ref.Slice(1, ref.ConditionalNormal(1, network(1, 2))), ref.Abs()
        ).double(),
        (2,),
    ),
}


def points(name: str, rows: int = 6) -> Tensor:
    """Points of a kernel's domain."""
    x = normal(rows, *KERNELS[name][1])
    return 8 * x.sigmoid() if name == "rounding" else x


@pytest.mark.parametrize("name", KERNELS)
def test_what_the_inverse_draws_is_forgotten_again(name: str) -> None:
    """f(g(z)) = z for every draw, and the contributions of the pair cancel."""
    kernel = KERNELS[name][0]()
    z = kernel(points(name))[0]
    for seed in range(8):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            x, back = kernel.inverse(z)
        again, there = kernel(x)
        torch.testing.assert_close(again, z, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(there, -back, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_the_reversal_is_the_same_numbers(name: str) -> None:
    """Forward is inverse and inverse forward, with the noise given; twice reversed it is itself."""
    kernel = KERNELS[name][0]()
    turned = ref.Reversed(kernel)
    x = points(name)
    z, there = kernel(x)
    assert torch.equal(turned.inverse(x)[0], z)
    assert turned.stochastic_forward
    assert not turned.stochastic_inverse
    assert torch.equal(ref.Reversed(turned)(x)[1], there)


def test_signs_are_enumerated() -> None:
    """Over all 2^D signs p(s | z) adds up to one; each is reached by its noise."""
    kernel, z = ref.Abs(), torch.tensor([[0.5, 1.5]], dtype=DOUBLE)
    seen, total = set(), 0.0
    for signs in itertools.product((0, 1), repeat=2):
        x, back = kernel.inverse(z, (torch.tensor([signs]),))
        seen.add(tuple(x[0].tolist()))
        total += math.exp(-back.item())
    assert len(seen) == 4
    assert total == pytest.approx(1.0)


def test_orders_are_enumerated() -> None:
    """Over all D! orders of the noise every arrangement comes once, with equal chances."""
    kernel, z = ref.Sort(), torch.tensor([[1.0, 2.0, 4.0]], dtype=DOUBLE)
    arrangements = []
    for keys in itertools.permutations((0.1, 0.5, 0.9)):
        x, back = kernel.inverse(z, (torch.tensor([keys], dtype=DOUBLE),))
        arrangements.append((tuple(x[0].tolist()), math.exp(-back.item())))
    assert {place for place, _ in arrangements} == set(itertools.permutations((1.0, 2.0, 4.0)))
    assert sum(chance for _, chance in arrangements) == pytest.approx(1.0)


def test_places_of_the_largest_are_enumerated() -> None:
    """Each of the four corners of a window is reached, the others keep their order, and lie below."""
    kernel, z = ref.MaxPool(), torch.tensor([[[[2.0]]]], dtype=DOUBLE)
    below = torch.tensor([0.1, -0.2, 0.3], dtype=DOUBLE).view(1, 1, 1, 1, 3)
    for place in range(4):
        x, _ = kernel.inverse(z, (torch.tensor([[[[place]]]]), below))
        flat = x.flatten().tolist()
        assert flat.pop(place) == 2.0
        assert flat == pytest.approx([1.9, 1.8, 1.7])


def test_the_density_of_a_pooled_window_is_a_product() -> None:
    """log 1/4, and half-normal log-densities of the three others, by scipy."""
    x = torch.tensor([[[[0.3, 1.0], [-0.5, 0.9]]]], dtype=DOUBLE)
    expected = math.log(0.25) + stats.halfnorm(scale=0.7).logpdf([0.7, 1.5, 0.1]).sum()
    assert ref.MaxPool(0.7)(x)[1].item() == pytest.approx(expected)


@pytest.mark.parametrize("rows", [2, 3])
def test_windows_are_those_of_torch(rows: int) -> None:
    """As max_pool2d takes them."""
    x = normal(rows, 3, 4, 6)
    assert torch.equal(ref.MaxPool()(x)[0], nn.functional.max_pool2d(x, 2))


def on_grid(log_prob: Callable[[Tensor], Tensor], cuts: tuple[float, ...]) -> float:
    """The integral of a density of two numbers over the plane, by Gauss-Legendre on pieces of the first
    that shrink toward the cuts.
    """
    marks = sorted({-3000.0, 3000.0, *cuts})
    first_nodes, first_weights = [], []
    nodes, weights = np.polynomial.legendre.leggauss(20)
    for low, high in itertools.pairwise(marks):
        # Densities end at a cut like the tails of a normal in the logarithm of the distance.
        middle = (low + high) / 2
        for a, b, side in ((low, middle, 1), (high, middle, -1)):
            edges = a + side * abs(b - a) * np.concatenate([[0.0], 2.0 ** np.arange(-45, 1)])
            for left, right in itertools.pairwise(edges):
                first_nodes.append((left + right) / 2 + (right - left) / 2 * nodes)
                first_weights.append(abs(right - left) / 2 * weights)
    x1, w1 = np.concatenate(first_nodes), np.concatenate(first_weights)
    wide, wide_weights = np.polynomial.legendre.leggauss(80)
    x2, w2 = 9 * wide, 9 * wide_weights
    grid = torch.tensor(np.array([(a, b) for a in x1 for b in x2]), dtype=DOUBLE)
    with torch.no_grad():
        values = log_prob(grid).exp().numpy().reshape(len(x1), len(x2))
    return float(w1 @ values @ w2)


def test_a_rad_density_has_a_mass_of_one() -> None:
    """Three regions with a gate that depends on the latents, integrated on both sides of each boundary."""
    layer: ref.Kernel = KERNELS["RAD"][0]()

    def log_prob(x: Tensor) -> Tensor:
        z, contribution = layer.forward(x)
        return standard(z) + contribution

    assert on_grid(log_prob, (-0.5, 1.0)) == pytest.approx(1.0, abs=1e-6)


def test_regions_are_picked_by_the_gate() -> None:
    """Shares of the unit interval, in order; points lie in the region whose share the noise falls into."""
    layer: Any = KERNELS["RAD"][0]()
    z = normal(1, 2)
    shares = layer.log_gate(z).exp()[0].detach()
    ends = torch.cat((torch.zeros(1), shares.cumsum(0)))
    bounds = [-math.inf, -0.5, 1.0, math.inf]
    for k in range(3):
        x, back = layer.inverse(z, (((ends[k] + ends[k + 1]) / 2)[None].to(DOUBLE),))
        assert bounds[k] < x[0, 0].item() < bounds[k + 1]
        torch.testing.assert_close(layer(x)[0], z)
        torch.testing.assert_close(layer(x)[1], -back)


def test_a_boundary_is_far_out() -> None:
    """Its latent and its contribution are finite, and it comes back."""
    layer = KERNELS["RAD"][0]()
    x = torch.tensor([[1.0, 0.2]], dtype=DOUBLE)
    z, contribution = layer(x)
    assert z[0, 0] < -700
    assert contribution.isfinite()
    assert torch.equal(layer.inverse(z, (torch.ones(1, dtype=DOUBLE),))[0], x)


def test_each_region_is_mapped_onto_the_line_with_its_slope() -> None:
    """The contribution beyond the gate is log|f'|, by autograd."""
    layer: Any = KERNELS["RAD"][0]()
    x = torch.tensor([[-2.0, 0.1], [0.2, -0.3], [4.0, 0.0]], dtype=DOUBLE, requires_grad=True)
    z, contribution = layer(x)
    (slope,) = torch.autograd.grad(z[:, 0].sum(), x)
    gate = layer.log_gate(z).gather(1, torch.tensor([[0], [1], [2]]))[:, 0]
    torch.testing.assert_close(contribution, gate + slope[:, 0].abs().log())


def augmented() -> ref.KernelFlow:
    """Two numbers with one of noise beside them, which depends on them, turned by a rotation."""
    turn = ref.InvertibleConv1x1(3, generator=torch.Generator().manual_seed(2))
    kernel = ref.KernelChain(ref.augment(2, 1, network(2, 2)), turn).double()
    return ref.KernelFlow(ref.StandardNormal((3,)), kernel).double()


def test_an_augmented_density_is_right_in_the_mean_of_the_exponential() -> None:
    """The integral over the noise of q(e | x) exp(bound) is the density of x, here standard normal: by
    Gauss-Hermite quadrature over the noise that is injected.
    """
    flow, x = augmented(), normal(4, 2)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    total = torch.zeros(4, dtype=DOUBLE)
    for node, weight in zip(nodes, weights / math.sqrt(2 * math.pi), strict=True):
        total += weight * flow.log_prob(x, (torch.full((4, 1), node, dtype=DOUBLE),)).exp().detach()
    # The rotation was drawn in single precision.
    torch.testing.assert_close(total.log(), standard(x), rtol=0, atol=1e-6)


def test_the_bound_lies_below_and_tightens() -> None:
    """On average: the gap is a divergence, and with more draws inside the logarithm it shrinks."""
    flow, x = augmented(), normal(1, 2).expand(3000, 2)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        bounds = [flow.importance_bound(x, draws).mean().item() for draws in (1, 4, 32)]
    truth = standard(x[:1]).item()
    assert bounds[0] < bounds[1] < bounds[2] < truth + 0.02
    assert truth - bounds[2] < 0.25 * (truth - bounds[0])


def test_it_says_when_it_is_a_bound() -> None:
    """Where forward draws, and nowhere else."""
    assert augmented().lower_bound
    flow = ref.KernelFlow(ref.StandardNormal((2,)), KERNELS["RAD"][0]())
    assert not flow.lower_bound
    assert torch.equal(flow.log_prob(points("RAD")), flow.log_prob(points("RAD")))


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "noise of another shape": (
        lambda: ref.Abs().inverse(torch.ones(2, 3), (torch.ones(2, 2),)),
        r"got noise of shapes \[\(2, 2\)\]; expected \[\(2, 3\)\]",
    ),
    "a negative magnitude": (lambda: ref.Abs().inverse(-torch.ones(1, 1)), "none below 0"),
    "an event of another size": (
        lambda: ref.Slice(2, ref.ConditionalNormal(1))(torch.ones(1, 4)),
        r"for a slice; expected \(N, 3\)",
    ),
    "a decreasing vector": (
        lambda: ref.Sort().inverse(torch.tensor([[2.0, 1.0]])),
        "entries that increase",
    ),
    "an odd image": (lambda: ref.MaxPool()(torch.ones(1, 1, 3, 4)), "even height and width"),
    "a number beyond the levels": (lambda: ref.Rounding(4)(torch.tensor([[4.0]])), r"\[0, 4\)"),
    "no level": (lambda: ref.Rounding(4).inverse(torch.tensor([[1.5]])), "no whole numbers"),
    "boundaries that fall": (lambda: ref.RAD(1, (1.0, 0.0)), "increasing"),
    "a network of another size": (
        lambda: ref.augment(2, 2, nn.Linear(2, 3))(torch.ones(1, 2)),
        "the network gave shape",
    ),
    "no draws": (lambda: augmented().importance_bound(normal(1, 2), 0), "one at least"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_words(name: str) -> None:
    """With what was got and what is expected."""
    run, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        run()
