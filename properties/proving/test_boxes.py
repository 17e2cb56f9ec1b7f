"""What is told of boxes: bounds of rounding hold at points, and a log-det that is refuted is wrong."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from click.testing import CliRunner

from flowref import registry
from flowref.cli import main
from flowref.model import SpecError, Support
from flowref.proving import STATEMENTS, Certificate
from flowref.proving.compositions import detached
from flowref.proving.prover import Most, calls_of, certificate_of
from flowref.proving.rounding.boxes import Box
from flowref.proving.rounding.determinants import log_det_bounds
from flowref.proving.rounding.places import Place
from precise import BITS, exact, truth

LAW = registry.find_law("map/log-det")
# Constructions, a box, and up to which bound rounding is told.
BOUNDED = [
    ("nflows:AffineCouplingTransform", "[-3, 3]", 1e-12),
    ("nflows:LULinear", "[-3, 3]", 1e-13),
    ("nflows:NaiveLinear", "[-3, 3]", 1e-10),
    ("nflows:BatchNorm", "[-10, 10]", 1e-13),
    ("nflows:MaskedAffineAutoregressiveTransform", "[-1, 1]", 1e-11),
    ("normflows:Planar[tanh]", "[-0.5, 0.5]", 1e-13),
    ("zuko:MonotonicRQSTransform", "[-0.05, 0.05]", 1e-11),
    ("torch:TanhTransform", "[-5, 5]", 1e-9),
    ("torch:SigmoidTransform", "[-3, 3]", 1e-10),
]
FLOWS = """
import torch
from torch import nn


class Coupling(nn.Module):
    event_shape = (4,)
    defect = ""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 4))
        for one in self.parameters():
            one.data = torch.randn(one.shape, generator=generator)

    def forward(self, x):
        a, b = x.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        s = torch.tanh(s)
        told = {"factor": s.sum(-1) / 2, "sign": -s.sum(-1)}.get(self.defect, s.sum(-1))
        s = s.clamp(-0.5, 0.5) if self.defect == "clamp" else s
        return torch.cat([a, b * s.exp() + t], -1), told


class Factor(Coupling):
    defect = "factor"


class Sign(Coupling):
    defect = "sign"


class Clamp(Coupling):
    defect = "clamp"


class Clamped(nn.Module):
    event_shape = (2,)

    def forward(self, x):
        s = x[:, :1]
        return torch.cat([s, x[:, 1:] * s.clamp(-1, 1).exp()], -1), s.sum(-1)


class Rounded(nn.Module):
    event_shape = (2,)

    def forward(self, x):
        return x * 1.4142135, torch.full(x.shape[:1], 0.6931472, dtype=x.dtype)


class Steps(nn.Module):
    event_shape = (2,)

    def forward(self, x):
        return torch.where(x > 0, x - 5, x), x.new_zeros(len(x))


class Single(nn.Module):
    event_shape = (2,)

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.3, 0.2]))

    def forward(self, x):
        s = self.scale.float().exp().to(x.dtype)
        return x * s, s.log().sum() + 0 * x.sum(-1)


class Normed(nn.Module):
    event_shape = (2,)

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2, momentum=0.0)
        self.norm.running_mean += 1e7
        self.norm.eval()

    def train(self, mode=True):
        return self

    def forward(self, x):
        z = self.norm(x)
        told = -0.5 * (self.norm.running_var + self.norm.eps).log() + self.norm.weight.abs().log()
        return z, told.sum() + x.new_zeros(len(x))


class Asked(nn.Module):
    event_shape = (2,)

    def forward(self, x):
        return x * 2, x.new_zeros(len(x)) if x.max() < 100 else x.sum(-1)


class Residual(nn.Module):
    event_shape = (2,)
    promises = {"contraction": 0.9}
    size = 1.0

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(self.size * torch.tensor([[0.3, -0.2], [0.1, 0.4]]))

    def forward(self, x):
        g = torch.tanh(x @ self.w.T)
        j = torch.eye(2, dtype=x.dtype) + (1 - g**2)[..., None] * self.w
        return x + g, torch.linalg.slogdet(j)[1]


