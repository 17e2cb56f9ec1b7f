"""Bounds on a box of points, by intervals: of rounding, of finiteness, and of the signs of slopes.

A box that is too wide is halved, up to a number of boxes; if that does not suffice, a smaller one
around its middle is tried. Without a bound nothing is claimed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flowref.model import SpecError, Support
from flowref.model.graph import Branches, Graph
from flowref.proving.criteria import LAWS, Law
from flowref.proving.exact.operators import ARRANGEMENTS, CASTS
from flowref.proving.identities import Proof, holds
from flowref.proving.numbers import NotModelled
from flowref.proving.rounding.bounds import BOUNDS, Undecided
from flowref.proving.rounding.determinants import blocks
from flowref.proving.rounding.intervals import Boxes, Intervals
from flowref.proving.runs import GraphRun, decides

# The most boxes from halving one, and the most numbers computed on all of them, and at once.
BOXES, NUMBERS, AT_ONCE = 4096, 6_000_000, 3_000_000
# A sufficiently small rounding bound; how often a box is halved around its middle; the number of
# proved paths.
GOAL, SMALLER, PATHS = 1e-9, 10, 32
# The tolerance when a bound is checked again, since versions of numpy round differently.
SLACK = 1.05
# Intervals with a larger ratio of ends are halved at their geometric mean.
STEEP = 16.0
# Operators that do not compute on float32 numbers.
KEEPING = {
    "constant",
    *ARRANGEMENTS,
    *CASTS,
    "clone",
    "alias",
    "detach",
    "lift_fresh",
    "contiguous",
}


@dataclass(frozen=True)
class Box:
    """``low``, ``high``: of each entry of the flattened event."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def parse(cls, text: str, entries: int) -> Box:
        """Parses "[-3, 3]", for all entries, or one interval per entry, "[-3, 3], [0, 1]". Raises
        `SpecError`.
        """
        try:
            intervals = ast.literal_eval(f"[{text}]")
            pairs = [(float(low), float(high)) for low, high in intervals]
        except (ValueError, SyntaxError, TypeError):
            pairs = []
        pairs = pairs * entries if len(pairs) == 1 else pairs
        fine = all(
            low <= high and math.isfinite(low) and math.isfinite(high) for low, high in pairs
        )
        if len(pairs) != entries or not fine:
            raise SpecError(
                f"--box was given as {text!r}; expected an interval such as [-3, 3], or one for each of the {entries} entries"
            )
        return cls(tuple(low for low, _ in pairs), tuple(high for _, high in pairs))

    @classmethod
    def of(cls, domain: Support, entries: int) -> Box | None:
        """All float64 numbers of a bounded domain; None for an unbounded one."""
        low, high = (np.broadcast_to(end, (entries,)).astype(float) for end in domain.ends)
        if domain.joint or not (np.isfinite(low).all() and np.isfinite(high).all()):
            return None
        inside = np.nextafter(low, np.inf), np.nextafter(high, -np.inf)
        return cls(tuple(inside[0].tolist()), tuple(inside[1].tolist()))

    def within(self, domain: Support) -> Box | None:
        """The intersection with a domain; None if it is empty, or if the domain is no product of
        intervals.
        """
        if domain.joint:
            return None
        ends = (np.broadcast_to(end, (len(self.low),)).astype(float) for end in domain.ends)
        least, most = next(ends), next(ends)
        low = np.where(np.array(self.low) > least, self.low, np.nextafter(least, np.inf))
        high = np.where(np.array(self.high) < most, self.high, np.nextafter(most, -np.inf))
        return Box(tuple(low.tolist()), tuple(high.tolist())) if (low <= high).all() else None

    def smaller(self, share: float) -> Box:
        """The box scaled by ``share`` around its middle."""
        low, high = np.array(self.low), np.array(self.high)
        middle, half = low / 2 + high / 2, (high / 2 - low / 2) * share
        return Box(tuple((middle - half).tolist()), tuple((middle + half).tolist()))

    def __str__(self) -> str:
        pairs = list(dict.fromkeys(zip(self.low, self.high, strict=True)))
        if len(pairs) == 1:
            return f"[{pairs[0][0]:.6g}, {pairs[0][1]:.6g}]" + f"^{len(self.low)}" * (
                len(self.low) > 1
            )
        return " x ".join(
            f"[{low:.6g}, {high:.6g}]" for low, high in zip(self.low, self.high, strict=True)
        )


