"""Whether a law holds of a traced call as an identity: for all inputs and all weights.

The graph is evaluated on residues (see `exact.residues`) at many random points of many fields; a
wrong formula passes with a bounded probability, which is reported.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from flowref.model import PROVED_WHOLE
from flowref.model.graph import ALONG, Branches, Graph, Node
from flowref.proving.criteria import Law, kept_entries
from flowref.proving.exact.fields import LEVELS
from flowref.proving.exact.residues import Field
from flowref.proving.numbers import NotModelled
from flowref.proving.runs import GraphRun, decides

# The number of towers of a proof without roots and open comparisons, and with them: each draws its
# own signs, and half of the fields see one that matters; fewer are needed if each of several points
# has its own signs. If a run takes long, one tower is tried first, which shows nearly all errors.
ONE, FEW, SOME, MANY = 1, 6, 22, 64
LONG = 100_000
# Numbers held at once, and the distance of the seeds of parts.
HELD, AGAIN = 100_000_000, 7907
ROOTS = ("sqrt", "rsqrt", "abs", "sign", "sgn", "asin", "acos", "asinh", "_linalg_slogdet")
# The weights for which a claim holds.
WEIGHTS = (
    "all weights, buffers and constants",
    "all weights and buffers",
    "all weights, with these buffers",
    "these weights",
)
WHOLE = WEIGHTS[:2]
# Operators with inner products, and the argument whose last axis has their length.
PRODUCTS = {"mm": 1, "bmm": 1, "addmm": 2, "convolution": 1}
# The largest event with derivatives by each entry.
ENTRIES = 128


@dataclass(frozen=True)
class Proof:
    """The result of a proof attempt.

    ``proved``: whether the statement is an identity; ``fields``: the number of fields tested;
    ``paths``: the number of paths, 0 for all outcomes of all comparisons; ``weights``: the weights
    it holds for; ``conditions``: a clause each; ``reason``: why there is no proof; ``free``: the
    arrays that are indeterminate.
    """

    proved: bool
    fields: int = 0
    paths: int = 0
    weights: str = ""
    conditions: tuple[str, ...] = ()
    reason: str = ""
    free: tuple[str, ...] = ()

    @property
    def clause(self) -> str:
        """The scope of the proof as a clause, "" if there is none."""
        if not self.proved or self.whole:
            return PROVED_WHOLE if self.proved else ""
        words = [f"for all inputs and {self.weights}"]
        if self.paths:
            several = f"{self.paths} paths" if self.paths > 1 else "path"
            words = [f"for {self.weights}", f"on the {several} that drawn points take"]
        bounds = [one for one in self.conditions if one.startswith("where ")]
        words += bounds[:1]
        return ", ".join(words) + (f" and {len(bounds) - 1} more" if len(bounds) > 1 else "")

    @property
    def whole(self) -> bool:
        """Whether it is proved for all inputs and weights: on all paths, and without conditions."""
        return self.proved and not self.bounded and self.weights in WHOLE

    @property
    def bounded(self) -> bool:
        """Whether it is proved only on some paths, or under conditions."""
        return self.paths > 0 or any(one.startswith("where ") for one in self.conditions)


def weakest(proofs: Sequence[tuple[str, Proof]]) -> Proof:
    """The conjunction of several named statements; nothing follows from those proved only on some
    paths.
    """
    for name, proof in proofs:
        if not proof.proved:
            return Proof(False, reason=f"{name} is not proved: {proof.reason}")
        if proof.bounded:
            return Proof(False, reason=f"{name} is proved {proof.clause}")
    every = [proof for _, proof in proofs]
    return Proof(
        True,
        min(one.fields for one in every),
        weights=WEIGHTS[max(WEIGHTS.index(one.weights) for one in every)],
        conditions=tuple(dict.fromkeys(clause for one in every for clause in one.conditions)),
    )


def prove_identity(
    graph: Graph, law: Law, paths: Iterable[Branches], most: float = math.inf, seed: int = 0
) -> tuple[Proof, tuple[Branches, ...]]:
    """Whether a law of `LAWS` holds of a call in exact arithmetic, and on which paths, none for
    all.

    The strongest claim is tried first: for all weights and buffers, for all outcomes of all
    comparisons. ``paths``: those of drawn points, used if the law does not hold for all outcomes;
    ``most``: the largest amount of numbers per field, over all paths of a claim, scaled to ``MANY``
    fields.
    """
    if reason := _unprovable_reason(graph, law):
        return Proof(False, reason=reason), ()
    loose = {
        one.name
        for one in graph.nodes
        if one.op == "constant" and one.kind == "float" and one.shape
    }
    free = [
        frozenset(graph.weights) | loose,
        frozenset(graph.weights),
        frozenset(graph.trained),
        frozenset(),
    ]
    reason = "it is no identity"

    def claim(weights: frozenset[str], runs: Sequence[GraphRun[Field]], paths: int) -> Proof:
        conditions = dict.fromkeys(one for run in runs for one in run.conditions)
        words, fields = WEIGHTS[free.index(weights)], runs[-1].samples
        return Proof(True, fields, paths, words, tuple(conditions), free=tuple(sorted(weights)))

    strongest = _all_hold(graph, law, free[0], False, [None], seed)
    if strongest and (proof := claim(free[0], strongest, 0)).whole:
        return proof, ()
    different = list({path.key: path for path in paths}.values())
    # A law that fails for these weights, on one path or for all outcomes, fails for larger claims.
    readings: dict[bool, list[Any]] = {}
    for decimal, path in product((False, True), (*different[:1], None)):
        if path is None and different and decimal not in readings:
            continue  # a law that fails on a path fails for all outcomes
        try:
            if holds(graph, law, frozenset(), decimal, path, seed, few=True):
                taken = [None] if path is None else different
                readings.setdefault(decimal, []).insert(0, taken)
        except NotModelled as error:
            if path is not None or not different:
                reason = f"not modelled: {error}"
    best: tuple[Proof, tuple[Branches, ...]] | None = None
    for weights, decimal in product(dict.fromkeys(free), readings):
        # Without open comparisons one path is all.
        opens = _opens(graph, weights)
        for taken in readings[decimal] if opens else [[None]]:
            if best is not None and taken is different:
                continue  # holding on some paths is weaker than the claim found before
            towers = _fields(graph, law, taken[0], weights)
            if len(taken) > 1 and numbers_of(graph, law) * len(taken) * towers > most * MANY:
                reason = f"a proof on {len(taken)} paths takes too many numbers"
                continue
            runs = _all_hold(graph, law, weights, decimal, taken, seed)
            if not runs:
                continue
            on = tuple(path for path in taken if path is not None)
            proof = claim(weights, runs, len(on))
            if proof.whole:
                return proof, on
            if best is None or (best[0].bounded and not proof.bounded and weights):
                best = proof, on
            reason = "it is no identity on all paths of drawn points"
    if best is None and law.slopes == "halves" and "no identity" in reason:
        reason = (
            f"not decided: for events of more than {ENTRIES} entries, log-dets are proved if each entry is kept or transformed "
            "separately"
        )
    return best or (Proof(False, reason=_nested(graph, different) or reason), ())


def _nested(graph: Graph, paths: Sequence[Branches]) -> str:
    """What is undecided about the roots of a graph, or ""."""
    for path in (None, *paths[:1]):
        field = Field(1, 0)
        with contextlib.suppress(NotModelled):
            GraphRun(graph, field, path, frozenset(), "")
        if field.nested:
            return f"not decided: a root of an expression with roots ({field.nested})"
    return ""


def numbers_of(graph: Graph, law: Law) -> int:
    """The amount of numbers, and products of them, that a run of one path computes in each field,
    determinant included.
    """
    rows = graph.points[1][0]
    each = math.prod(graph.points[1]) // rows + rows
    halves = rows + math.prod(graph.points[1][1:]).bit_length()
    directions = {"": 0, "along": 1, "entries": each, "halves": halves}[law.slopes]
    along = [one.removeprefix(ALONG) for one in graph.weights if one.startswith(ALONG)]
    moving, shapes = graph.moving(graph.points[0], *along), graph.shapes
    found = 0
    for node in graph.needed(()):
        inner = 1
        if node.op in PRODUCTS:
            factor = shapes[node.args[PRODUCTS[node.op]].name]
            inner = math.prod(factor[1:]) if node.op == "convolution" else factor[-2]
        found += math.prod(node.shape) * inner * (LEVELS + directions * (node.name in moving))
    return found + (directions**3 if law.slopes == "entries" else 0)


def work_of(graph: Graph, law: Law) -> int:
    """The amount for a claim about all weights and outcomes, scaled to ``MANY`` fields."""
    return numbers_of(graph, law) * _fields(graph, law, None, frozenset(graph.weights)) // MANY


def _unprovable_reason(graph: Graph, law: Law) -> str:
    """Why nothing can be proved of a graph, or ""."""
    if graph.outputs[1] is None:
        return "it returns no log-det"
    if law.slopes == "entries" and math.prod(graph.points[1]) > ENTRIES * graph.points[1][0]:
        return f"its events have more than {ENTRIES} entries"
    return "it writes to its weights, or to its input" if graph.written else ""


def _all_hold(
    graph: Graph,
    law: Law,
    weights: frozenset[str],
    decimal: bool,
    paths: Sequence[Branches | None],
    seed: int,
) -> list[GraphRun[Field]]:
    """The runs of all paths if the law holds in each, else none."""
    runs: list[GraphRun[Field]] = []
    for number, path in enumerate(paths):
        try:
            run = holds(graph, law, weights, decimal, path, seed + number)
        except NotModelled:  # it may be modelled on a path
            return []
        if run is None:
            return []
        runs.append(run)
    return runs


def holds(
    graph: Graph,
    law: Law,
    weights: frozenset[str],
    decimal: bool,
    path: Branches | None,
    seed: int,
    *,
    few: bool = False,
) -> GraphRun[Field] | None:
    """The run in which the law holds, or None; ``few``: in so few fields that signs are not
    tested.
    """
    numbers = numbers_of(graph, law)
    first = (ONE, FEW) if numbers > LONG else (FEW,)
    fields = FEW if few else _fields(graph, law, path, weights)
    moved = None
    if law.slopes == "halves":
        kept = kept_entries(GraphRun(graph, Field(ONE, seed, decimal), path, weights, ""))
        if kept is None or kept.all():
            return None
        moved = ~kept
    at_once = max(ONE, HELD // max(ONE, numbers))
    parts = [min(at_once, fields - done) for done in range(0, fields, at_once)]
    for number, towers in enumerate((*(one for one in first if one < fields), *parts)):
        field = Field(towers, seed + number * AGAIN, decimal)
        run = GraphRun(graph, field, path, weights, law.slopes, moved=moved)
        if not law.holds(run):
            return None
    run.samples = fields * (graph.points[1][0] if fields == SOME else 1)
    return run


def _fields(graph: Graph, law: Law, path: Branches | None, weights: frozenset[str]) -> int:
    """The number of fields of a claim. If signs are drawn for each point separately, each point is
    a sample.
    """
    moving, own = graph.moving(*graph.inputs, *weights), graph.moving(*graph.inputs)
    drawing = [
        node
        for node in graph.needed(())
        if _rooted(node) or (path is None and decides(node) and node.name in moving)
    ]
    if not drawing:
        return FEW
    rows = graph.points[1][0]
    apart = all(node.name in own and node.shape[:1] == (rows,) for node in drawing)
    return SOME if apart and rows * SOME >= MANY and law.slopes in ("entries", "halves") else MANY


def _opens(graph: Graph, weights: frozenset[str]) -> bool:
    """Whether a comparison or an index depends on points, a context or weights."""
    moving = graph.moving(*graph.inputs, *weights)
    return any(decides(node) and node.name in moving for node in graph.nodes)


def _rooted(node: Node) -> bool:
    powered = node.op == "pow" and isinstance(node.args[1], float) and node.args[1] % 1 != 0
    return powered or node.op in ROOTS
