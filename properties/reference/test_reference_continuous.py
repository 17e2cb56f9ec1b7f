"""Continuous flows of the reference, by matrix exponentials, orders of convergence and derivatives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from flowref import reference as ref
from flowref.reference import continuous
from flowref.reference.continuous import with_divergence
from flowref.reference.solver import (
    SolverStep,
    one_step,
    path_integral,
    runge_kutta_steps,
    solve,
    state_at_time,
    weights,
)

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


def equal_steps(x: Tensor, n: int) -> list[SolverStep]:
    """A path from 0 to 1 in n steps."""
    path: list[SolverStep] = []
    for index in range(n):
        before = path[-1].after if path else x
        slope = timed(torch.tensor(index / n, dtype=DOUBLE), before)
        path.append(one_step(timed, before, slope, index / n, 1 / n))
    return path


@pytest.mark.parametrize(("time", "order"), [(1.0, 5), (0.37, 4), (0.83, 4)])
def test_the_orders_of_the_method(time: float, order: int) -> None:
    """Half the step, a 32nd of the error at the ends of steps, a 16th at least between them: also where the
    field depends on time.
    """
    x = normal(3, 2)
    truth = solve(timed, x, 0.0, time, 1e-14)
    errors = [
        (state_at_time(equal_steps(x, n), time) - truth).abs().max().item() for n in (4, 8, 16, 32)
    ]
    assert math.log2(errors[0] / errors[-1]) / 3 > order - 0.5


@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
@pytest.mark.parametrize("end", [1.0, -2.0])
def test_the_tolerance_is_met(tolerance: float, end: float) -> None:
    """By each row, however steep the others' paths are, and whether they are there or not."""
    x = normal(3, 2) * torch.tensor([[1.0], [0.1], [30.0]], dtype=DOUBLE)
    truth = equal_steps_to(x, end)
    for rows in (slice(None), slice(1, 2)):
        found = solve(timed, x[rows], 0.0, end, tolerance)
        size = 1 + truth[rows].abs().amax(1)
        assert ((found - truth[rows]).abs().amax(1) <= tolerance * size).all()