@dataclass(frozen=True)
class Bound:
    r"""A bound on a box.

    ``kind``: "rounding"; "holds", for a law that is no identity elsewhere; "finite"; "monotone", or
    "slopes" of one sign where a comparison may cause a jump; "codomain", "lipschitz", for maps that
    declare them. ``asked``: the requested box; ``box``: where it is shown, or None; ``boxes``: the
    number of parts; ``least``, ``most``: of slopes, of the codomain; the second also of rounding,
    and of $\|J - I\|_2$; ``reason``: why it is not shown.
    """

    kind: str
    asked: Box
    box: Box | None = None
    boxes: int = 0
    least: float = 0.0
    most: float = 0.0
    reason: str = ""

    def check(self, graph: Graph, law: Law, proof: Proof, seed: int) -> bool:
        """Whether the bound is shown again on the box."""
        if self.box is None:
            return True
        promised = Promised(
            (self.least, self.most) if self.kind == "codomain" else None, self.kind == "lipschitz"
        )
        found = {
            one.kind: one for one in box_bounds(graph, law, proof, self.box, promised, seed=seed)
        }.get(self.kind)
        if found is None or found.box != self.box:
            return False
        close = found.most <= self.most * SLACK and found.least * SLACK >= self.least
        return close or self.kind == "codomain"


@dataclass(frozen=True)
class Promised:
    """What a map declares: the ends of its ``codomain``, and that it is x + g(x) with a
    ``contraction`` g.
    """

    codomain: tuple[float, float] | None = None
    contraction: bool = False


def box_bounds(
    graph: Graph, law: Law, proof: Proof, asked: Box, promised: Promised, seed: int = 0
) -> Iterator[Bound]:
    """Yields bounds of rounding, finiteness, slopes and promises on a box; of rounding if the law
    is an identity.
    """
    if graph.guards and not proof.proved:
        return  # the graph holds for one answer to the code's questions only
    if reason := _reason_without_bounds(graph):
        yield Bound("rounding", asked, reason=reason)
        return
    proved = Proved(graph, law, proof, seed)
    if proof.proved:
        yield _rounding_bound("rounding", asked, graph, proved)
    elif proved.steps and (found := _bound_on_branch(asked, graph, law, seed)) is not None:
        yield found
    yield _rounding_bound("finite", asked, graph, None)
    if law is not LAWS["log-det"]:
        return
    if (found := _monotone(graph, asked)) is not None:
        yield found
    if promised.codomain is not None:
        yield _codomain_bound(graph, asked, *promised.codomain)
    if promised.contraction:
        yield _contraction(graph, asked)


def _reason_without_bounds(graph: Graph) -> str:
    if graph.given is not None:
        return "it takes a context, for which there is no box"
    single = next(
        (one for one in graph.needed(()) if one.kind == "float32" and one.op not in KEEPING), None
    )
    return (
        "" if single is None else f"single precision in {single.op} ({single.line or single.name})"
    )


def _bound_on_branch(asked: Box, graph: Graph, law: Law, seed: int) -> Bound | None:
    """The bound for a law that is no identity everywhere, on a box whose comparisons select a
    branch on which it is one.
    """
    for readings in ((), (" is read as ",)):
        found = _rounding_bound(
            "holds",
            asked,
            graph,
            Proved(graph, law, Proof(True, paths=1, conditions=readings), seed),
        )
        if found.box is not None:
            return found
    return None