class Expanding(Residual):
    size = 3.0


class Batch(nn.Module):
    event_shape = (2,)

    def forward(self, x):
        return x * 2 + x.sum(0, keepdim=True), x.new_zeros(len(x))
"""


@pytest.fixture
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of flows in the working directory."""
    (tmp_path / "flows.py").write_text(FLOWS)
    monkeypatch.chdir(tmp_path)


def claimed(spec: str, box: str = "") -> Certificate:
    """What is told of a log-det, without a search of edits."""
    calls = calls_of(registry.parse_target(spec), LAW.condition)
    claim = certificate_of(calls, spec, LAW.id, STATEMENTS[LAW.id], Most())
    return Place(calls, box).shown(claim)


def told(claim: Certificate) -> dict[str, Any]:
    """Bounds, by their kind."""
    return {one.kind: one for one in claim.bounds}


@pytest.mark.parametrize(("spec", "box", "most"), BOUNDED)
def test_a_bound_of_rounding_holds_at_points(spec: str, box: str, most: float) -> None:
    """What the object computes is no further from 200 bits of the same graph than is told, anywhere in the box."""
    claim = claimed(spec, box)
    bound = told(claim)["rounding"]
    assert bound.box == bound.asked and bound.most <= most
    calls = calls_of(registry.parse_target(spec), LAW.condition)
    part, (obj, points, _) = calls.part("forward", calls.points), calls.prepared
    output, rng = part.graph.outputs[1], np.random.default_rng(0)
    assert output is not None
    low, high = np.array(bound.box.low), np.array(bound.box.high)
    for turn in range(12):
        x = low + (high - low) * rng.random((len(points[0]), len(low))).round(turn % 2 * 16)
        batch = calls.recipe.backend.tensor(x.reshape(points[0].shape), calls.recipe.dtype)
        value = np.asarray(detached(calls.call("forward")(obj, batch, None)[1]))
        path = part.traced.path(batch)
        assert path is not None
        true = truth(part.graph, exact(x.reshape(points[0].shape)), path.decided)[output.name]
        with mpmath.workprec(BITS):
            # Of a log-det that is told for each entry the sum counts.
            each = (exact(value) - true).reshape(len(x) if value.shape else 1, -1)
            off = abs(each.sum(-1))
        # A number in code may stand for another, which differs by less than a unit in the last place.
        assert max(off) <= bound.most * 1.01


@pytest.mark.parametrize(
    ("name", "least"), [("Factor", 0.1), ("Sign", 0.5), ("Clamp", 0.01), ("Clamped", 0.1)]
)
@pytest.mark.usefixtures("flows")
def test_a_wrong_log_det_is_refuted(name: str, least: float) -> None:
    """On a box, everywhere: what is measured at points of it shows as much."""
    claim = claimed(f"flows.py:{name}", "[-3, 3]")
    found = claim.refutation
    assert (
        found is not None and found.gap >= least and found.width > 1e-3 and not claim.proof.proved
    )
    assert claim.text().startswith(
        f"REFUTED     map/log-det  flows.py:{name}: off by {found.gap:.2g} or more"
    )
    assert claim.check()
    assert not replace(claim, refutation=replace(found, gap=3 * found.gap)).check()


@pytest.mark.parametrize(
    ("spec", "box"),
    [
        ("flows.py:Coupling", "[-3, 3]"),
        ("flows.py:Rounded", "[-3, 3]"),
        ("flows.py:Single", "[-3, 3]"),
        ("flows.py:Batch", "[-3, 3]"),
        ("flows.py:Asked", "[-3, 3]"),
        ("flows.py:Sign?promises=estimator", "[-3, 3]"),
        ("torch:TanhTransform", "[-30, 30]"),
        ("torch:SigmoidTransform", "[-30, 30]"),
        ("torch:SoftplusTransform", "[-30, 30]"),
    ],
)
@pytest.mark.usefixtures("flows")
def test_nobody_is_accused(spec: str, box: str) -> None:
    """Of a log-det that is right or an estimate, of constants that are rounded, of a threshold of softplus, where points depend
    on each other, which another law is about, or where code asks for numbers, of which a graph has one answer.
    """
    assert claimed(spec, box).refutation is None