def equal_steps_to(x: Tensor, end: float, n: int = 400) -> Tensor:
    """The state at a time by the classical method of order four."""
    h = end / n
    for index in range(n):
        t = torch.tensor(index * h, dtype=DOUBLE)
        k1 = timed(t, x)
        k2 = timed(t + h / 2, x + h / 2 * k1)
        k3 = timed(t + h / 2, x + h / 2 * k2)
        k4 = timed(t + h, x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


@pytest.mark.parametrize(("tolerance", "most"), [(1e-3, 13), (1e-6, 55), (1e-9, 270)])
def test_evaluations_are_few(tolerance: float, most: int) -> None:
    """Six of them a step, and one at first."""
    calls = []

    def rate(t: Tensor, state: Tensor) -> Tensor:
        calls.append(t)
        return torch.sin(state) + t.cos()

    start = torch.linspace(-2, 2, 5, dtype=torch.float64)[:, None]
    found = solve(rate, start, 0.0, 1.0, tolerance)
    assert len(calls) % 6 == 1
    assert len(calls) <= most
    exact = solve(rate, start, 0.0, 1.0, 1e-13)
    assert (found - exact).abs().max() <= tolerance


@pytest.mark.parametrize(("tolerance", "most"), [(1e-3, 13), (1e-6, 25), (1e-9, 97)])
def test_divergences_are_few(tolerance: float, most: int) -> None:
    """They are evaluated at nodes of their own, not in each stage of a step."""
    times = []

    class Counted(ref.CNF):
        """Keeps the times at which there are divergences."""

        def velocity(
            self, t: Tensor, z: Tensor, signs: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            """The field and its divergence."""
            times.append(float(t))
            return super().velocity(t, z, signs)

    x = normal(4, 2)
    ladj = Counted(timed, tolerance=tolerance)(x)[1]
    assert len(times) == len(set(times)) <= most
    exact = ref.CNF(timed, tolerance=1e-12)(x)[1]
    assert ((ladj - exact).abs() <= tolerance * (2 + exact.abs())).all()


@pytest.mark.parametrize("n", [1, 2, 3, 6, 24])
def test_the_rule_is_exact_for_polynomials(n: int) -> None:
    """Up to degree n, with positive weights."""
    found = weights(n)
    nodes = [(1 - math.cos(math.pi * j / n)) / 2 for j in range(n + 1)]
    assert min(found) > 0
    for degree in range(n + 1):
        total = sum(w * t**degree for w, t in zip(found, nodes, strict=True))
        assert abs(total - 1 / (degree + 1)) < 1e-14


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize(
    ("speed", "truth"),
    [
        (lambda t: 3 * torch.cos(20 * t), 3 * math.sin(20) / 20),
        (
            lambda t: torch.exp(2 * t) * torch.cos(3 * t),
            (math.exp(2) * (2 * math.cos(3) + 3 * math.sin(3)) - 2) / 13,
        ),
        (lambda t: 5 / (1 + (8 * (t - 0.6)) ** 2), 5 / 8 * (math.atan(3.2) + math.atan(4.8))),
        (lambda t: (t + 0.01).sqrt(), (1.01**1.5 - 0.01**1.5) / 1.5),
    ],
    ids=["waves", "swings", "peak", "root"],
)
def test_log_dets_are_as_exact_as_they_say(
    speed: Callable[[Tensor], Tensor], truth: float, tolerance: float
) -> None:
    """z' = a(t) z: the log-det is D times the integral of a, which logarithms of the state are, too."""
    x = normal(1, 3)
    z, ladj = ref.CNF(lambda t, z: speed(t) * z, tolerance=tolerance)(x)
    assert abs(ladj.item() - 3 * truth) <= tolerance * 3 * (1 + abs(truth))
    expected = x * math.exp(truth)
    assert (z - expected).abs().max() <= tolerance * (1 + expected.abs().max())


def test_an_integral_that_does_not_converge_says_so() -> None:
    """A jump, at an accuracy that it does not allow."""
    path = equal_steps(normal(1, 2), 1)
    with pytest.raises(ref.NotConverged, match="48 intervals between nodes from 0 to 1"):
        path_integral(lambda t: torch.tensor([float(t > 0.3)], dtype=DOUBLE), path, 1e-6, most=64)


@pytest.mark.parametrize("end", [1.0, -3.0])
def test_no_step_is_longer_than_half_of_the_way(end: float) -> None:
    """Nor does any go beyond the end, also where a field that was steep comes to rest."""
    path = list(runge_kutta_steps(lambda t, z: -100 * z, normal(2, 2), 0.0, end, 1e-2))
    assert max(abs(step.length) for step in path) <= abs(end) / 2 * (1 + 1e-12)
    assert path[-1].start + path[-1].length == pytest.approx(end, rel=1e-12)
    constant = list(runge_kutta_steps(lambda t, z: 0 * z + 1, normal(2, 2), 0.0, end, 1e-2))
    assert len(constant) == 2


def test_a_step_that_overflows_is_made_shorter() -> None:
    """z' = -z^3 from 1e3 on: the first step would go to infinity."""
    x = torch.tensor([[1e3], [math.nan]], dtype=DOUBLE)
    found = solve(lambda t, z: -(z**3), x, 0.0, 1e-3, 1e-8)
    torch.testing.assert_close(found[0], (2e-3 + x[0] ** -2) ** -0.5, rtol=1e-6, atol=0)
    assert found[1].isnan()


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_a_tolerance_below_rounding_is_one_of_rounding(dtype: torch.dtype) -> None:
    """No step is tried again for what shorter ones do not change."""
    x = normal(3, 2).to(dtype)
    z, ladj = ref.CNF(timed, tolerance=1e-18)(x)
    expected, log_det = ref.CNF(timed, tolerance=1e-12)(x.double())
    least = 100 * torch.finfo(dtype).eps
    torch.testing.assert_close(z.double(), expected, rtol=least, atol=max(least, 1e-11))
    torch.testing.assert_close(ladj.double(), log_det, rtol=least, atol=max(least, 1e-11))


@pytest.mark.parametrize("together", [1, 16, 10**6])
def test_divergences_are_the_same_in_groups(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows of the Jacobian are computed together, and their gradients, too."""
    field: Any = ref.TimedMLP(3, (6,)).double()
    t, x = torch.tensor(0.4, dtype=DOUBLE), normal(2, 3).requires_grad_()
    monkeypatch.setitem(continuous.TOGETHER, "cpu", together)
    divergence = with_divergence(field, t, x)[1]
    (gradient,) = torch.autograd.grad(divergence.sum(), x)
    for row, one, slope in zip(x, divergence, gradient, strict=True):

        def trace(p: Tensor) -> Tensor:
            jacobian = torch.autograd.functional.jacobian(
                lambda q: field(t, q[None])[0], p, create_graph=True
            )
            return torch.trace(jacobian)

        torch.testing.assert_close(one, trace(row), rtol=1e-13, atol=1e-14)
        expected = torch.autograd.functional.jacobian(trace, row.detach())
        torch.testing.assert_close(slope, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-9])
def test_gradients_are_those_of_what_is_returned(tolerance: float) -> None:
    """Of a loose solution, too: central differences of it, whose steps stay the same."""
    field: Any = ref.TimedMLP(2, (6,)).double()
    flow, x = ref.CNF(field, tolerance=tolerance), normal(3, 2)
    weight = field.layers[0].weight

    def loss() -> Tensor:
        z, ladj = flow.forward(x)
        return z.square().sum() + ladj.sum()

    (gradient,) = torch.autograd.grad(loss(), weight)
    with torch.no_grad():
        for place in ((0, 0), (3, 1), (5, 2)):
            values = []
            for shift in (1e-5, -2e-5):
                weight[place] += shift
                values.append(loss())
            weight[place] += 1e-5
            slope = (values[0] - values[1]) / 2e-5
            torch.testing.assert_close(gradient[place], slope, rtol=1e-7, atol=1e-8)


def test_what_does_not_converge_says_so() -> None:
    """A field with a jump that is steep beside it."""
    with pytest.raises(ref.NotConverged, match="32 steps from 0 to 1 come to"):
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
    same, none = flow.flow(x, 0.3, 0.3)
    assert torch.equal(same, x)
    assert not none.any()


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
        (lambda: ref.CNF(linear, trace="some"), "'exact' or 'hutchinson'"),  # type: ignore[arg-type]  # the bug
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