@dataclass
class Proved:
    """Whether a law is an identity on the path of a box; cached by path."""

    graph: Graph
    law: Law
    proof: Proof
    seed: int

    def __post_init__(self) -> None:
        self.known: dict[Any, bool] = {}
        moving = self.graph.moving(*self.graph.inputs)
        self.steps = [one for one in self.graph.nodes if decides(one) and one.name in moving]

    def on(self, values: dict[str, Any], box: int) -> bool:
        """Whether it is on the path of one of a run's boxes."""
        if not self.proof.paths:
            return True
        decided: dict[str, Any] = {}
        for node in self.steps:
            if node.name not in values:
                continue
            if not isinstance(value := values[node.name], Intervals):
                decided[node.name] = value
                continue
            low, high = (one[min(box, len(one) - 1)] for one in value.ends)
            if not (low == high).all():
                return False
            decided[node.name] = low.astype({"bool": bool, "int": np.int64}.get(node.kind, float))
        path = Branches(decided)
        if path.key not in self.known:
            if len(self.known) >= PATHS:
                return False
            self.known[path.key] = self._holds(path)
        return self.known[path.key]

    def _holds(self, path: Branches) -> bool:
        free = frozenset(self.proof.free)
        try:
            run = holds(self.graph, self.law, free, decimal(self.proof), path, self.seed)
        except NotModelled:
            return False
        return run is not None


def decimal(proof: Proof) -> bool:
    """Whether numbers in code are read as the values that they stand for."""
    return any(" is read as " in one for one in proof.conditions)


def run_on(
    graph: Graph, low: Any, high: Any, *, slopes: bool, decimals: bool = False, context: Any = None
) -> dict[str, Any]:
    """The values of a graph on boxes ``low``, ``high``, (boxes, entries), by name."""
    event = graph.points[1][1:]
    boxes = Boxes(low.reshape(-1, *event), high.reshape(-1, *event), context, decimals)
    with np.errstate(all="ignore"):
        return GraphRun(
            graph, boxes, None, frozenset(), "entries" if slopes else "", operators=BOUNDS
        ).values


def box_run_size(graph: Graph, slopes: bool) -> int:
    """The amount of numbers of a run on one box."""
    directions = math.prod(graph.points[1][1:]) + 1 if slopes else 0
    return sum(math.prod(one.shape) for one in graph.needed(())) * (3 + 2 * directions) + 1


# Results on boxes: a mask of those that succeed, and two numbers of each, whose minimum and maximum
# count.
BoxResults = tuple[Any, Any, Any]


