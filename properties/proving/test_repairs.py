"""Repairs: edits of what a log-det is computed of, each of them proved; what is right needs none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from flowref import audit, registry
from flowref.backends.torch.tracing import TorchTracedCall
from flowref.model.graph import Branches, Graph
from flowref.proving import certified, repairs_of
from flowref.proving.repairs import edited, edits, of_log_det, repairs
from flowref.reporting import markdown
from flowref.reporting.issue import issue
from flowref.reporting.report import Report
from flowref.scorecard import page

ROWS, SIZE = 3, 4


class Coupling(nn.Module):
    """An affine coupling, whose log-det a test writes of the scales, the part that is kept, and the part that moves."""

    event_shape = (SIZE,)

    def __init__(self, told: Any = None) -> None:
        super().__init__()
        self.net, self.told = nn.Linear(2, SIZE), told

    def forward(self, x: Any) -> Any:
        """The value and the log-det."""
        kept, moved = x.chunk(2, -1)
        raw, shift = self.net(kept).chunk(2, -1)
        s = torch.tanh(raw)
        told = self.told(s, raw, moved) if self.told else s.mean(-1)
        return torch.cat([kept, moved * s.exp() + shift], -1), told

    def inverse(self, z: Any) -> Any:
        """The point and the log-det."""
        kept, moved = z.chunk(2, -1)
        raw, shift = self.net(kept).chunk(2, -1)
        s = torch.tanh(raw)
        return torch.cat([kept, (moved - shift) * (-s).exp()], -1), -s.sum(-1)


def graph_of(told: Any) -> tuple[Graph, list[Branches]]:
    """The graph of a coupling with such a log-det."""
    torch.manual_seed(0)
    with torch.device("cpu"):
        module = Coupling(told).double()
    points = [torch.randn(ROWS, SIZE, dtype=torch.float64) for _ in range(3)]
    traced = TorchTracedCall(module, lambda obj, x, context: obj(x), points[0])
    return traced.graph(), [path for path in map(traced.path, points) if path is not None]


def found(told: Any) -> list[str]:
    """The repairs of such a log-det, without their lines."""
    return [str(one.edit.words) for one in repairs(*graph_of(told))]


# A log-det that is wrong -> what mends it, first of all.
WRONG = {
    "mean": (lambda s, raw, b: s.mean(-1), "sum in place of mean"),
    "halved": (lambda s, raw, b: s.sum(-1) / 2, "without div by 2"),
    "tripled": (lambda s, raw, b: s.sum(-1) * 3, "without mul by 3"),
    "negated": (lambda s, raw, b: -s.sum(-1), "without neg"),
    "turned": (lambda s, raw, b: (0.0 - s).sum(-1), "without sub by 0"),
    "over the batch": (
        lambda s, raw, b: s.sum().expand(len(s)),
        "sum over all entries of each point in place of sum",
    ),
    "first left out": (
        lambda s, raw, b: s[:, 1:].sum(-1),
        "sum over all entries of each point in place of sum",
    ),
    "before the clamp": (lambda s, raw, b: raw.sum(-1), "tanh (test_repairs.py:"),
    "missing": (lambda s, raw, b: b.sum(-1) * 0, "plus the sum of log |exp"),
    "half is missing": (lambda s, raw, b: 0.5 * s.sum(-1) * torch.ones(()), "without mul by 0.5"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_log_det_is_mended(name: str) -> None:
    """The first repair is the smallest edit that makes it right."""
    told, words = WRONG[name]
    first = next(iter(found(told)), "")
    assert first.startswith(words), found(told)


@pytest.mark.parametrize(
    "told",
    [lambda s, raw, b: s.sum(-1), lambda s, raw, b: -(-s).sum(-1) + 0 * b.sum(-1)],
    ids=["plain", "roundabout"],
)
def test_what_is_right_needs_no_repair(told: Any) -> None:
    """Nothing is said of a log-det that is proved."""
    assert found(told) == []


def test_what_no_edit_mends_has_no_repair() -> None:
    """Two mistakes at once are more than one edit."""
    assert found(lambda s, raw, b: (s[:, :1] * 0.3 + b[:, :1] ** 3).sum(-1)) == []


@pytest.mark.parametrize("name", WRONG)
def test_an_edit_leaves_the_map_as_it_is(name: str) -> None:
    """All that the value is computed of is there unchanged."""
    graph, _ = graph_of(WRONG[name][0])
    value = [graph.outputs[0]]
    own = [node for node in graph.nodes if node.name in _cone(graph, value[0].name)]
    for edit in (one for kind in edits(graph, of_log_det(graph)) for one in kind):
        changed = edited(graph, edit, of_log_det(graph))
        assert changed.outputs[0] == value[0]
        assert [one for one in changed.nodes if one.name in {node.name for node in own}] == own


def _cone(graph: Graph, name: str) -> set[str]:
    from flowref.model.graph import references

    wanted = {name}
    for node in reversed(graph.nodes):
        if node.name in wanted:
            wanted |= {ref.name for ref in references((node.args, dict(node.named)))}
    return wanted


@pytest.fixture(scope="module")
def report() -> Report:
    """An audit of a coupling with a mean in place of a sum."""
    return audit(Coupling(), laws="map/log-det,map/log-det[inverse],map/inverse", profile="quick")


def test_an_audit_tells_repairs_and_proofs(report: Report) -> None:
    """Beside what is violated, and what holds."""
    by_law = {one.law: one for one in report.verdicts}
    assert "sum in place of mean (proved for all inputs" in by_law["map/log-det"].repairs[0]
    assert by_law["map/log-det[inverse]"].proof == "for all inputs and all weights"
    assert by_law["map/inverse"].proof and not by_law["map/log-det"].proof


@pytest.mark.parametrize("brief", [False, True])
def test_reports_keep_repairs_and_proofs(report: Report, brief: bool) -> None:
    """In full and in brief, there and back."""
    kept = report.brief() if brief else report
    again = Report.from_json(kept.to_json())
    told = [(one.law, one.proof, one.repairs) for one in report.verdicts]
    assert [(one.law, one.proof, one.repairs) for one in again.verdicts] == told


@pytest.mark.parametrize(
    ("face", "words"),
    [
        (markdown.to_markdown, "- repair: test"),
        (Report.summary, "Repair: test_repairs.py:"),
        (Report.summary, "2 passed (2 proved)"),
        (page, "Repair</span> test_repairs.py:"),
    ],
    ids=["Markdown", "screen", "count", "scorecard"],
)
def test_faces_show_repairs(report: Report, face: Any, words: str) -> None:
    """Where the diagnosis is told, the repair is; and how many checks are proved."""
    assert words in face(report)


def test_an_issue_tells_the_repair(report: Report) -> None:
    """For the maintainers."""
    (verdict,) = (one for one in report.verdicts if one.repairs)
    assert "Repair: " in issue(report, verdict)


def test_a_log_det_of_a_library_is_mended() -> None:
    """GatedLinearUnit of nflows has one gate for all features, and counts it once."""
    target = registry.parse_target("nflows:GatedLinearUnit[ctx]")
    (repair,) = repairs_of(target, registry.find_law("map/log-det"))
    assert repair.startswith("nonlinearities.py:166: log times 4 (proved for all inputs")


WARP = """
import torch
from torch import nn


