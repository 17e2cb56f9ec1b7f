"""Autoregressive flows of the reference: what depends on what, by which formula, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from flowref import reference as ref
from flowref.reference.autoregressive import in_turn

ORDERS = [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)]


def moved(layer: Any, seed: int = 3) -> Any:
    """In double precision, away from its initial values."""
    generator = torch.Generator().manual_seed(seed)
    layer = layer.double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(
                0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            )
    return layer


def points(rows: int = 3, features: int = 4) -> Tensor:
    """Normal numbers."""
    generator = torch.Generator().manual_seed(5)
    return torch.randn(rows, features, generator=generator, dtype=torch.float64)


def dependencies(layer: Any, features: int) -> Tensor:
    """Which output depends on which input, at ten points."""
    jacobians = [
        torch.autograd.functional.jacobian(lambda x: layer(x[None])[0], point)
        for point in points(10)
    ]
    return torch.stack(jacobians).reshape(10, features, -1, features).abs().sum((0, 2)) > 0


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_outputs_depend_on_all_earlier_entries_and_on_no_other(order: tuple[int, ...]) -> None:
    """Exact zeros where the order forbids a dependency, and no zero where it allows one."""
    made = moved(ref.MADE(4, 2, (12, 12), order, torch.nn.Tanh))
    places = torch.tensor(order)
    assert torch.equal(dependencies(made, 4), places[:, None] > places)


@pytest.mark.parametrize("hidden", [(3,), (1,), (64, 2)], ids=str)
def test_narrow_networks_depend_on_no_later_entry(hidden: tuple[int, ...]) -> None:
    """With fewer units than features some dependencies are absent, and none is wrong."""
    made = moved(ref.MADE(4, 1, hidden, None, torch.nn.Tanh))
    assert not dependencies(made, 4).triu().any()


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_it_is_the_formula_entry_by_entry(order: tuple[int, ...]) -> None:
    """z_i = (x_i - mu_i) exp(-alpha_i), each pair computed from earlier entries alone."""
    layer, x = moved(ref.MaskedAutoregressive(4, (9,), order)), points()
    z, ladj = layer(x)
    total = 0
    for entry in range(4):
        earlier = torch.tensor([place < order[entry] for place in order])
        mean, log_scale = layer.conditioner(torch.where(earlier, x, 7.0))[:, entry].unbind(-1)
        torch.testing.assert_close(z[:, entry], (x[:, entry] - mean) * torch.exp(-log_scale))
        total = total - log_scale
    torch.testing.assert_close(ladj, total)


def test_each_pass_finds_the_next_entry() -> None:
    """After k passes the first k entries of the order are there: D are enough."""
    layer, x = moved(ref.MaskedAutoregressive(4, (9,), (2, 0, 3, 1))), points()
    z = layer(x)[0]
    found = torch.zeros_like(z)
    for k, entry in enumerate(in_turn(layer.order), 1):
        mean, log_scale = layer.conditioner(found).unbind(-1)
        found[:, entry] = (z * log_scale.exp() + mean)[:, entry]
        done = in_turn(layer.order)[:k]
        torch.testing.assert_close(found[:, done], x[:, done])
    torch.testing.assert_close(layer.inverse(z)[0], x)


def test_what_is_not_found_yet_cannot_spoil_the_way_back() -> None:
    """Entries whose scale would overflow for another value of an earlier one come back all the same."""
    layer = ref.MaskedAutoregressive(3, (2,)).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(25.0)
    z = torch.tensor([[-1e3, 1.0, 1.0]], dtype=torch.float64)
    assert not layer.inverse(z)[0].isnan().any()


@pytest.mark.parametrize("order", [(0, 0, 1, 2), (1, 2, 3, 4), (0, 1)], ids=str)
def test_an_order_is_a_permutation(order: tuple[int, ...]) -> None:
    """Anything else is refused with what was got."""
    with pytest.raises(ValueError, match="expected each of 0 to 3 once"):
        ref.MaskedAutoregressive(4, (8,), order)


def test_another_number_of_features_is_refused() -> None:
    """In both directions."""
    layer = ref.AutoregressiveSpline(3, (8,))
    for call in (layer, layer.inverse):
        with pytest.raises(ValueError, match=r"got a batch of shape \(2, 4\)"):
            call(torch.zeros(2, 4))


def test_iaf_is_maf_the_other_way_round() -> None:
    """The same numbers: what MAF computes in one pass IAF samples in one pass."""
    maf = moved(ref.MaskedAutoregressive(4, (9,)))
    iaf, z = ref.Inverse(maf), points()
    assert torch.equal(iaf.inverse(z)[0], maf(z)[0])
    assert torch.equal(iaf.inverse(z)[1], maf(z)[1])