def covered(
    graph: Graph, box: Box, evaluate: Callable[[dict[str, Any], int], BoxResults], *, slopes: bool = False, decimals: bool = False,
    diagonal: bool = False,
) -> tuple[int, float, float] | str:  # fmt: skip
    """Halves a box until all parts succeed: returns their number, and the minimum and maximum of
    the results; or the reason of a failure. ``diagonal``: for elementwise maps, whose intervals
    are all halved at once.
    """
    size = box_run_size(graph, slopes)
    most, at_once = min(BOXES, NUMBERS // size), max(AT_ONCE // size, 1)
    todo = [(np.array(box.low), np.array(box.high))]
    wide = np.maximum(todo[0][1] - todo[0][0], np.finfo(float).tiny)
    count, least, largest = 0, np.inf, -np.inf
    while todo:
        batch, todo = todo[:at_once], todo[at_once:]
        low, high = (np.stack([one[at] for one in batch]) for at in (0, 1))
        try:
            fine, lows, highs = evaluate(
                run_on(graph, low, high, slopes=slopes, decimals=decimals), len(batch)
            )
        except Undecided:
            if len(batch) > 1:  # one of them may be decided
                todo, at_once = batch + todo, 1
                continue
            fine, lows, highs = np.zeros(1, bool), low, low
        except NotModelled as error:
            return f"not modelled: {error}"
        count += int(fine.sum())
        if fine.any():
            least = min(least, float(np.min(lows[fine])))
            largest = max(largest, float(np.max(highs[fine])))
        for at in np.flatnonzero(~fine):
            todo += _halves(low[at], high[at], wide, diagonal)
        if count + len(todo) > most:
            return f"not shown with {most} boxes"
        if any((one == other).all() for one, other in todo):
            return "not shown at a point"
    return count, least, largest


def _halves(low: Any, high: Any, wide: Any, diagonal: bool) -> list[tuple[Any, Any]]:
    """The halves of a box along the axis that is widest relative to the whole."""
    middle = low / 2 + high / 2
    steep = (low > 0) & (high > STEEP * low)
    middle = np.where(steep, np.sqrt(np.maximum(low, 0)) * np.sqrt(np.maximum(high, 0)), middle)
    along = (
        np.ones(len(low), bool)
        if diagonal
        else np.arange(len(low)) == np.argmax((high - low) / wide)
    )
    return [(low, np.where(along, middle, high)), (np.where(along, middle, low), high)]


def _rounding_bound(kind: str, asked: Box, graph: Graph, proved: Proved | None) -> Bound:
    """The bound that results are finite and, for a proved law, of their rounding."""
    outputs = [one.name for one in graph.outputs if one is not None]
    of_law = outputs if proved is not None and proved.law is not LAWS["log-det"] else outputs[1:]

    def evaluate(values: dict[str, Any], count: int) -> BoxResults:
        fine, err = np.ones(count, bool), np.zeros(count)
        for name in outputs:
            if isinstance(value := values[name], Intervals):
                fine &= value.bounded.reshape(len(value.err), -1).all(1)
                if name in of_law:
                    err = err + _largest(value, graph, summed=len(of_law) == 1)
        if proved is not None:
            fine &= err <= GOAL
            fine &= np.array([fine[at] and proved.on(values, at) for at in range(count)], bool)
        return fine, err, err

    decimals = proved is not None and decimal(proved.proof)
    found = _largest_box(asked, lambda box: covered(graph, box, evaluate, decimals=decimals))
    if isinstance(found, str):
        return Bound(kind, asked, reason=found)
    box, (count, _, most) = found
    return Bound(
        kind, asked, box, count, most=_rounded_up_to_two_digits(most) if proved is not None else 0.0
    )


def _largest_box(
    asked: Box, cover: Callable[[Box], tuple[int, float, float] | str]
) -> tuple[Box, tuple[int, float, float]] | str:
    """The largest box around the middle of one, each half as wide, that is covered; or the reason
    if none is.
    """
    if isinstance(found := cover(asked.smaller(0.0)), str):
        return found
    reason = ""
    for turn in range(SMALLER):
        box = asked.smaller(0.5**turn) if turn else asked
        if not isinstance(found := cover(box), str):
            return box, found
        reason = reason or found
    return reason


def _largest(value: Intervals, graph: Graph, *, summed: bool) -> Any:
    """The largest error of an entry, or of the sum over a point if the log-det may be that:
    (boxes).
    """
    shape, rows = value.shape, graph.points[1][0]
    parts = (rows, -1) if summed and shape and shape[0] == rows else (-1, 1)
    return value.err.reshape(len(value.err), *parts).sum(-1).max(-1, initial=0)


def _rounded_up_to_two_digits(number: float) -> float:
    if not number:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / unit * (1 + 1e-9)) * unit:.1e}")


