"""Continuous flows of the reference, by matrix exponentials, orders of convergence and derivatives."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from flowref import reference as ref
from flowref.reference.continuous import with_divergence
from flowref.reference.solver import runge_kutta, solve

DOUBLE = torch.float64
MATRIX = torch.tensor([[0.3, -0.8], [0.5, 0.2]], dtype=DOUBLE)


def linear(t: Tensor, z: Tensor) -> Tensor:
    """z' = A z."""
    return z @ MATRIX.mT


def timed(t: Tensor, z: Tensor) -> Tensor:
    """z' = cos(t) tanh(z): neither linear nor autonomous."""
    return torch.cos(3 * t) * z.tanh() + 0.2 * z.flip(1)


def normal(*shape: int, seed: int = 1) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def potential(features: int = 3, rank: int | None = 2) -> ref.Potential:
    """In double precision, with every weight moved."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = ref.Potential(features, 5, rank).double()
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.add_(0.5 * torch.randn_like(parameter))
    return made


def test_a_linear_field_is_a_matrix_exponential() -> None:
    """z(T) = e^{TA} x, and the log-det is T tr A; the inverse is the way back."""
    flow, x = ref.CNF(linear, 0.7), normal(4, 2)
    z, ladj = flow(x)
    torch.testing.assert_close(z, x @ torch.linalg.matrix_exp(0.7 * MATRIX).mT, rtol=0, atol=1e-8)
    torch.testing.assert_close(ladj, (0.7 * MATRIX.trace()).expand(4), rtol=0, atol=1e-8)
    back, minus = flow.inverse(z)
    torch.testing.assert_close(back, x, rtol=0, atol=1e-7)
    torch.testing.assert_close(minus, -ladj, rtol=0, atol=1e-8)


def test_samples_are_made_without_divergences() -> None:
    """What generates is the inverse, by evaluations of the field alone."""
    derived: list[bool] = []

    def watched(t: Tensor, z: Tensor) -> Tensor:
        derived.append(z.requires_grad)
        return timed(t, z)

    z = normal(4, 2)
    flow = ref.Chain(ref.CNF(watched), ref.Permute(torch.tensor([1, 0])))
    generated, evaluations = flow.generate(z), len(derived)
    assert evaluations and not any(derived)
    torch.testing.assert_close(generated, flow.inverse(z)[0], rtol=0, atol=1e-7)
    assert any(derived[evaluations:])
    with pytest.raises(ValueError, match="expected vectors"):
        ref.CNF(watched).generate(z[0])


def test_the_method_is_of_order_four() -> None:
    """Half the step, a sixteenth of the error: also where the field depends on time."""
    x = normal(3, 2)
    truth = runge_kutta(timed, x, 0.0, 1.0, 2000)
    errors = [(runge_kutta(timed, x, 0.0, 1.0, n) - truth).abs().max().item() for n in (8, 16, 32)]
    for coarse, fine in itertools.pairwise(errors):
        assert 3.5 < math.log2(coarse / fine) < 4.6


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
def test_the_tolerance_is_met(tolerance: float) -> None:
    """By each row alone, however steep the others' paths are."""
    x = normal(3, 2) * torch.tensor([[1.0], [0.1], [30.0]], dtype=DOUBLE)
    truth = runge_kutta(timed, x, 0.0, 1.0, 4000)
    found = solve(timed, x, 0.0, 1.0, tolerance)
    assert ((found - truth).abs().amax(1) <= tolerance * (1 + truth.abs().amax(1))).all()
    alone = solve(timed, x[1:2], 0.0, 1.0, tolerance)
    torch.testing.assert_close(found[1:2], alone, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("tolerance", "most"), [(1e-3, 48), (1e-6, 112), (1e-9, 240)])
def test_evaluations_are_few(tolerance: float, most: int) -> None:
    """Four of them a step, of 4, 8, 16, ... steps; what is added to the last result saves one halving."""
    calls = []

    def rate(t: Tensor, state: Tensor) -> Tensor:
        calls.append(t)
        return torch.sin(state) + t.cos()

    start = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None]
    found = solve(rate, start, 0.0, 1.0, tolerance)
    assert len(calls) <= most
    exact = solve(rate, start, 0.0, 1.0, 1e-13)
    assert (found - exact).abs().max() <= tolerance


