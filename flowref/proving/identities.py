r"""Whether the log-det of a traced call is that of its Jacobian, as an identity: for all inputs and all weights.

The graph is run on residues (see `residues`), with the derivative by each entry of each point. $(\det J)^2 = (e^{\log\det})^2$
for each point of the batch, and nothing of a point depends on another, at many random points of many fields: a formula that is
wrong passes with a probability that is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from flowref.model import PROVED_WHOLE
from flowref.model.graph import STEPS, Branches, Graph, Node, Ref, references
from flowref.proving.arithmetic import total
from flowref.proving.arrangements import lifted, view
from flowref.proving.fields import LEVELS, Words, inverse, times
from flowref.proving.literals import literal
from flowref.proving.operators import CASTS, EXACT, OPERATORS, PLAIN
from flowref.proving.orders import Signs, ordered, signed
from flowref.proving.residues import Field, NotModelled, Residues

# Towers of a proof without roots and open comparisons, and of one with them: each has a sign of its own, of which one half
# of the fields sees one that matters.
FEW, MANY = 6, 64
# For which weights a claim is.
WEIGHTS = (
    "all weights, buffers and constants",
    "all weights and buffers",
    "all weights, with these buffers",
    "these weights",
)
# Settings of operators that say nothing of numbers; types are heard by casts.
SETTINGS = ("layout", "device", "pin_memory", "memory_format")
WHOLE = WEIGHTS[:2]
# Comparisons, with the place of what is larger where they are true, and of what is smaller.
ORDERS = {"gt": (0, 1), "ge": (0, 1), "lt": (1, 0), "le": (1, 0)}
STRICT = ("gt", "lt")
# Operators that add up products, with which argument tells how many.
PRODUCTS = {"mm": 1, "bmm": 1, "addmm": 2, "convolution": 1}
# Entries of an event up to which derivatives are taken by each.
ENTRIES = 128


@dataclass(frozen=True)
class Law:
    """``holds``: of a run; ``slopes``: whether derivatives by the entries of points are asked for."""

    holds: Callable[[Run], bool]
    slopes: bool


@dataclass(frozen=True)
class Proof:
    """What was found of a statement.

    ``proved``: whether it is an identity; ``fields``: at so many points of so many fields; ``paths``: how many paths, 0 for
    all values of all comparisons; ``weights``: for which of them; ``conditions``: where it is said, a clause each;
    ``reason``: why there is no proof; ``free``: the arrays that are indeterminate.
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
        """For what it is proved; empty where it is not."""
        if not self.proved or self.whole:
            return PROVED_WHOLE if self.proved else ""
        words = [f"for all inputs and {self.weights}"]
        if self.paths:
            words = [f"for {self.weights}", f"on the {self.paths} paths that drawn points take"]
        bounds = [one for one in self.conditions if one.startswith("where ")]
        words += bounds[:1]
        return ", ".join(words) + (f" and {len(bounds) - 1} more" if len(bounds) > 1 else "")

    @property
    def whole(self) -> bool:
        """Whether it is proved for all inputs and weights: on all paths, and under no condition."""
        return self.proved and not self.bounded and self.weights in WHOLE

    @property
    def bounded(self) -> bool:
        """Whether it is proved on some paths alone, or under conditions."""
        return self.paths > 0 or any(one.startswith("where ") for one in self.conditions)


def identity(
    graph: Graph, law: Law, paths: Sequence[Branches], seed: int = 0
) -> tuple[Proof, tuple[Branches, ...]]:
    """Whether a law of `LAWS` holds of a call in exact arithmetic, and on which paths, none where for all.

    The strongest claim is tried first: for all weights and buffers, for all values of all comparisons. ``paths``: those
    that drawn points take, asked for where the law does not hold for all values.
    """
    if reason := _refused(graph, law):
        return Proof(False, reason=reason), ()
    different = list({path.key: path for path in paths}.values())
    # What does not hold for these weights, on one path or for all outcomes, holds for no others.
    readings: dict[bool, list[Any]] = {}
    reason = "it is no identity"
    for decimal, path in product((False, True), (None, *different[:1])):
        try:
            if holds(graph, law, frozenset(), decimal, path, seed):
                taken = [None] if path is None else different
                readings.setdefault(decimal, []).append(taken)
        except NotModelled as error:
            if path is not None or not different:
                reason = f"not modelled: {error}"
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
    best: tuple[Proof, tuple[Branches, ...]] | None = None
    for weights, decimal in product(dict.fromkeys(free), readings):
        # Where nothing is open, one path is all.
        opens = _opens(graph, weights)
        for taken in readings[decimal] if opens else [[None]]:
            if best is not None and taken is different:
                continue  # what holds on some paths is less than what was found
            runs = _all_hold(graph, law, weights, decimal, taken, seed)
            if not runs:
                continue
            conditions = dict.fromkeys(one for run in runs for one in run.conditions)
            on = tuple(path for path in taken if path is not None)
            claim, fields = WEIGHTS[free.index(weights)], runs[-1].field.towers
            proof = Proof(
                True, fields, len(on), claim, tuple(conditions), free=tuple(sorted(weights))
            )
            if proof.whole:
                return proof, on
            if best is None or (best[0].bounded and not proof.bounded and claim != WEIGHTS[-1]):
                best = proof, on
        reason = "it is no identity on all paths of drawn points"
    return best or (Proof(False, reason=reason), ())