@pytest.mark.parametrize(
    ("spec", "box", "shown"),
    [
        ("flows.py:Clamped", "[-0.5, 0.5]", "[-0.5, 0.5]^2"),
        ("torch:TanhTransform", "[-100, 100]", "[-6.25, 6.25]^4"),
    ],
)
@pytest.mark.usefixtures("flows")
def test_rounding_is_bounded_where_the_path_is_proved(spec: str, box: str, shown: str) -> None:
    """A clamp that is never reached does no harm; beyond a threshold of softplus nothing is said."""
    claim = claimed(spec, box)
    bound = told(claim)["rounding" if claim.proof.proved else "holds"]
    assert str(bound.box) == shown and bound.most < 1e-9
    assert told(claim)["finite"].box == told(claim)["finite"].asked


@pytest.mark.usefixtures("flows")
def test_single_precision_has_no_bound() -> None:
    """Its rounding is another."""
    claim = claimed("flows.py:Single", "[-3, 3]")
    assert [one.box for one in claim.bounds] == [None] * len(claim.bounds)


@pytest.mark.usefixtures("flows")
def test_what_is_rounded_otherwise_than_its_parts_has_no_bound() -> None:
    """Torch multiplies by a factor and adds what it has made of the mean, which is lost in a difference of its operators."""
    claim = claimed("flows.py:Normed", "[10000000, 10000002]")
    assert claim.proof.proved
    assert {one.reason.partition(" by ")[0] for one in claim.bounds} == {
        "the object is rounded differently from the decompositions of its operators"
    }


@pytest.mark.parametrize(
    ("spec", "kind"), [("torch:TanhTransform", "monotone"), ("flows.py:Steps", "slopes")]
)
@pytest.mark.usefixtures("flows")
def test_slopes_of_one_sign_are_monotone_without_jumps(spec: str, kind: str) -> None:
    """Where a comparison may make one, that is said."""
    bound = told(claimed(spec, "[-2, 2]"))[kind]
    assert bound.box == bound.asked and 0 < bound.least <= bound.most <= 1.001


@pytest.mark.parametrize(
    ("spec", "kind", "least", "most"),
    [
        ("torch:SigmoidTransform", "codomain", 0.0, 1.0),
        ("torch:ExpTransform", "codomain", 0.0, math.inf),
        ("flows.py:Residual", "lipschitz", 0.0, 0.47),
    ],
)
@pytest.mark.usefixtures("flows")
def test_what_is_promised_is_shown(spec: str, kind: str, least: float, most: float) -> None:
    """The ends of a codomain; and a bound of the slopes of g in x + g(x)."""
    bound = told(claimed(spec, "[-2, 2]"))[kind]
    assert bound.box == bound.asked and (bound.least, bound.most) == (
        least,
        most if kind == "codomain" else pytest.approx(most, rel=0.1),
    )


@pytest.mark.usefixtures("flows")
def test_a_false_promise_is_not_shown() -> None:
    """Where slopes are above one, on no box around the middle."""
    assert told(claimed("flows.py:Expanding", "[-2, 2]"))["lipschitz"].box is None


def test_a_coupling_is_no_map_of_each_entry() -> None:
    """And has no slopes."""
    assert set(told(claimed("nflows:AffineCouplingTransform", "[-1, 1]"))) == {"rounding", "finite"}


@pytest.mark.parametrize(
    ("text", "words"),
    [("[-3, 3]", "[-3, 3]^2"), ("[-3, 3], [0, 1]", "[-3, 3] x [0, 1]"), ("(1, 1.5)", "[1, 1.5]^2")],
)
def test_a_box_is_read(text: str, words: str) -> None:
    """For all entries, or for each."""
    assert str(Box.parse(text, 2)) == words