def _monotone(graph: Graph, asked: Box) -> Bound | None:
    """The bound that slopes of an elementwise map have one sign; None for other maps."""
    rows, entries = graph.points[1][0], len(asked.low)
    sides, signs = ~np.eye(entries, dtype=bool), set[bytes]()
    whole = _jacobians_on(graph, asked)
    if whole is None or any(one[..., sides].any() for one in whole):
        return None

    def evaluate(values: dict[str, Any], count: int) -> BoxResults:
        low, high = (
            np.broadcast_to(np.diagonal(one, axis1=-2, axis2=-1), (count, rows, entries)).reshape(
                count, -1
            )
            for one in _jacobians(graph, values)
        )
        signed = ((low > 0) | (high < 0)).all(1)
        signs.update(map(bytes, (low > 0)[signed]))
        sizes = np.maximum(low, -high).min(1), np.maximum(high, -low).max(1)
        return signed & np.isfinite(sizes[1]), *sizes

    found = _largest_box(
        asked, lambda box: covered(graph, box, evaluate, slopes=True, diagonal=True)
    )
    if isinstance(found, str):
        return Bound("monotone", asked, reason=found)
    if len(signs) > 1:
        return Bound("monotone", asked, reason="slopes have both signs")
    jumps = replace(graph, outputs=(graph.outputs[0], None)).needed(())
    open_ = any(decides(one) and one.name in graph.moving(*graph.inputs) for one in jumps)
    return Bound("slopes" if open_ else "monotone", asked, found[0], *found[1])


def _jacobians(graph: Graph, values: dict[str, Any]) -> Any:
    """The ends of the Jacobians of points on boxes, (boxes, rows, entries, entries); None if there
    are none.
    """
    value = values[graph.outputs[0].name]
    rows, size = graph.points[1][0], math.prod(graph.points[1])
    if not isinstance(value, Intervals) or value.d is None or math.prod(value.shape) != size:
        return None
    return blocks(value.d, rows)


def _jacobians_on(graph: Graph, box: Box) -> Any:
    try:
        values = run_on(graph, np.array([box.low]), np.array([box.high]), slopes=True)
    except NotModelled:
        return None
    return _jacobians(graph, values)


def _codomain_bound(graph: Graph, asked: Box, low: float, high: float) -> Bound:
    def evaluate(values: dict[str, Any], count: int) -> BoxResults:
        least, most = (
            np.broadcast_to(one.reshape(len(one), -1), (count, one[0].size))
            for one in values[graph.outputs[0].name].ends
        )
        return (
            (least >= low).all(1) & (most <= high).all(1),
            least.min(1),
            most.max(1),
        )

    found = _largest_box(asked, lambda box: covered(graph, box, evaluate))
    if isinstance(found, str):
        return Bound("codomain", asked, reason=found)
    return Bound("codomain", asked, found[0], found[1][0], low, high)


def _contraction(graph: Graph, asked: Box) -> Bound:
    r"""The bound $\|J - I\|_2 < 1$, from the norms of the midpoints and radii of intervals."""
    if _jacobians_on(graph, asked) is None:
        return Bound("lipschitz", asked, reason="its slopes are not known")
    one = np.eye(len(asked.low))

    def evaluate(values: dict[str, Any], count: int) -> BoxResults:
        low, high = _jacobians(graph, values)
        middle, half = low / 2 + high / 2 - one, high / 2 - low / 2
        fine = np.isfinite(middle).all((-1, -2)) & np.isfinite(half).all((-1, -2))
        safe = [np.where(fine[..., None, None], part, 0.0) for part in (middle, half)]
        norms = np.linalg.norm(safe[0], 2, (-2, -1)) + np.linalg.norm(safe[1], axis=(-2, -1))
        norms = np.where(fine, norms * (1 + 1e-9) + 1e-12, np.inf)
        most = np.broadcast_to(norms.reshape(len(norms), -1).max(1), (count,))
        return most < 1, most, most

    found = _largest_box(asked, lambda box: covered(graph, box, evaluate, slopes=True))
    if isinstance(found, str):
        return Bound("lipschitz", asked, reason=found)
    return Bound("lipschitz", asked, found[0], found[1][0], most=found[1][2])