def numbers_of(graph: Graph, law: Law) -> int:
    """How many numbers and products of them a run of one path computes in each field, a determinant included."""
    rows = graph.points[1][0]
    directions = math.prod(graph.points[1]) // rows + rows if law.slopes else 0
    moving, shapes = graph.moving(graph.points[0]), graph.shapes
    found = 0
    for node in graph.nodes:
        inner = 1
        if node.op in PRODUCTS:
            factor = shapes[node.args[PRODUCTS[node.op]].name]
            inner = math.prod(factor[1:]) if node.op == "convolution" else factor[-2]
        found += math.prod(node.shape) * inner * (LEVELS + directions * (node.name in moving))
    return found + (directions**3 if law.slopes else 0)


def _refused(graph: Graph, law: Law) -> str:
    """Why nothing is proved of a graph, whatever it computes; empty where something may be."""
    if graph.outputs[1] is None and law.slopes:
        return "it returns no log-det"
    if law.slopes and math.prod(graph.points[1]) > ENTRIES * graph.points[1][0]:
        return f"its events have more than {ENTRIES} entries"
    sources = {*graph.weights, graph.points[0]}
    writes = any(node.op == "copy_" and node.args[0].name in sources for node in graph.nodes)
    return "it writes to its weights, or to its input" if writes else ""


def _all_hold(
    graph: Graph,
    law: Law,
    weights: frozenset[str],
    decimal: bool,
    paths: Sequence[Branches | None],
    seed: int,
) -> list[Run]:
    """The runs of all paths, if the law holds in each; none where it does not, or cannot be run."""
    runs: list[Run] = []
    for number, path in enumerate(paths):
        try:
            run = holds(graph, law, weights, decimal, path, seed + number)
        except NotModelled:  # on a path it may be
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
) -> Run | None:
    """The run in which the law holds; None where it does not."""
    signed = _rooted(graph) or (path is None and _opens(graph, weights))
    for towers in (FEW, MANY) if signed else (FEW,):
        run = Run(graph, Field(towers, seed, decimal), path, weights, law.slopes)
        if not law.holds(run):
            return None
    return run


def _opens(graph: Graph, weights: frozenset[str]) -> bool:
    """Whether something is compared or placed that depends on points, a context or weights."""
    moving = graph.moving(*graph.inputs, *weights)
    return any(_decides(node) and node.name in moving for node in graph.nodes)


def _decides(node: Node) -> bool:
    """Whether an operator gives whole numbers or truth values."""
    return node.kind in ("int", "bool") or node.op in STEPS


def _rooted(graph: Graph) -> bool:
    return any(
        node.op
        in ("sqrt", "rsqrt", "abs", "sign", "sgn", "asin", "acos", "asinh", "_linalg_slogdet")
        or (node.op == "pow" and isinstance(node.args[1], float) and node.args[1] % 1 != 0)
        for node in graph.nodes
    )