class Warp(nn.Module):
    event_shape = (3,)

    def __init__(self):
        super().__init__()
        self.mu, self.tail = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.ones(3))

    def gaussianize(self, x):
        u = x - self.mu
        log_slope = -0.5 * torch.log1p(u**2)
        return torch.asinh(u) * self.tail, log_slope.sum(1)
"""


def test_a_term_that_is_zero_as_built_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named as code names it, at its line; the log-det is proved for the weights as built alone."""
    (tmp_path / "warp.py").write_text(WARP)
    monkeypatch.chdir(tmp_path)
    (claim,) = certified(
        registry.parse_target("warp.py:Warp?forward=gaussianize"),
        [registry.find_law("map/log-det")],
    )
    assert claim.text().startswith("PROVED IN PART  map/log-det")
    assert claim.proof.clause == "for all inputs and these weights"
    (repair,) = claim.repairs
    assert repair.startswith("warp.py:16: plus the sum of log |self.tail| (proved for all inputs")


TRIPS = """
import torch
from torch import nn


class Right(nn.Module):
    event_shape = (4,)

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))

    def forward(self, x):
        a, b = x.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        return torch.cat([a, b * s.exp() + t], -1), s.sum(-1)

    def inverse(self, y):
        a, b = y.chunk(2, -1)
        s, t = self.net(a).chunk(2, -1)
        return torch.cat([a, self.back(b, s, t)], -1)

    def back(self, b, s, t):
        return (b - t) * (-s).exp()


class Sign(Right):
    def back(self, b, s, t):
        return (b - t) * s.exp()


class Shift(Right):
    def back(self, b, s, t):
        return (b + t) / s.exp()


class Twice(Right):
    def back(self, b, s, t):
        return (b - 2 * t) / s.exp()


class Bounded(Right):
    def back(self, b, s, t):
        return (b - t) / s.tanh().exp()


class OtherHalf(Right):
    def inverse(self, y):
        a, b = y.chunk(2, -1)
        s, t = self.net(b).chunk(2, -1)
        return torch.cat([a, self.back(b, s, t)], -1)
"""
# An inverse that is none -> what mends it, first of all, and in which line.
TRIP = {
    "Right": [],
    "Sign": ["trips.py:29: / in place of *", "trips.py:29: exp of minus its argument"],
    "Shift": ["trips.py:34: - in place of +"],
    "Twice": ["trips.py:39: without mul by 2"],
    "Bounded": ["trips.py:44: without tanh"],
    "OtherHalf": ["trips.py:50: part 1 in place of part 2"],
}


@pytest.mark.parametrize("name", TRIP)
def test_an_inverse_is_mended(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an edit of what the inverse computes."""
    (tmp_path / "trips.py").write_text(TRIPS)
    monkeypatch.chdir(tmp_path)
    target = registry.parse_target(f"trips.py:{name}")
    told = repairs_of(target, registry.find_law("map/inverse"))
    assert told == tuple(f"{one} (proved for all inputs and all weights)" for one in TRIP[name])
