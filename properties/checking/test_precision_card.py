"""The card of precision counts the digits that are left, and points of which none are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from flowref.checking.precision_card import CALLS, PRECISIONS, Digits, card
from flowref.cli.main import main
from flowref.loading import snapshot


class Tanh(nn.Module):
    """y = tanh x, with its log-det as log(1 - y^2), or as 2 (log 2 - x - softplus(-2x))."""

    event_shape = (2,)

    def __init__(self, naive: bool) -> None:
        super().__init__()
        self.naive = naive

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        y = x.tanh()
        if self.naive:
            return y, (1 - y**2).log().sum(1)
        two = x.new_tensor(2.0)
        return y, (2 * (two.log() - x - nn.functional.softplus(-2 * x))).sum(1)


class Linear(Tanh):
    """A product of matrices."""

    def __init__(self) -> None:
        super().__init__(naive=False)
        self.layer = nn.Linear(2, 2)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        return self.layer(x), self.layer.weight.det().abs().log().expand(len(x))


def left(obj: Any, result: str, precision: str = "float32", reach: float = 10.0) -> Digits:
    """What is left of a result as the object is built."""
    found = [
        one
        for one in card(snapshot(obj))
        if (one.state, one.reach, one.precision) == ("as built", reach, precision)
        and one.left.result == result
    ]
    return found[0]


@pytest.mark.parametrize(("naive", "lost"), [(True, True), (False, False)])
def test_a_logarithm_of_a_rounded_zero_is_lost(naive: bool, lost: bool) -> None:
    """1 - tanh^2 is zero in single precision from 9.02 on."""
    assert bool(left(Tanh(naive), "log-det").left.lost) is lost


@pytest.mark.parametrize(
    ("precision", "least", "most"),
    [("float32", 5, 8), ("float16 autocast", 2, 4.5), ("bfloat16 autocast", 1, 3.5)],
)
def test_digits_are_those_of_the_precision(precision: str, least: float, most: float) -> None:
    """A product of matrices has those of the format that it is computed in."""
    assert least < left(Linear(), "value", precision, 1.0).left.fewest < most


def test_calls_that_are_not_offered_are_not_shown() -> None:
    """A map without a way back has no round trip."""
    assert {one.call for one in card(snapshot(Tanh(naive=False)))} == {CALLS[0]}


def test_the_command_shows_a_table() -> None:
    """A block for each precision; where autocast changes nothing it says so."""
    shown = CliRunner().invoke(main, ["precision", "torch:TanhTransform"])
    assert shown.exit_code == 0, shown.output
    assert "round trip" in shown.output and "coordinates up to" in shown.output
    assert all(name in shown.output for name in PRECISIONS)
    assert shown.output.count("it changes nothing here") == 2


def test_a_target_that_cannot_be_read_does_not_hide_the_next() -> None:
    """Its sentence follows the tables of the others, and the command fails."""
    shown = CliRunner().invoke(main, ["precision", "torch:Nothing", "torch:TanhTransform"])
    assert shown.exit_code == 2 and "torch:TanhTransform" in shown.stdout
    assert "no construction 'Nothing'" in shown.stderr


def test_a_target_that_cannot_be_read_is_one_sentence() -> None:
    """As for every command."""
    shown = CliRunner().invoke(main, ["precision", "torch:Nothing"])
    assert shown.exit_code == 2 and "Traceback" not in shown.output


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("operator", "kept"),
    [
        (lambda x: nn.functional.linear(x, x), False),
        (lambda x: x @ x, False),
        (lambda x: (x @ x).softmax(1), True),
        (lambda x: (x @ x).exp(), True),
        (lambda x: torch.cat([x @ x, x]), True),
        (lambda x: (x @ x) + (x @ x), False),
        (lambda x: (x @ x) + x, True),
    ],
)
def test_autocast_is_that_of_a_gpu(half: torch.dtype, operator: Any, kept: bool) -> None:
    """By its lists: products in half precision, sums and exponentials in single precision, the widest where both meet."""
    from flowref.backends.torch.autocast import Autocast

    with Autocast(half):
        out = operator(torch.eye(3))
    assert out.dtype == (torch.float32 if kept else half)