def test_what_does_not_converge_says_so() -> None:
    """A field with a jump that is steep beside it."""
    with pytest.raises(ref.NotConverged, match="32 steps from 0 to 1 leave an error"):
        solve(lambda t, z: 300 * torch.sin(300 * z), normal(2, 2), 0.0, 1.0, 1e-9, most=32)


def test_the_log_det_is_that_of_the_map() -> None:
    """By autograd through the steps."""
    flow, x = ref.CNF(timed, 0.8), normal(3, 2)
    jacobians = [
        torch.autograd.functional.jacobian(lambda p: flow(p[None])[0][0], row) for row in x
    ]
    expected = torch.linalg.slogdet(torch.stack(jacobians)).logabsdet
    torch.testing.assert_close(flow(x)[1], expected, rtol=0, atol=1e-6)


def test_times_add_up() -> None:
    """From 0 to s and from s to T is from 0 to T; log-dets add."""
    flow, x = ref.CNF(timed, 1.0), normal(3, 2)
    middle, first = flow.flow(x, 0.0, 0.3)
    end, second = flow.flow(middle, 0.3, 1.0)
    z, ladj = flow(x)
    torch.testing.assert_close(end, z, rtol=0, atol=1e-7)
    torch.testing.assert_close(first + second, ladj, rtol=0, atol=1e-7)


def test_signs_give_the_trace_on_average() -> None:
    """The mean over all 2^D vectors of signs is the trace, exactly; of log-dets too."""
    x, t = normal(2, 3), torch.tensor(0.4, dtype=DOUBLE)
    field: Any = ref.TimedMLP(3, (6,)).double()
    exact = with_divergence(field, t, x)[1]
    every = [
        torch.tensor(signs, dtype=DOUBLE).expand(2, 3)
        for signs in itertools.product((-1.0, 1.0), repeat=3)
    ]
    mean = torch.stack([with_divergence(field, t, x, signs)[1] for signs in every]).mean(0)
    torch.testing.assert_close(mean, exact, rtol=1e-12, atol=1e-14)
    flow = ref.CNF(field, 0.5, "hutchinson").train()
    log_dets = torch.stack([flow(x, (signs,))[1] for signs in every]).mean(0)
    torch.testing.assert_close(log_dets, flow.eval()(x)[1], rtol=0, atol=1e-7)


