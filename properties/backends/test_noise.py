"""Monte-Carlo arithmetic: exact operations stay exact, others move by rounding and no more, and
nothing else changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from flowref.backends.torch import noise
from flowref.backends.torch.noise import RandomRounding
from flowref.backends.torch.torch_float32 import Narrowing
from flowref.model import Undecidable

MAGNITUDE = 2.0**-43
DTYPES = [torch.float64, torch.float32]

EXACT: dict[str, Callable[[Any], Any]] = {
    "times-two": lambda x: x * 2,
    "times-an-eighth": lambda x: x * 0.125,
    "times-minus-one": lambda x: x * -1,
    "divided-by-four": lambda x: x / 4,
    "plus-zero": lambda x: x + 0,
    "minus-zero": lambda x: x - torch.zeros_like(x),
    "negated": lambda x: -x,
    "absolute": lambda x: x.abs(),
    "view": lambda x: x.reshape(2, -1).transpose(0, 1).flip(0),
    "indexed": lambda x: x[[3, 1, 1, 0]],
    "masked": lambda x: x[x > 0],
    "where": lambda x: torch.where(x > 0, x, torch.ones_like(x)),
    "clamped": lambda x: x.clamp(-0.5, 0.5),
    "relu": torch.relu,
    "sorted": lambda x: x.sort()[0],
    "largest": lambda x: x.max(),
    "copied": lambda x: x.clone().detach(),
    "joined": lambda x: torch.cat([x, x]),
    "compared": lambda x: (x > 0.3).to(x.dtype),
    "floor": torch.floor,
    "whole-sums": lambda x: (8 * x).round() + torch.arange(len(x), dtype=x.dtype),
    "scattered": lambda x: torch.zeros(9, dtype=x.dtype).index_copy(0, torch.arange(len(x)), x),
}
# Functions whose results may move, by how many magnitudes at most where no cancellation takes
# place.
ROUNDED: dict[str, tuple[Callable[[Any], Any], float]] = {
    "plus": (lambda x: x + 0.3, 1),
    "times": (lambda x: x * 0.3, 1),
    "divided": (lambda x: x / 3, 1),
    "square": (lambda x: x * x, 1),
    "exp": (torch.exp, 1),
    "log": (lambda x: x.abs().log(), 1),
    "tanh": (torch.tanh, 1),
    "sqrt": (lambda x: x.abs().sqrt(), 1),
    "softplus": (torch.nn.functional.softplus, 1),
    "erfinv": (lambda x: torch.erfinv(x / 4), 10),
    "sum-of-squares": (lambda x: (x * x).sum(), 4),
    "mean-of-squares": (lambda x: (x * x).mean(), 4),
    "product": (lambda x: (x * x).reshape(2, -1) @ (x * x).reshape(-1, 2), 5),
    "logsumexp": (lambda x: (x * x + 3).logsumexp(0), 8),
    "added-in-place": (
        lambda x: torch.ones(2, dtype=x.dtype).scatter_add_(0, torch.arange(len(x)) % 2, x * x),
        8,
    ),
}


def values(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Numbers of both signs that no operation treats in a special way."""
    return torch.tensor([0.7, -1.3, 2.9, 0.11, -0.37, 1.9, 0.53, -2.3], dtype=dtype)


def noised(
    call: Callable[[Any], Any], x: torch.Tensor, magnitude: float = MAGNITUDE, seed: int = 0
) -> Any:
    """A call under noise."""
    with RandomRounding(magnitude, seed):
        return call(x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_exact_operations_stay_exact(name: str, dtype: torch.dtype) -> None:
    """What floating point does without rounding is the same bit for bit under any noise."""
    x = values(dtype)
    assert torch.equal(noised(EXACT[name], x, 1e-2), EXACT[name](x))


@pytest.mark.parametrize(
    "factorize", [torch.linalg.slogdet, torch.linalg.lu], ids=["sign", "permutation"]
)
def test_signs_and_permutations_stay_exact(factorize: Callable[[Any], Any]) -> None:
    """Callers branch by the sign of a determinant, which no rounding moves off one; nor does any
    move a permutation.
    """
    matrix = torch.diag(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)).roll(1, 0)
    assert torch.equal(noised(factorize, matrix, 1e-2)[0], factorize(matrix)[0])


