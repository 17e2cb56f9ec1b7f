"""The tables of conventions: each row's example is recognized as the row says, and the guide shows them as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowref import checking, registry
from flowref.adapters.user.conventions.call_forms import ARGUMENTS
from flowref.adapters.user.conventions.returns import RETURNS, Return
from flowref.adapters.user.conventions.roles import ROLES
from flowref.adapters.user.conventions.tables import convention_tables
from flowref.adapters.user.extras import EXTRAS, PADDING, Extra
from flowref.loading import recipe_of
from flowref.model import Status

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "recognised.md"
FLOW = """
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Result:
    z: torch.Tensor
    log_det: torch.Tensor


class Flow:
    event_shape = (2,)
    prior = torch.distributions.Normal(0.0, 1.0)
    weight = torch.tensor([0.3, -0.2])

    def go(self, x):
        z = torch.asinh(x * self.weight.exp())
        return z, (self.weight - z.cosh().log()).sum(-1)

    def {there}(self, {taken}):
        {unpacked}
        z, log_det = self.go(x)
        penalty, log_p = z.abs().sum(), self.prior.log_prob(z).sum(-1) + log_det
        {statement}

    def {back}(self, z):
        return z.sinh() * (-self.weight).exp()
"""
PAIRED = re.compile(r"(\w+)\(x\), (\w+)\(z\)")
PAIRS = [PAIRED.fullmatch(role.example) for role in ROLES]


# Of each row of arguments: the parameters of a map, how it takes a point from them, and what it returns.
TAKEN = {
    "plain": ("x", "pass", "z, log_det"),
    "running": ("x, logdet", "pass", "z, logdet + log_det"),
    "triple": ("inputs", "x, logdet, context = inputs", "z, logdet + log_det, context"),
    "couple": ("inputs", "x, logdet = inputs", "z, logdet + log_det"),
    "state": (
        "state",
        'x, logdet = state["x"], state["logdet"]',
        '{"x": z, "logdet": logdet + log_det}',
    ),
    "wrapped": ("inputs, contexts=None, rev=False, jac=True", "x, = inputs", "(z,), log_det"),
    "several": ("x1, x2", "x = torch.cat([x1, x2], -1)", "*z.split(1, -1), log_det"),
    "named": (
        "parts",
        'x = torch.stack([parts["mass"], parts["spin"]], -1)',
        '{"mass": z[:, 0], "spin": z[:, 1]}, log_det',
    ),
    "structured": (
        "points",
        'x = torch.as_tensor(np.stack([points["mass"], points["spin"]], -1))',
        "np.rec.fromarrays(z.numpy().T, points.dtype), log_det.numpy()",
    ),
    "keywords": (
        "*, mass, spin",
        "x = torch.stack([mass, spin], -1)",
        '{"mass": z[:, 0], "spin": z[:, 1]}, log_det',
    ),
    "arrays": ("x", "x = torch.as_tensor(x + np.zeros(2))", "z.numpy(), log_det.numpy()"),
}
# Forms without an autograd graph.
OF_ARRAYS = ("arrays", "structured")


def flow(
    folder: Path,
    statement: str,
    there: str = "forward",
    back: str = "inverse",
    taken: tuple[str, str] = ("x", "pass"),
) -> str:
    """The target of a flow whose methods are called so."""
    given = {"taken": taken[0], "unpacked": taken[1]}
    text = FLOW.format(statement=statement, there=there, back=back, **given)
    (folder / "flows.py").write_text(text, encoding="utf-8")
    return f"{folder}/flows.py:Flow"


@pytest.mark.parametrize("row", RETURNS, ids=[row.words for row in RETURNS])
def test_the_example_of_a_result_is_read_and_holds(row: Return, tmp_path: Path) -> None:
    """The statement returns a value and a log-det in that form, and the law of it holds, or has nothing to judge."""
    spec = flow(tmp_path, row.example) + f"?{row.option}" * bool(row.option)
    target = registry.parse_target(spec)
    assert recipe_of(target).facts.latent_shape == (2,)
    verdict = checking.pair_verdict(
        target, registry.find_law("map/log-det"), checking.Settings("quick")
    )
    told = "log_det" in row.example
    assert verdict.status is (Status.HOLDS if told else Status.NOT_APPLICABLE)


@pytest.mark.parametrize("form", [form for form, row in ARGUMENTS.items() if row.example])
def test_what_a_call_is_given_is_found_and_the_law_holds(form: str, tmp_path: Path) -> None:
    """A map that takes points as a row says is recognized, and its log-det is that of its Jacobian, if it has one."""
    *taken, returned = TAKEN[form]
    spec = flow(tmp_path, f"return {returned}", taken=(taken[0], taken[1]))
    target = registry.parse_target(spec)
    assert recipe_of(target).facts.latent_shape == (2,)
    verdict = checking.pair_verdict(
        target, registry.find_law("map/log-det"), checking.Settings("quick")
    )
    assert verdict.status is (Status.NOT_APPLICABLE if form in OF_ARRAYS else Status.HOLDS)


# Of each row of extras: the argument, by what it moves points, and what is said of it.
MOVED = {
    "context": ("context @ torch.ones(3, 1)", "context: context of shape (3,)"),
    "edges": ("edges @ torch.ones(3, 1)", "context: edges of shape (3,)"),
    "label": ("torch.eye(3)[label, :1]", "label: labels 0 to 2, to which contexts are rounded"),
    "mask": ("0 * mask", "mask: ones for each position"),
    "y": ("float(y or 0)", "y: None"),
    "mask=None": (
        "0 if mask is None else 0 * mask",
        "padded by one position, which mask masks out",
    ),
}
MOVING = """
import torch


class Flow(torch.nn.Module):
    event_shape = ({event})

    def forward(self, x, {taken}):
        return x + ({moved}), x.new_zeros(len(x))

    def inverse(self, z, {taken}):
        return z - ({moved}), z.new_zeros(len(z))
"""


ROWS = (*EXTRAS, PADDING)


@pytest.mark.parametrize(("taken", "row"), [*zip(MOVED, ROWS, strict=True)], ids=[*MOVED])
def test_what_an_argument_besides_points_is_given_is_found(
    taken: str, row: Extra, tmp_path: Path
) -> None:
    """A map that takes what a row gives is recognized, which its line says."""
    moved, said = MOVED[taken]
    event = "2, 6" if "mask" in taken else "2,"
    text = MOVING.format(event=event, taken=taken, moved=moved)
    (tmp_path / "flows.py").write_text(text, encoding="utf-8")
    option = row.example if row is PADDING else ""
    told = recipe_of(registry.parse_target(f"{tmp_path}/flows.py:Flow{option}")).recognized
    assert said in told.conventions


@pytest.mark.parametrize("names", [pair.groups() for pair in PAIRS if pair])
def test_the_example_of_names_is_a_map_and_its_way_back(
    names: tuple[str, str], tmp_path: Path
) -> None:
    """Both directions are found."""
    target = registry.parse_target(flow(tmp_path, "return z, log_det", *names))
    assert recipe_of(target).recognized.kind == "bijection with inverse"


def test_the_guide_has_the_tables() -> None:
    """What the guide shows is what the tables say."""
    text = GUIDE.read_text(encoding="utf-8")
    (found,) = re.findall(
        r"<!-- conventions: .*? -->\n\n(.*?)\n\n<!-- conventions end -->", text, re.DOTALL
    )
    assert found == convention_tables()