class Run:
    """The graph at random points of fields. ``path``: what comparisons are held to; None for a random bit each; ``slopes``:
    with derivatives, by each entry of all points at once, and by a random direction of each point; ``ready``: values of another
    run in the same field, of a graph that differs elsewhere.
    """

    def __init__(
        self,
        graph: Graph,
        field: Field,
        path: Branches | None,
        weights: frozenset[str],
        slopes: bool,
        ready: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph, self.field, self.path, self.weights = graph, field, path, weights
        self.values: dict[str, Any] = dict(ready or {})
        self.ordered: dict[str, tuple[Signs, Signs]] = {}
        self.conditions = field.conditions
        if graph.guards:
            self.conditions[
                f"where {len(graph.guards)} conditions and counts in code come out as they did"
            ] = None
        name, shape = graph.points
        self.size = math.prod(shape)
        if ready is None:
            for weight, sizes in graph.weights.items():
                constant = graph.constants[weight]
                self.values[weight] = (
                    field.free(sizes) if weight in weights else field.constant(constant)
                )
            self.values[name] = field.free(shape, self._directions(shape) if slopes else None)
            if graph.given is not None:
                self.values[graph.given[0]] = field.free(graph.given[1])
        moving = graph.moving(*graph.inputs, *weights)
        # What is known: on a path all that is decided, and elsewhere what depends on nothing that is free.
        known = {
            node.name: (path.decided if path is not None else {}).get(
                node.name, graph.constants.get(node.name)
            )
            for node in graph.nodes
            if _decides(node) and (path is not None or node.name not in moving)
        }
        known = {one: value for one, value in known.items() if value is not None}
        for node in graph.needed(known):
            if node.name in self.values:
                continue
            if node.op in ("eq", "ne") and node.name in moving:
                self.conditions[
                    f"where {node.op} comes out as it did ({node.line or node.name})"
                ] = None
            self.values[node.name] = (
                np.asarray(known[node.name]) if node.name in known else self._run(node)
            )
            # On a path the numbers that are compared may have no other use, and are not computed.
            if node.op in ORDERS and all(ref.name in self.values for ref in references(node.args)):
                larger, smaller = (self._given(node.args[at]) for at in ORDERS[node.op])
                self.ordered[node.name] = ordered(larger, smaller, strict=node.op in STRICT)

    def _directions(self, shape: tuple[int, ...]) -> Words:
        rows, event = shape[0], shape[1:]
        entries = self.size // rows
        each = np.repeat(np.eye(entries, dtype=np.uint64)[:, None], rows, 1)
        one = np.zeros((rows, rows, entries), np.uint64)
        one[range(rows), range(rows)] = self.field.drawn(rows, entries)
        return np.concatenate((each, one)).reshape(entries + rows, rows, *event)

    def _run(self, node: Node) -> Any:
        if node.op == "constant":
            value = np.asarray(self.graph.constants[node.name])
            if node.kind != "float":
                return value
            if node.name in self.weights:
                return self.field.free(value.shape)
            return self.field.constant(value) if value.shape else literal(self.field, value.item())
        if node.op not in OPERATORS:
            where = f" ({node.line})" if node.line else ""
            raise NotModelled(f"{node.op}{where}")
        args, named = self._given(node.args), self._given(dict(node.named))
        if node.op not in CASTS:
            named.pop("dtype", None)
        plain = node.op in PLAIN and not (node.op in EXACT and not all(map(_whole, args)))
        if not plain and args and _numbers(args[0]) and node.kind == "float":
            args = (lifted(args[0], self.field.constant(0)), *args[1:])
        if node.op == "where" and node.args[0].name in self.ordered:
            chosen = zip(args[1:], self.ordered[node.args[0].name], strict=True)
            args = (args[0], *(signed(value, known) for value, known in chosen))
        self.field.line = node.line or node.name
        if node.kind == "complex":
            raise NotModelled(f"complex numbers ({self.field.line})")
        try:
            found = OPERATORS[node.op](*args, **named)
            whole = (
                isinstance(found, np.ndarray) and node.kind == "float" and found.dtype.kind != "f"
            )
            return found.astype(float) if whole else found
        except NotModelled as error:
            where = f" ({node.line})" if node.line else ""
            raise NotModelled(f"{error}{where}") from None
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise NotModelled(
                f"{node.op} of such arguments ({type(error).__name__}: {error}; {node.line})"
            ) from error

    def _given(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self.values[value.name]
        if isinstance(value, dict):
            return {name: self._given(one) for name, one in value.items() if name not in SETTINGS}
        if isinstance(value, tuple | list):
            return (
                [self._given(one) for one in value]
                if isinstance(value, list)
                else tuple(self._given(one) for one in value)
            )
        return value


def _log_det(run: Run) -> bool:
    r"""$(\det J)^2 = (e^{\log\det})^2$ for each point, which depends on no other."""
    value, told = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    rows = run.graph.points[1][0]
    entries = run.size // rows
    if not isinstance(value, Residues) or value.d is None or math.prod(value.shape) != run.size:
        return False
    first = run.field.first(0)[..., None]
    shape = (run.field.towers, entries + rows, rows, entries)
    parts = [None if one is None else one.reshape(shape) for one in (value.d, value.d_im)]
    other = ~np.eye(rows, dtype=bool)
    if any(one is not None and one[:, entries:][:, other].any() for one in parts):
        return False  # a point depends on another
    blocks = [None if one is None else np.moveaxis(one[:, :entries], 2, 1) for one in parts]
    det = _determinants((blocks[0], blocks[1]), run.field.first(1)[..., 0])
    ladj = lifted(told, value)
    ladj = total(view(ladj, (rows, -1)), 1) if len(ladj.shape) and ladj.shape[0] == rows else ladj
    if math.prod(ladj.shape) not in (1, rows):
        return False  # no number for each point
    grown = ladj.exp().top
    left, right = times(det, det, first[..., 0]), times(grown, grown, run.field.first(ladj.axes))
    wide = [
        np.broadcast_to(part if part is not None else 0, left[0].shape)
        for part in (
            right[0].reshape(run.field.towers, -1),
            None if right[1] is None else right[1].reshape(run.field.towers, -1),
        )
    ]
    zero = np.zeros_like(left[0])
    return bool(
        left[0].any(0).all()
        and (left[0] == wide[0]).all()
        and ((zero if left[1] is None else left[1]) == wide[1]).all()
    )


def _equal(run: Run) -> bool:
    """Two results are the same numbers, or have the same squares of their exponentials, which are positive."""
    one, other = (run.values[ref.name] for ref in run.graph.outputs if ref is not None)
    like = next((each for each in (one, other) if isinstance(each, Residues)), None)
    if like is None or math.prod(np.shape(one)) != math.prod(np.shape(other)):
        return False
    left, right = (view(lifted(each, like), (-1,)) for each in (one, other))
    p = run.field.first(1)
    squares = [times(each.top, each.top, p) for each in (left.exp(), right.exp())]
    same, grown = (_alike(*pair) for pair in ((left.top, right.top), (squares[0], squares[1])))
    return bool((same | grown).all())


def _alike(one: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
    """Where two numbers of two parts are the same."""
    zero = np.uint64(0)
    im, other_im = (zero if each[1] is None else each[1] for each in (one, other))
    return (one[0] == other[0]) & (im == other_im)


# By name, of what a call computes.
LAWS = {"log-det": Law(_log_det, True), "equal": Law(_equal, False)}


def _numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != bool


def _whole(value: Any) -> bool:
    """Whether an operand is of whole numbers, on which numpy is exact."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biu" or bool((value % 1 == 0).all())
    return isinstance(value, Residues) or not isinstance(value, float) or value % 1 == 0


def _determinants(matrix: tuple[Any, Any], p: Any) -> tuple[Any, Any]:
    """Determinants of (towers, rows, n, n) modulo the first primes, by elimination."""
    re, im = matrix
    re, im = re.copy(), None if im is None else im.copy()
    towers, rows, size, _ = re.shape
    q = p.reshape(towers, 1)
    found: tuple[Any, Any] = (np.ones((towers, rows), np.uint64), None)
    for step in range(size):
        # A pivot that is zero in some field is exchanged for a row below where there is one.
        for at in range(step + 1, size):
            here = (
                re[:, :, step, step] == 0
                if im is None
                else (re[:, :, step, step] == 0) & (im[:, :, step, step] == 0)
            )
            if not here.any():
                break
            for part in (re, im):
                if part is not None:
                    one, other = part[:, :, step].copy(), part[:, :, at].copy()
                    part[:, :, step] = np.where(here[..., None], other, one)
                    part[:, :, at] = np.where(here[..., None], one, other)
        pivot = re[:, :, step, step], None if im is None else im[:, :, step, step]
        found = times(found, pivot, q)
        if step == size - 1:
            break
        by = inverse(pivot, q)
        column = re[:, :, step + 1 :, step], None if im is None else im[:, :, step + 1 :, step]
        row = re[:, :, step, step + 1 :], None if im is None else im[:, :, step, step + 1 :]
        factor = times(
            column, (by[0][..., None], None if by[1] is None else by[1][..., None]), q[..., None]
        )
        less = times(
            (factor[0][..., None], None if factor[1] is None else factor[1][..., None]),
            (row[0][:, :, None], None if row[1] is None else row[1][:, :, None]),
            q[..., None, None],
        )
        wide = q[..., None, None]
        re[:, :, step + 1 :, step + 1 :] = (
            re[:, :, step + 1 :, step + 1 :] + wide - less[0]
        ) % wide
        if im is not None:
            other = np.zeros_like(less[0]) if less[1] is None else less[1]
            im[:, :, step + 1 :, step + 1 :] = (
                im[:, :, step + 1 :, step + 1 :] + wide - other
            ) % wide
    return found