def test_a_low_threshold_of_softplus_is_no_rounding() -> None:
    """Only the error of torch's default threshold is excused: a lower one is a choice, which moves
    results visibly.
    """
    x = torch.full((8,), 6.0, dtype=torch.float64)
    moved = noised(lambda given: torch.nn.functional.softplus(given, threshold=5.0), x, 2.0**-53)
    assert (moved - x).abs().max() < 1e-7


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_operations_move_within_their_magnitude(name: str) -> None:
    """What rounds moves, in some entry of every run, and in no entry by more than the stated
    multiple of the magnitude.
    """
    call, multiple = ROUNDED[name]
    clean = call(values())
    for seed in range(8):  # eight draws of one quantity
        moved = (noised(call, values(), seed=seed) - clean).abs()
        assert moved.max() > 0
        assert (moved <= multiple * MAGNITUDE * (1 + 1e-6) * clean.abs()).all()


@pytest.mark.parametrize("name", ["times", "exp", "product"])
def test_noise_reaches_its_magnitude(name: str) -> None:
    """Over many runs the largest relative change comes close to the magnitude: noise is not far
    smaller than asked for.
    """
    call, _ = ROUNDED[name]
    clean = call(values())
    largest = max(
        float(((noised(call, values(), seed=seed) - clean) / clean).abs().max())
        for seed in range(40)
    )
    assert largest > 0.8 * MAGNITUDE