def test_noise_lives_for_a_solve_and_no_longer() -> None:
    """One vector for all evaluations of a solve, another for the next; none in eval mode."""
    seen: list[Any] = []

    class Watched(ref.CNF):
        """Keeps what it is given."""

        def velocity(
            self, t: Tensor, z: Tensor, signs: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            """The field and its divergence."""
            seen.append(signs)
            return super().velocity(t, z, signs)

    flow, x = Watched(timed, 0.5, "hutchinson"), normal(5, 2)
    flow.train()(x)
    first = seen[:]
    assert all(one is first[0] for one in first)
    flow(x)
    assert not torch.equal(seen[-1], first[0])
    flow.eval()(x)
    assert seen[-1] is None


def test_order_is_kept_on_the_line() -> None:
    """Paths do not cross."""
    x = torch.linspace(-3, 3, 50, dtype=DOUBLE)[:, None]
    z = ref.CNF(lambda t, z: torch.sin(4 * z) - z, 1.0)(x)[0]
    assert (z.diff(dim=0) > 0).all()


def test_with_an_added_direction_paths_pass_each_other() -> None:
    """x to -x, by half a turn of the plane; on the line alone no flow does that."""

    def turn(t: Tensor, z: Tensor) -> Tensor:
        return math.pi * torch.stack((-z[:, 1], z[:, 0]), 1)

    flow, x = ref.ANODE(turn, 1), normal(4, 1)
    z = flow(x)
    torch.testing.assert_close(z, torch.cat((-x, 0 * x), 1), rtol=0, atol=1e-6)
    torch.testing.assert_close(flow.inverse(z), x, rtol=0, atol=1e-6)


def test_zeros_beside_the_data_have_no_density() -> None:
    """The map is onto no set with a volume; and a point that is no output is refused."""
    flow = ref.ANODE(linear, 1)
    with pytest.raises(ValueError, match="add noise instead of zeros"):
        flow.log_prob(normal(2, 1))
    with pytest.raises(ValueError, match="expected an output of forward"):
        flow.inverse(normal(2, 2))


@pytest.mark.parametrize(("features", "rank"), [(2, 1), (5, None)])
def test_the_closed_forms_are_those_of_autograd(features: int, rank: int | None) -> None:
    """Gradient, derivative in time and the trace of the Hessian, to rounding."""
    made, x = potential(features, rank), normal(3, features)
    t = torch.tensor(0.3, dtype=DOUBLE, requires_grad=True)
    for row in x:
        point = row.clone().requires_grad_()
        by_t, by_x = torch.autograd.grad(made(t, point[None]).sum(), (t, point))
        hessian = torch.autograd.functional.hessian(lambda p: made(t, p[None]).sum(), row)
        slopes = made.slopes(t, row[None])
        torch.testing.assert_close(slopes.time[0], by_t, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(slopes.space[0], by_x, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(slopes.laplacian[0], hessian.trace(), rtol=1e-11, atol=1e-12)


def test_the_field_turns_nothing() -> None:
    """Its Jacobian is symmetric, and its divergence the trace of that."""
    flow, x, t = ref.OTFlow(potential()), normal(1, 3), torch.tensor(0.2, dtype=DOUBLE)
    jacobian = torch.autograd.functional.jacobian(lambda p: flow.velocity(t, p[None])[0][0], x[0])
    torch.testing.assert_close(jacobian, jacobian.mT, rtol=0, atol=1e-12)
    torch.testing.assert_close(flow.velocity(t, x)[1][0], jacobian.trace(), rtol=0, atol=1e-12)


def straight() -> tuple[ref.Potential, Tensor]:
    """Phi = -c x + t |c|^2 / 2, whose paths are straight and of constant speed c."""
    made = ref.Potential(2, 3, 1).double()
    c = torch.tensor([0.5, -1.5], dtype=DOUBLE)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
        made.b.copy_(torch.cat((-c, 0.5 * (c @ c)[None])))
    return made, c


def test_straight_paths_solve_the_equation_and_cost_half_their_square() -> None:
    """The residual of Hamilton, Jacobi and Bellman is 0, and the transport costs |z(T) - z(0)|^2 / 2."""
    made, c = straight()
    flow, x = ref.OTFlow(made), normal(4, 2)
    assert flow.hjb_residual(torch.tensor(0.3, dtype=DOUBLE), x).abs().max() < 1e-15
    z, ladj = flow(x)
    torch.testing.assert_close(z, x + c)
    assert ladj.abs().max() < 1e-15
    costs = flow.costs(x)
    torch.testing.assert_close(costs.transport, 0.5 * (z - x).square().sum(1))
    assert costs.hjb.abs().max() < 1e-14


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ref.CNF(linear, -1.0), "got time=-1.0"),
        (lambda: ref.CNF(linear, trace="some"), "'exact' or 'hutchinson'"),  # type: ignore[arg-type]  # the slip
        (lambda: ref.CNF(lambda t, z: z[:, :1])(normal(2, 3)), "the field gave shape"),
        (lambda: ref.CNF(linear)(normal(2, 3, 4)), r"expected vectors, \(N, D\)"),
        (lambda: ref.ANODE(linear, 0), "one entry at least"),
        (lambda: potential(3)(torch.zeros(()), normal(2, 4)), "a potential of 3 features"),
    ],
)
def test_bad_input_is_refused_in_words(make: Any, words: str) -> None:
    """With what was got and what is expected."""
    with pytest.raises(ValueError, match=words):
        make()
