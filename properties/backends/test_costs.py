"""What calls cost is counted exactly, without a clock; Jacobians are made in blocks that fit."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from flowref import loading, registry
from flowref.backends.torch import derivatives
from flowref.backends.torch.call_cost import Enough, Measuring
from flowref.backends.torch.cost_model import cost_of
from flowref.backends.torch.graphs import keeps_nothing, sparing
from flowref.model import CallCost, Cost, Dialect, Facts, LinearCost
from flowref.model.budget import Budget, limited_budget

BYTES = 8
# Rows of tensors that are looked for.
MARKED = 1237


class Layer(nn.Module):
    """Doubles its matrix, as masks do, and multiplies by it; a loop as long as its event at the
    way back.
    """

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden, features, dtype=torch.float64))

    def row(self, x: torch.Tensor) -> torch.Tensor:
        """Of one point."""
        return self.forward(x[None])[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each entry plus a sum of all."""
        return x + nn.functional.linear(x, 2.0 * self.weight).sum(1, keepdim=True)

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """So many turns that do nothing."""
        for _ in range(y.shape[1] ** 2):
            y = y * 1.0
        return y


def forward(obj: Layer, x: torch.Tensor, context: object = None) -> object:
    """As dialects say it."""
    return obj(x), x.sum(1)


def inverse(obj: Layer, y: torch.Tensor, context: object = None) -> object:
    """As dialects say it."""
    return obj.inverse(y), y.sum(1)


DIALECT = Dialect(forward=forward, inverse=inverse)


def cost(features: int, hidden: int, most: float = 1e12) -> Cost:
    """Of a layer."""
    return cost_of(Layer(features, hidden), DIALECT, Facts((features,)), torch.float64, most)


@pytest.mark.parametrize(("features", "hidden"), [(3, 5), (20, 7)])
def test_what_is_written_for_the_parameters_and_for_each_row_is_told_apart(
    features: int, hidden: int
) -> None:
    """The fixed part is what is computed of parameters alone, the other part is of one row."""
    written = cost(features, hidden).of("forward").written
    # The log-det, the product, its sum, and the value.
    assert written == LinearCost(BYTES * features * hidden, BYTES * (1 + hidden + 1 + features))


def test_the_state_is_what_the_object_holds() -> None:
    """Parameters are counted once, in bytes."""
    assert cost(4, 6).state == BYTES * 24


def test_products_count_as_work() -> None:
    """Twice as wide a layer takes more than as many operations do."""
    few, many = cost(50, 100).of("forward"), cost(50, 200).of("forward")
    assert few.operations == many.operations
    assert many.work.per_row > few.work.per_row


def test_what_no_graph_keeps_is_held_for_a_while_only() -> None:
    """A loop writes in each turn, and holds what two turns wrote."""
    loop = cost(6, 2).of("inverse")
    assert loop.written.per_row > 36 * BYTES
    assert loop.held.per_row < 5 * 6 * BYTES


def test_a_call_that_takes_too_much_is_cut_short() -> None:
    """It is said to take at least what was allowed, and that it is not complete."""
    long = cost(20, 2, most=1e5).of("inverse")
    assert not long.complete
    assert long.work.of(1) > 1e5


def stubborn() -> None:
    """Code that catches whatever happens."""
    try:
        torch.ones(1)
    except Exception:  # as users write it
        pytest.fail("it was caught")


def test_cutting_short_is_no_exception_that_code_could_take_for_its_own() -> None:
    """It passes what catches every `Exception`."""
    measuring = Measuring(most=0.0)
    with pytest.raises(Enough), measuring:
        stubborn()


def test_costs_are_the_same_each_time() -> None:
    """No clock and no address is in them."""
    assert cost(5, 5) == cost(5, 5)


def test_a_call_of_which_no_graph_is_kept_gives_the_same_value_and_is_still_recorded() -> None:
    """Gradients are on, as users have them."""
    layer, x = Layer(3, 4), torch.ones(2, 3, dtype=torch.float64)
    out = sparing(lambda: layer(x))
    assert torch.equal(out, layer(x))
    assert out.requires_grad
    with pytest.raises(RuntimeError, match="not kept"):
        out.square().sum().backward()


def test_a_call_that_differentiates_within_is_made_as_it_is() -> None:
    """What it needs is kept."""

    def within() -> torch.Tensor:
        x = torch.full((2,), 3.0, requires_grad=True)
        return torch.autograd.grad((x * x).sum(), x)[0]

    assert not keeps_nothing(within)
    assert sparing(within).tolist() == [6.0, 6.0]


def test_a_transform_of_functions_within_is_made_as_it_is() -> None:
    """torch.func forbids what keeps graphs small: such a call is priced, and known to walk, and what
    is tried beside it is not taken for its refusal.
    """

    def volume(obj: Layer, x: torch.Tensor, context: object = None) -> object:
        """As dialects say it."""
        return obj(x), torch.linalg.slogdet(torch.func.vmap(torch.func.jacrev(obj.row))(x))[1]

    cost = cost_of(Layer(3, 5), Dialect(forward=volume), Facts((3,)), torch.float64, 1e12)
    assert cost.of("forward").walks and cost.of("forward").operations

    def tried() -> str:
        """What code does that takes an error for an answer."""
        try:
            volume(Layer(3, 5), torch.ones(2, 3, dtype=torch.float64))
        except RuntimeError:
            return "refused"
        return "taken"

    assert sparing(tried) == "taken"