@pytest.mark.parametrize("name", ROUNDED)
def test_noise_is_a_function_of_its_seed(name: str) -> None:
    """The same seed gives the same result bit for bit, and another seed another."""
    call, _ = ROUNDED[name]
    first, again, other = (noised(call, values(), seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", ROUNDED)
def test_no_magnitude_no_noise(name: str) -> None:
    """At magnitude zero every result is the clean one."""
    call, _ = ROUNDED[name]
    assert torch.equal(noised(call, values(), 0.0), call(values()))


@pytest.mark.parametrize("affine", [False, True], ids=["plain", "affine"])
@pytest.mark.parametrize("mean", [0.0, 1.0, 100.0])
def test_group_norm_moves_as_far_as_a_variance_in_one_pass(mean: float, affine: bool) -> None:
    """What layouts of memory make of a group normalization lies within its noise, and not far
    within: one layout takes the variance as E[x^2] - E[x]^2.
    """
    generator = torch.Generator().manual_seed(0)
    x = mean + 1e-3 * torch.randn(3, 4, 4, 4, generator=generator, dtype=torch.float64)
    norm = torch.nn.GroupNorm(2, 4, affine=affine, dtype=torch.float64)
    last = x.contiguous(memory_format=torch.channels_last)
    off = (norm(x) - norm(last)).abs().max().item()
    unit = 2.0**-53
    moved = max((noised(norm, x, unit, seed) - norm(x)).abs().max().item() for seed in range(16))
    assert off <= 4 * moved
    assert moved <= 64 * unit * (1 + mean**2 / (1e-5 + 1e-6))


@pytest.mark.parametrize("name", ["sum", "mean", "logsumexp", "prod", "var_mean", "cumsum", "dist"])
def test_reductions_of_single_numbers_round(name: str) -> None:
    """A tensor without axes is reduced under noise to what it is without, up to rounding: parameters
    that are single numbers make no law undecided.
    """
    number = torch.tensor(0.7, dtype=torch.float64)
    reduced: dict[str, Callable[[], Any]] = {
        "sum": number.sum,
        "mean": number.mean,
        "logsumexp": lambda: number.logsumexp(0),
        "prod": number.prod,
        "var_mean": lambda: torch.var_mean(number, unbiased=False)[1],
        "cumsum": lambda: number.cumsum(0),
        "dist": lambda: torch.dist(number, torch.zeros_like(number)),
    }
    with RandomRounding(2.0**-40, 1):
        rounded = reduced[name]()
    assert abs(float(rounded - reduced[name]())) <= 2.0**-36


def test_global_random_state_is_left_alone() -> None:
    """Noise comes from its own generator: the streams that the subject draws from do not notice it."""
    torch.manual_seed(3), np.random.seed(3)
    expected = torch.rand(4), np.random.rand(4)
    torch.manual_seed(3), np.random.seed(3)
    noised(lambda x: (x.exp() @ x).tanh(), values())
    found = torch.rand(4), np.random.rand(4)
    assert torch.equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


def test_the_inputs_are_not_written_to() -> None:
    """Operators that round their inputs inside do so on copies."""
    x = values()
    before = x.clone()
    noised(
        lambda x: (
            x.sum(),
            x @ x,
            torch.linalg.inv(torch.outer(x, x) + torch.eye(8, dtype=x.dtype)),
        ),
        x,
    )
    assert torch.equal(x, before)


def test_writing_in_place_is_seen_in_place() -> None:
    """An operation in place under noise changes the tensor that it was called on, and returns it."""
    x = values()

    def scale(x: torch.Tensor) -> bool:
        return x.mul_(0.3) is x

    assert noised(scale, x)
    assert not torch.equal(x, values() * 0.3)
    torch.testing.assert_close(x, values() * 0.3, rtol=2 * MAGNITUDE, atol=0)


def test_backward_passes_are_noised_too() -> None:
    """Gradients are results of operations like any other: they move, and within their magnitude."""
    x = values().requires_grad_()

    def slope(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(x.tanh().sum(), x)[0]

    clean, moved = slope(x), noised(slope, x)
    assert not torch.equal(clean, moved)
    torch.testing.assert_close(moved, clean, rtol=40 * MAGNITUDE, atol=40 * MAGNITUDE)


@pytest.mark.parametrize("special", [math.inf, -math.inf, math.nan, 0.0, -0.0])
def test_special_values_stay_what_they_are(special: float) -> None:
    """Noise makes no infinity or nan of anything else, and none of them finite; zeros keep their
    sign.
    """
    x = torch.tensor([special], dtype=torch.float64)
    np.testing.assert_array_equal(noised(lambda x: x * 3, x).numpy(), (x * 3).numpy())
    assert torch.signbit(noised(lambda x: x * 3, x)) == torch.signbit(x)


def test_only_what_is_narrowed_is_disturbed() -> None:
    """A float64 value cast to float32 is disturbed, and so is what is computed from it; nothing
    else is.
    """
    single = values(torch.float32)
    with Narrowing(1e-3, 0) as mode:
        double = values() * 0.3
        alone = single * 0.3
        assert not mode.disturbed
        narrowed = values().to(torch.float32)
        after = narrowed * 0.3
    assert torch.equal(double, values() * 0.3)
    assert torch.equal(alone, single * 0.3)
    assert not torch.equal(narrowed, single)
    assert not torch.equal(after, narrowed * 0.3)


def cast_in(module: str) -> Callable[[Any], Any]:
    """The cast to float32 and back, called by a module's code."""
    space: dict[str, Any] = {"__name__": module}
    exec("def cast(x):\n    return x.float().sqrt().double()", space)
    call: Callable[[Any], Any] = space["cast"]
    return call


CALLERS = [("norms", True), ("norms.layers", True), ("normsy", False), ("models", False)]


@pytest.mark.parametrize(("module", "meant"), CALLERS)
def test_single_precision_of_a_module_may_be_meant(module: str, meant: bool) -> None:
    """Where a module, or one within it, computes in float32 on purpose, its results are not disturbed, and their
    rounding is that of float32.
    """
    x, cast = values().abs(), cast_in(module)
    with Narrowing(1e-3, 0, meant=("norms",)) as mode:
        cast(x)
    assert bool(mode.disturbed) is not meant
    for single in (False, True):
        with RandomRounding(MAGNITUDE, 0, single=single, meant=("norms",)):
            off = (cast(x) - x.sqrt()).abs() / x.sqrt()
        assert bool(off.median() > MAGNITUDE * 2.0**24) is meant


SINGLES = [0.1, -0.37, 1.9, 3.3e-5, 7.25e8]
SHORT = [0.0, 1.0, -0.5, 3.25, 1024.0]
WIDER: dict[str, Callable[[Any], Any]] = {
    "cast": lambda x: x.double(),
    "mixed": lambda x: x * torch.ones(len(x), dtype=torch.float64),
    "joined": lambda x: torch.cat([x, torch.zeros(1, dtype=torch.float64)])[:-1],
    "written": lambda x: torch.zeros(len(x), dtype=torch.float64).copy_(x),
    "turned": lambda x: x.flip(0).double().flip(0),
    "asked-for": lambda x: torch.tensor([one.item() for one in x], dtype=torch.float64),
}


@pytest.mark.parametrize("way", WIDER)
def test_a_number_in_single_precision_stands_for_those_that_round_to_it(way: str) -> None:
    """Where single precision enters double precision each number moves by its own rounding, as many
    units as the noise has, and to the same number on every way; another run moves it elsewhere.
    """
    x = torch.tensor(SINGLES)
    moved = noised(WIDER[way], x)
    off = (moved - x.double()).abs() / x.double().abs()
    assert (off > 0).any()
    assert (off <= MAGNITUDE * 2.0**29 * 1.01).all()
    assert torch.equal(moved, noised(WIDER["cast"], x))
    assert not torch.equal(moved, noised(WIDER[way], x, seed=1))


@pytest.mark.parametrize("way", WIDER)
def test_short_numbers_in_single_precision_are_meant_as_they_stand(way: str) -> None:
    """Masks, counts and halves were never rounded."""
    x = torch.tensor(SHORT)
    assert torch.equal(noised(WIDER[way], x), x.double())


def test_single_precision_is_rounded_as_coarsely_as_it_is() -> None:
    """What is computed in single precision moves by single precision's units under noise that is
    meant for double precision, and by the noise itself where that is larger.
    """
    x = values(torch.float32)
    clean = x.exp()
    for magnitude, expected in ((MAGNITUDE, MAGNITUDE * 2.0**29), (2.0**-20, 2.0**-20)):
        off = ((noised(torch.exp, x, magnitude) - clean) / clean).abs().max()
        assert 0.1 * expected < off < 1.1 * expected


def test_a_written_tensor_is_still_the_one_that_is_written_to() -> None:
    """What stands for a number is no copy to write into."""
    x = torch.tensor(SINGLES)
    noised(lambda one: one.mul_(torch.tensor(2.0, dtype=torch.float64)), x)
    assert torch.equal(x, 2 * torch.tensor(SINGLES))


def test_a_budget_ends_an_iteration_that_does_not_settle() -> None:
    """A loop that waits for bits that noise keeps moving is given up as undecidable, not left
    running.
    """

    def forever(x: torch.Tensor) -> torch.Tensor:
        while True:
            x = x.tanh()

    with pytest.raises(Undecidable), RandomRounding(MAGNITUDE, 0, budget=50):
        forever(values())


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "erf"])
def test_bounded_functions_stay_in_their_range(name: str) -> None:
    """Rounding never takes a value of tanh, sigmoid or erf out of its closed range, so that their
    inverses stay finite.
    """
    x = torch.linspace(-40, 40, 41, dtype=torch.float64)
    call = getattr(torch, name)
    found = noised(call, x, 1e-3)
    assert found.min() >= (0.0 if name == "sigmoid" else -1.0)
    assert found.max() <= 1.0


@given(st.lists(st.integers(-(2**20), 2**20), min_size=2, max_size=20), st.integers(0, 2**32))
def test_sums_of_integers_stay_exact(numbers: list[int], seed: int) -> None:
    """Adding whole numbers of moderate size one after another has no rounding error, whatever the
    numbers.
    """
    with RandomRounding(1e-2, seed):
        total = torch.zeros((), dtype=torch.float64)
        for number in numbers:
            total = total + float(number)
    assert total.item() == sum(numbers)


@given(st.floats(-1e100, 1e100), st.integers(-60, 60), st.integers(0, 2**32))
def test_products_with_powers_of_two_stay_exact(x: float, exponent: int, seed: int) -> None:
    """Scaling by a power of two has no rounding error, as a number, as a tensor and as a divisor."""
    power = 2.0**exponent
    with RandomRounding(1e-2, seed):
        number = torch.tensor(x, dtype=torch.float64)
        found = (
            number * power,
            number * torch.tensor(power, dtype=torch.float64),
            number / (1 / power),
        )
    assert [value.item() for value in found] == [x * power] * 3


@pytest.mark.parametrize("name", ["product", "transform", "solution"])
def test_complex_numbers_round_in_any_direction(name: str) -> None:
    """Both parts are off by as much as the modulus is rounded, also where one of them is zero."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    wave = torch.exp(1j * x)
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "product": lambda: wave * wave.conj(),
        "transform": lambda: torch.fft.fft2(x),
        "solution": lambda: torch.linalg.solve(wave, wave @ wave),
    }
    plain = calls[name]()
    with RandomRounding(MAGNITUDE, 0):
        noised_values = calls[name]()
    off = torch.view_as_real(noised_values - plain).abs()
    assert (off > 0).any(0).any(0).all()
    assert off.max() < 1e3 * MAGNITUDE * plain.abs().max()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_memory_that_is_used_again_holds_no_result(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large products in a row give bit for bit what they give in memory of their own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 300, generator=generator, dtype=dtype, requires_grad=True)
    kernel = torch.randn(130, 130, 2, 2, generator=generator, dtype=dtype)

    def products() -> list[torch.Tensor]:
        with RandomRounding(MAGNITUDE, 0):
            first, second = x @ x, x @ x.T
            image = torch.nn.functional.conv2d(x[:260].reshape(2, 130, 10, 30), kernel)
            (slope,) = torch.autograd.grad(image.sum() + (first * second).sum(), x)
        return [first, second, image, slope]

    used_again = products()
    monkeypatch.setattr(noise, "REUSED", 0)
    assert all(map(torch.equal, used_again, products()))