@pytest.mark.parametrize(
    "text", ["", "3", "[3, -3]", "[1, 2], [1, 2], [1, 2]", "[0, inf]", "[a, b]"]
)
def test_a_box_that_is_none_is_one_sentence(text: str) -> None:
    """What was expected is said."""
    with pytest.raises(SpecError, match=r"--box was given as .*; expected an interval such as"):
        Box.parse(text, 2)


def test_the_domain_is_the_default_where_it_is_bounded() -> None:
    """All numbers inside; a half line has none."""
    found = Box.of(Support.parse("unit"), 2)
    assert found is not None and 0 < found.low[0] < 1e-300 and 1 - 1e-15 < found.high[1] < 1
    assert Box.of(Support.parse("positive"), 2) is None
    assert Box.parse("[-1, 0.5]", 2).within(Support.parse("unit")) == Box(found.low, (0.5, 0.5))
    assert Box.parse("[-1, -0.5]", 2).within(Support.parse("unit")) is None


@pytest.mark.parametrize("size", [1, 2, 4, 7])
@pytest.mark.parametrize("width", [0.0, 1e-6, 1e-2])
def test_determinants_of_intervals_hold_those_inside(size: int, width: float) -> None:
    """At 200 bits, of matrices between the ends."""
    rng = np.random.default_rng(size)
    for _ in range(10):
        middle = rng.normal(size=(size, size)) + 2 * np.eye(size)
        off = width * rng.random((size, size))
        with np.errstate(all="ignore"):
            low, high = log_det_bounds(((middle - off)[None], (middle + off)[None]))
        assert np.isfinite(low).all() or width > 0
        matrix = np.clip(
            middle + off * rng.choice([-1, 0, 1], (size, size)), middle - off, middle + off
        )
        with mpmath.workprec(BITS):
            true = mpmath.log(abs(mpmath.det(mpmath.matrix(matrix.tolist()))))
            assert low[0] <= true <= high[0]
        assert not width or high[0] - low[0] > 0


def test_triangular_determinants_are_sums_of_logarithms() -> None:
    """However wide the other side is."""
    matrix = np.array([[[2.0, 0.0], [5.0, 3.0]]])
    wide = np.array([[[0.0, 0.0], [1e9, 0.0]]])
    with np.errstate(all="ignore"):
        low, high = log_det_bounds((matrix - wide, matrix + wide))
    assert high[0] - low[0] < 1e-13 and low[0] <= np.log(6.0) <= high[0]


def test_a_file_carries_boxes(tmp_path: Path) -> None:
    """They are shown again, and a bound that was made smaller is not."""
    claim = claimed("torch:TanhTransform", "[-2, 2]")
    path = tmp_path / "claim.json"
    claim.save(path)
    read = Certificate.load(path)
    assert read.bounds == claim.bounds and read.text() == claim.text() and read.check()
    whole = json.loads(path.read_text())
    whole["bounds"][0]["most"] /= 2
    path.write_text(json.dumps(whole))
    assert not Certificate.load(path).check()
    del whole["bounds"], whole["refutation"]  # as files were before there were boxes
    path.write_text(json.dumps(whole))
    assert Certificate.load(path).check()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nflows:LULinear", "--box", "[-3, 3]"), 0, "nats of exact arithmetic on [-3, 3]^4"),
        (("nflows:LULinear", "--box", "[-3"), 2, "--box was given as '[-3'; expected"),
        (("flows.py:Steps?domain=unit", "--box", "[2, 3]"), 2, "which does not meet the domain"),
        (("flows.py:Factor",), 1, "1 refuted"),
    ],
)
@pytest.mark.usefixtures("flows")
def test_the_command_line(words: tuple[str, ...], code: int, said: str) -> None:
    """A refuted statement is told by the exit code."""
    result = CliRunner().invoke(main, ("certify", *words, "--laws", "map/log-det"))
    assert result.exit_code == code and said in result.output, result.output
