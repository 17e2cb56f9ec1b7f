"""Edits of a graph with which its log-det is that of its Jacobian, or its inverse is the inverse
of the map; each is proved.

An edit changes the computation of the log-det, and leaves the map unchanged; or it changes the
computation of one call. Edits are first tested at random points, recomputing only what depends on
them, and then proved like any other graph.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowref.model.graph import Branches, Graph, Node, Ref, references, renamed_node
from flowref.proving.criteria import LAWS
from flowref.proving.exact.operators import ARRANGEMENTS
from flowref.proving.exact.residues import Field
from flowref.proving.identities import FEW, WEIGHTS, Proof, numbers_of, prove_identity
from flowref.proving.numbers import NotModelled
from flowref.proving.runs import GraphRun

# Limits on numbers computed to try edits of a graph, on tried edits, and on reported repairs.
NUMBERS, TRIED, TOLD = 3_000_000, 300, 3
# The name, with a number, of nodes added by an edit.
ADDED = "repair"
# Operator -> the operator that undoes it.
OPPOSITES = {"add": "sub", "sub": "add", "mul": "div", "div": "mul"}
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
# Operators that rearrange numbers: errors are not located there.
ARRANGING = {*ARRANGEMENTS, "clone", "alias", "detach", "contiguous", "lift_fresh"}
SLICES = ("slice", "select", "narrow", "index", "index_select", "clone")


@dataclass(frozen=True)
class Edit:
    """An edit. ``words``: a description; ``place``: the node whose uses change; ``nodes``: added
    after it; ``value``: used in its place; ``kind``: only the first edit of a kind is reported;
    ``user``: the only node whose use changes, "" for all; ``line``: its source line, if not
    that of the place.
    """

    words: str
    place: Node
    nodes: tuple[Node, ...]
    value: str
    kind: str
    user: str = ""
    line: str = ""


@dataclass(frozen=True)
class Scope:
    """What may be edited.

    ``law``: of `LAWS`, which does not hold; ``own``: nodes whose arguments may change; ``known``:
    names that may replace them; ``result``: the index of the output that depends on them.
    """

    law: str
    own: frozenset[str]
    known: frozenset[str]
    result: int

    def last(self, graph: Graph) -> str:
        """The name of the output."""
        ref = graph.outputs[self.result]
        return "" if ref is None else ref.name


@dataclass(frozen=True)
class Repair:
    """An edit, its location, and the proof of the statement after it."""

    edit: Edit
    proof: Proof

    def __str__(self) -> str:
        line = self.edit.line or self.edit.place.line
        return f"{f'{line}: ' if line else ''}{self.edit.words} (proved {self.proof.clause})"


def repairs(
    graph: Graph, paths: Sequence[Branches], law: str = "log-det", call: str = ""
) -> list[Repair]:
    """The edits with which a law of `LAWS` is proved for all weights, of the smallest kind that
    there is; empty if it holds already. They change nodes on which only the log-det depends, or
    else a ``call``, whose value the law is about.
    """
    if graph.outputs[1] is None:
        return []
    scope = of_call(graph, law, call) if call else of_log_det(graph)
    tries = min(TRIED, NUMBERS // max(1, numbers_of(graph, LAWS[law])))
    for decimal in (False, True):
        try:
            # At other weights than the built ones, which may hide a term that is zero.
            field, path = Field(FEW, 0, decimal), (*paths, None)[0]
            run = GraphRun(graph, field, path, graph.trained, LAWS[law].slopes)
            if LAWS[law].holds(run):
                return []
        except NotModelled:
            continue
        left = tries
        for kind in edits(graph, scope):
            found: dict[str, Repair] = {}
            for edit in itertools.islice(kind, left):
                left -= 1
                if len(found) < TOLD and (one := _proved(graph, edit, scope, run, paths)):
                    found.setdefault(edit.kind, one)
            if found:
                return list(found.values())
    return []


def of_log_det(graph: Graph) -> Scope:
    """The nodes on which the log-det depends, and the value does not."""
    value, ladj = graph.outputs
    cones = [
        {node.name for node in replace(graph, outputs=(one, None)).needed(())}
        for one in (value, ladj)
        if one is not None
    ]
    names = frozenset(graph.shapes)
    return Scope("log-det", frozenset(cones[-1] - cones[0]), names, 1)


def of_call(graph: Graph, law: str, call: str) -> Scope:
    """The nodes of a call, its points, context and weights, in the names of `Composition`."""
    own = frozenset(node.name for node in graph.nodes if node.name.startswith(f"{call}."))
    given = {name for node in graph.nodes if node.name in own for name in node.sources}
    return Scope(law, own, own | given | frozenset(graph.weights), 0)


def _proved(
    graph: Graph, edit: Edit, scope: Scope, run: GraphRun[Field], paths: Sequence[Branches]
) -> Repair | None:
    changed, law = edited(graph, edit, scope), LAWS[scope.law]
    before = {id(node) for node in graph.nodes}
    behind = changed.moving(*(node.name for node in changed.nodes if id(node) not in before))
    ready = run.apart_from(behind)
    try:
        again = GraphRun(changed, run.field, run.path, run.weights, law.slopes, ready=ready)
        if not law.holds(again):
            return None
    except NotModelled:
        return None
    proof, _ = prove_identity(changed, law, paths)
    return Repair(edit, proof) if proof.proved and proof.weights != WEIGHTS[-1] else None


def edited(graph: Graph, edit: Edit, scope: Scope) -> Graph:
    """A graph after an edit."""
    at = {node.name: number for number, node in enumerate(graph.nodes)}
    given = [ref for node in edit.nodes for ref in references(node.args)]
    known = [at[ref.name] for ref in given if ref.name in at]
    last = max([at[edit.place.name], *known])
    nodes, names = list[Node](), {edit.place.name: edit.value}
    for number, node in enumerate(graph.nodes):
        used = node.name in scope.own and edit.user in ("", node.name)
        changed = used and node is not edit.place and edit.place.name in node.sources
        nodes.append(renamed_node(node, names) if changed else node)
        if number == last:
            nodes += edit.nodes
    value, ladj = graph.outputs
    if scope.last(graph) == edit.place.name and not edit.user:
        other = Ref(edit.value)
        value, ladj = (other, ladj) if scope.result == 0 else (value, other)
    return replace(graph, nodes=tuple(nodes), outputs=(value, ladj))


def edits(graph: Graph, scope: Scope) -> Iterator[Iterator[Edit]]:
    """Edits by kind, the smallest first: another reduction, an operator omitted or inverted, a
    sign or a factor, a missing term, another value of the same shape.
    """
    needed = {node.name for node in graph.needed(())}
    nodes = [node for node in graph.nodes if node.name in needed]
    last = next((node for node in nodes if node.name == scope.last(graph)), None)
    if last is None:
        return
    own = scope.own
    given = {name for node in nodes if node.name in own for name in node.sources}
    uses = [
        node
        for node in reversed(nodes)
        if node.kind == "float"
        and node.name in scope.known
        and (node is last or node.name in given)
    ]
    there = [node for node in uses if node.name in own or node is last]
    plain = [node for node in uses if node.op not in ARRANGING]
    smallest = (
        edit
        for node in there
        for edit in (
            *_reduction_edits(graph, node),
            *_omissions(graph, node),
            *_inverse_operator_edits(node),
        )
    )
    yield itertools.chain(
        smallest, (edit for node in there for edit in _negated_argument_edits(node, uses))
    )
    yield (edit for node in plain or uses[:1] for edit in _factor_edits(graph, node))
    if scope.law == "log-det":
        yield _missing_terms(graph, last, nodes)
    others = [node for node in nodes if node.name in scope.known]
    yield (edit for node in uses for edit in _value_replacements(node, others, own))


def _edit(
    words: str, kind: str, place: Node, *more: tuple[str, tuple[Any, ...], tuple[int, ...]]
) -> Edit:
    """An edit that adds operators; ``more``: their names, arguments and shapes; ``None`` among the
    arguments is the result of the one before.
    """
    before, nodes = "", []
    for number, (op, args, shape) in enumerate(more):
        name = f"{ADDED}_{number}"
        given = tuple(Ref(before) if one is None else one for one in args)
        nodes.append(Node(name, op, given, {}, "float", shape, place.line))
        before = name
    return Edit(words, place, tuple(nodes), before, kind)


def _factor_edits(graph: Graph, node: Node) -> Iterator[Edit]:
    """Factors -1, and counts of entries and their inverses."""
    entries = math.prod(graph.points[1]) // graph.points[1][0]
    counts = sorted({2, entries, *(size for size in node.shape if size > 1)})
    for factor in (-1, *counts, *(1 / count for count in counts)):
        words = f"{node.op} times {factor:.4g}"
        yield _edit(words, "factor", node, ("mul", (Ref(node.name), factor), node.shape))


def _reduction_edits(graph: Graph, node: Node) -> Iterator[Edit]:
    """A sum instead of a mean, one over all axes except the batch, and one without a slice."""
    if node.op not in ("sum", "mean") or not isinstance(node.args[0], Ref):
        return
    by_name = {one.name: one for one in graph.nodes}
    source, rows = node.args[0].name, graph.points[1][0]
    if node.op == "mean":
        yield _edit("sum in place of mean", "sum", node, ("sum", node.args, node.shape))
    if graph.shapes[source] == (rows,) and not node.shape:
        yield Edit(f"without the {node.op} over the batch", node, (), source, "sum")
    while source:
        of = graph.shapes[source]
        if len(of) > 1 and of[0] == rows:
            words = f"sum over all entries of each point in place of {node.op}"
            step = ("sum", (Ref(source), list(range(1, len(of)))), (rows,))
            yield _edit(words, "sum", node, step)
        cut = by_name.get(source)
        sliced = cut is not None and cut.op in SLICES and isinstance(cut.args[0], Ref)
        source = cut.args[0].name if cut is not None and sliced else ""


def _omissions(graph: Graph, node: Node) -> Iterator[Edit]:
    numbers = [f" by {one:.4g}" for one in node.args if isinstance(one, int | float)]
    for ref in dict.fromkeys(references(node.args)):
        if node.op not in ARRANGING and graph.shapes[ref.name] == node.shape:
            yield Edit(f"without {node.op}{''.join(numbers)}", node, (), ref.name, "without")


def _inverse_operator_edits(node: Node) -> Iterator[Edit]:
    other = OPPOSITES.get(node.op, "")
    if other and len(references(node.args)) == len(node.args) == 2 and not node.named:
        words = f"{SYMBOLS[other]} in place of {SYMBOLS[node.op]}"
        yield _edit(words, "opposite", node, (other, node.args, node.shape))


def _negated_argument_edits(node: Node, uses: Sequence[Node]) -> Iterator[Edit]:
    """A function of the negated argument."""
    given = references(node.args)
    place = next((one for one in uses if len(given) == 1 and one.name == given[0].name), None)
    if place is not None and node.op not in ARRANGING:
        step = ("mul", (Ref(place.name), -1), place.shape)
        edit = _edit(f"{node.op} of minus its argument", "turned", place, step)
        yield replace(edit, user=node.name, line=node.line)


def _missing_terms(graph: Graph, last: Node, nodes: Sequence[Node]) -> Iterator[Edit]:
    """The sum over each point of a value of the map, or of its logarithm, added or subtracted."""
    rows, shapes = graph.points[1][0], graph.shapes
    if last.shape != (rows,):
        return
    sources = {name: name for name in graph.weights}
    for node in nodes:
        if node.kind == "float" and node.shape[:1] == (rows,) and node.op not in ARRANGING:
            sources[node.name] = f"{node.op}{f' ({node.line})' if node.line else ''}"
    for (name, words), logarithm, sign in itertools.product(
        reversed(sources.items()), (False, True), (1, -1)
    ):
        shape, steps = shapes[name], list[tuple[str, tuple[Any, ...], tuple[int, ...]]]()
        if logarithm:
            steps = [("abs", (Ref(name),), shape), ("log", (None,), shape)]
        first = None if logarithm else Ref(name)
        each = shape[:1] == (rows,) and name not in graph.weights
        axes = list(range(int(each), len(shape)))
        if axes:
            steps.append(("sum", (first, axes), (rows,) if each else ()))
        steps.append(("mul", (None if steps else first, sign), (rows,)))
        steps.append(("add", (Ref(last.name), None), (rows,)))
        of = f"log |{words}|" if logarithm else words
        description = f"{'plus' if sign > 0 else 'minus'} the sum of {of}"
        yield _edit(description, f"term {len(steps)}", last, *steps)


def _value_replacements(node: Node, nodes: Sequence[Node], own: frozenset[str]) -> Iterator[Edit]:
    """Another value of the same shape, which is known before the node is used."""
    at = {one.name: number for number, one in enumerate(nodes)}
    users = [one for one in nodes if one.name in own and node.name in one.sources]
    for user in (None, *(one for one in users if len(users) > 1)):
        first = min((at[one.name] for one in users if user in (None, one)), default=len(nodes))
        for other in reversed(nodes[:first]):
            if other is not node and other.kind == "float" and other.shape == node.shape:
                where = f" ({other.line})" if other.line and other.line != node.line else ""
                words = f"{_operator_name(other)}{where} in place of {_operator_name(node)}"
                edit = Edit(words, node, (), other.name, "another")
                yield edit if user is None else replace(edit, user=user.name, line=user.line)


def _operator_name(node: Node) -> str:
    """An operator, or the index of its output."""
    return f"part {node.args[1] + 1}" if node.op == "getitem" else node.op