def gone_along(layer: Layer, x: torch.Tensor, kept: bool) -> object:
    """A hundred steps along the gradient of a layer; with one graph, or one for each step."""
    x = x.requires_grad_()
    for _ in range(100):
        (slope,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=kept)
        x = x + slope if kept else (x + slope).detach().requires_grad_()
    return x, x.sum(1)


@pytest.mark.parametrize("kept", [True, False])
def test_what_graphs_keep_within_a_call_is_counted(kept: bool) -> None:
    """Of a call that walks graphs itself: all of one graph, or a hundredth of that where each step has its own."""

    def forward(obj: Layer, x: torch.Tensor, context: object = None) -> object:
        """As dialects say it."""
        return gone_along(obj, x, kept)

    found = cost_of(Layer(3, 3), Dialect(forward=forward), Facts((3,)), torch.float64, 1e12)
    call = found.of("forward")
    assert call.walks
    share = call.held.per_row / call.written.per_row
    assert 0.2 < share <= 1 if kept else share < 0.03


def test_what_writes_into_what_it_used_leaks_nothing() -> None:
    """The graph of an inverse that fills in its features one by one holds itself: none is kept."""

    def solve() -> torch.Tensor:
        """Latents to data, feature by feature."""
        layer = nn.Linear(3, 3, dtype=torch.float64)
        x = torch.zeros(MARKED, 3, dtype=torch.float64)
        for feature in range(3):
            x[:, feature] = torch.tanh(layer(x))[:, feature]
        return x

    def alive() -> int:
        """Tensors of so many rows."""
        gc.collect()
        found = (one for one in gc.get_objects() if type(one) is torch.Tensor)
        return sum(one.shape[:1] == (MARKED,) for one in found)

    before = alive()
    for _ in range(5):
        sparing(solve)
    assert alive() == before


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 1000])
@pytest.mark.parametrize("which", ["forward", "inverse"])
def test_jacobians_are_the_same_in_whatever_blocks_they_are_made(
    monkeypatch: pytest.MonkeyPatch, which: str, most: int
) -> None:
    """Some outputs of one row at a time, or all of several rows."""
    subject = loading.load(registry.parse_target("nflows:MaskedAffineAutoregressiveTransform"))
    x = np.random.default_rng(0).standard_normal((5, *subject.event_shape))
    assert subject.jacobian is not None
    whole = subject.jacobian(which, x, None)
    monkeypatch.setattr(derivatives, "graphed_rows", lambda cost, name: most)
    np.testing.assert_allclose(subject.jacobian(which, x, None), whole, rtol=1e-13)


def test_blocks_hold_what_the_graph_of_a_call_may_have() -> None:
    """The more a row writes, the fewer rows; one in any case; as much again as parameters take."""
    call = CallCost(written=LinearCost(0.0, derivatives.JACOBIAN_BYTES / 10))
    sizes = {10.0: 10, 1.0: 100, 100.0: 1, 1e4: 1}
    for times, rows in sizes.items():
        heavy = replace(call, written=LinearCost(0.0, times * call.written.per_row / 10))
        assert derivatives.graphed_rows(Cost({"forward": heavy}), "forward") == rows
    fixed = replace(call, written=LinearCost(1e12, 1e9))
    assert derivatives.graphed_rows(Cost({"forward": fixed}), "forward") == 1000


def test_what_is_loaded_knows_its_cost() -> None:
    """Of a library's construction both directions are counted, in whatever condition."""
    subject = loading.load(registry.parse_target("nflows:AffineCouplingTransform"))
    assert set(subject.cost.calls) == {"forward", "inverse"}
    assert subject.cost.state > 0


def test_a_call_that_a_measurement_repeats_is_asked_for_once() -> None:
    """It is kept; another point is asked for, and so is the same one by the next measurement, whose work
    must not depend on what was measured before.
    """
    subject = loading.load(registry.parse_target("nflows:AffineCouplingTransform"))
    x = np.random.default_rng(0).standard_normal((5, *subject.event_shape))
    spent = []
    for points in ((x,), (x, x), (x, x + 1)):
        with limited_budget(Budget()) as asked:
            for one in points:
                subject.calls["forward"](one, None)
        spent.append(asked.spent)
    assert spent[0] > 0
    assert spent == [spent[0], spent[0], 2 * spent[0]]


def test_what_is_normalized_along_a_short_axis_takes_more_than_a_sum() -> None:
    """As the widths of splines are: several times as much for each number."""
    x = torch.zeros(100, 8, dtype=torch.float64)
    with Measuring() as adding:
        x + x
    with Measuring() as normalizing:
        x.softmax(-1)
    assert normalizing.work - normalizing.dispatched > 5 * (adding.work - adding.dispatched)
    assert normalizing.written == adding.written


def test_samples_are_priced_by_themselves() -> None:
    """One that takes a step for each entry costs as many; and what draws is not heavy for all other laws."""

    def drawn(obj: Layer, n: int, context: object = None) -> torch.Tensor:
        """Entry by entry."""
        x = torch.zeros(n, 3, dtype=torch.float64)
        for _ in range(50):
            x = obj(x)
        return x

    def density(obj: Layer, x: torch.Tensor, context: object = None) -> torch.Tensor:
        """At once."""
        value: torch.Tensor = obj(x)
        return value.sum(1)

    dialect = Dialect(log_prob=density, sample=drawn)
    cost = cost_of(Layer(3, 5), dialect, Facts((3,)), torch.float64, 1e12)
    assert cost.of("sample").operations > 40 * cost.of("log_prob").operations
    huge = replace(cost.of("sample"), work=LinearCost(1e12, 1e12))
    assert huge.heavy and not Cost({**cost.calls, "sample": huge}).heavy
