"""The evaluation of a graph on a kind of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any, Generic

import numpy as np

from flowref.model.graph import ALONG, DRAWN, STEPS, Branches, Graph, Node, Ref, references
from flowref.proving.exact.operators import CASTS, EXACT, OPERATORS, PLAIN
from flowref.proving.exact.orders import Signs, ordered, signed
from flowref.proving.exact.residues import Field
from flowref.proving.numbers import ABOVE, AnyKind, NotModelled, Numbers, lifted

# Settings of operators without effect on numbers; dtypes matter in casts.
SETTINGS = ("layout", "device", "pin_memory", "memory_format")
# Comparisons, with the positions of the larger and the smaller operand if they are true.
ORDERS = {"gt": (0, 1), "ge": (0, 1), "lt": (1, 0), "le": (1, 0)}
STRICT = ("gt", "lt")
# Values of nodes, and the signs that comparisons imply.
Ready = tuple[dict[str, Any], dict[str, tuple[Signs, Signs]]]


class GraphRun(Generic[AnyKind]):
    """The values of a graph in a kind of numbers: at random points of a field, or on boxes.
    ``path``: the outcomes of comparisons; None to take them from the numbers; ``slopes``: the
    derivatives: "entries", by the entries of points, "along", along the directions of a
    statement, "halves", along halves of the entries that are ``moved``, or none; ``ready``:
    values and signs of another run in the same field, for nodes that the graphs share; ``operators``:
    implementations by name.
    """

    def __init__(
        self,
        graph: Graph,
        field: AnyKind,
        path: Branches | None,
        weights: frozenset[str],
        slopes: str,
        ready: Ready | None = None,
        operators: Mapping[str, Callable[..., Any]] = OPERATORS,
        moved: Any = None,
    ) -> None:
        self.operators = operators
        # The number of points with random signs.
        self.samples = 0
        self.graph, self.field, self.path, self.weights = graph, field, path, weights
        self.values, self.ordered = ready or ({}, {})
        self.conditions = field.conditions
        if graph.guards:
            self.conditions[
                f"where {len(graph.guards)} conditions and counts in code come out as they did"
            ] = None
        name, shape = graph.points
        self.size = math.prod(shape)
        if ready is None:
            for weight, sizes in graph.weights.items():
                free = weight in weights or weight.startswith(DRAWN)
                constant = graph.constants[weight]
                self.values[weight] = field.free(sizes) if free else field.constant(constant)
                if weight.startswith(ALONG) and not np.all(constant):
                    nonzero = np.asarray(constant != 0, float)
                    self.values[weight] = operators["mul"](self.values[weight], nonzero)
                if free and weight in graph.variances:
                    signs = np.full(sizes, ABOVE, np.int8)
                    self.values[weight] = replace(self.values[weight], sign=signs)
                    self.conditions[f"{weight} is a variance, which is not negative"] = None
            if isinstance(field, Field) and slopes == "halves":
                self.values[name] = field.halves(shape, moved)
            else:
                self.values[name] = field.points(shape, slopes == "entries")
            if slopes == "along":
                for one in [one for one in graph.weights if one.startswith(ALONG)]:
                    moved = one.removeprefix(ALONG)
                    self.values[moved] = replace(self.values[moved], d=self.values[one].top[0])
            if graph.given is not None:
                self.values[graph.given[0]] = field.free(graph.given[1])
        moving = graph.moving(*graph.inputs, *weights)
        # Known values: on a path all that is decided, and elsewhere what depends on nothing free.
        known = {
            node.name: (path.decided if path is not None else {}).get(
                node.name, graph.constants.get(node.name)
            )
            for node in graph.nodes
            if decides(node) and (path is not None or node.name not in moving)
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
            # On a path, numbers that are only compared are not computed.
            if (
                isinstance(field, Field)
                and node.op in ORDERS
                and all(ref.name in self.values for ref in references(node.args))
            ):
                larger, smaller = (self._given(node.args[at]) for at in ORDERS[node.op])
                self.ordered[node.name] = ordered(larger, smaller, strict=node.op in STRICT)

    def apart_from(self, names: Container[str]) -> Ready:
        """What other nodes came to."""
        values, ordered = (
            {name: one for name, one in held.items() if name not in names}
            for held in (self.values, self.ordered)
        )
        return values, ordered

    def _run(self, node: Node) -> Any:
        if node.op == "constant":
            value = np.asarray(self.graph.constants[node.name])
            if node.kind != "float":
                return value
            if node.name in self.weights:
                return self.field.free(value.shape)
            return self.field.constant(value) if value.shape else self.field.literal(value.item())
        if node.op not in self.operators:
            where = f" ({node.line})" if node.line else ""
            raise NotModelled(f"{node.op}{where}")
        args, named = self._given(node.args), self._given(dict(node.named))
        if node.op not in CASTS:
            named.pop("dtype", None)
        plain = node.op in PLAIN and not (node.op in EXACT and not all(map(_is_integral, args)))
        if not plain and args and _is_number_array(args[0]) and node.kind == "float":
            args = (lifted(args[0], self.field.constant(0)), *args[1:])
        if node.op == "where" and node.args[0].name in self.ordered:
            chosen = zip(args[1:], self.ordered[node.args[0].name], strict=True)
            args = (args[0], *(signed(value, known) for value, known in chosen))
        self.field.line = node.line or node.name
        if node.kind == "complex":
            raise NotModelled(f"complex numbers ({self.field.line})")
        try:
            found = self.operators[node.op](*args, **named)
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


def decides(node: Node) -> bool:
    """Whether an operator returns integers or booleans."""
    return node.kind in ("int", "bool") or node.op in STEPS


def _is_number_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype != bool


def _is_integral(value: Any) -> bool:
    """Whether an operand holds integers, on which numpy is exact."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biu" or bool(
            (np.isfinite(value) & (np.round(value) == value)).all()
        )
    return isinstance(value, Numbers) or not isinstance(value, float) or value % 1 == 0
