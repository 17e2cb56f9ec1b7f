"""What a call computes, as a graph of operators."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np


class Ref(NamedTuple):
    """A node, by its name."""

    name: str


# How arrays are called that are a statement's own, of which it is said for all values: weights of sums, and directions.
COTANGENT, ALONG = "cotangent ", "along "
DRAWN = (COTANGENT, ALONG)
# Operators to whole numbers: what they come to decides a path, as comparisons do.
STEPS = ("floor", "ceil", "round", "trunc")


@dataclass(frozen=True)
class Node:
    """One operator.

    ``name``; ``op``: by its name in ATen; ``args`` and ``named``: values, or references; ``kind``: "float", "float32",
    "complex", "int", "bool" or "list"; ``line``: the line of source that it comes of, as "file:12", empty where nothing tells.
    """

    name: str
    op: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    kind: str
    shape: tuple[int, ...] = ()
    line: str = ""

    @cached_property  # a graph is run many times
    def sources(self) -> frozenset[str]:
        """The names of what it is an operator of."""
        return frozenset(ref.name for ref in references((self.args, self.named)))


@dataclass(frozen=True)
class Graph:
    """A call that was traced.

    ``weights``: names and shapes of the weights that are free; ``points``: the name and the shape of the batch that it was
    traced with; ``given``: of a context, if there is one; ``constants``: arrays that code holds; ``nodes``: in their order;
    ``outputs``: of the value and the log-det, None where there is none; ``guards``: what code asked of numbers, with what
    was answered; ``trained``: the weights that are parameters, and no buffers; ``variances``: those that are variances, which
    are not negative.
    """

    weights: Mapping[str, tuple[int, ...]]
    points: tuple[str, tuple[int, ...]]
    given: tuple[str, tuple[int, ...]] | None
    constants: Mapping[str, Any]
    nodes: tuple[Node, ...]
    outputs: tuple[Ref, Ref | None]
    guards: tuple[str, ...] = ()
    trained: frozenset[str] = frozenset()
    variances: frozenset[str] = frozenset()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of points and of a context."""
        return (self.points[0],) if self.given is None else (self.points[0], self.given[0])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of all nodes and inputs."""
        given = () if self.given is None else (self.given,)
        own = ((node.name, node.shape) for node in self.nodes)
        return dict((*self.weights.items(), self.points, *given, *own))

    @property
    def written(self) -> set[str]:
        """The weights, points and contexts that a node writes to."""
        sources = {*self.weights, *self.inputs}
        targets = {node.args[0].name for node in self.nodes if node.op == "copy_"}
        return targets & sources

    def needed(self, known: Container[str]) -> list[Node]:
        """The nodes that the outputs come of, in their order; what is ``known`` comes of nothing."""
        wanted = {ref.name for ref in self.outputs if ref is not None}
        found = []
        for node in reversed(self.nodes):
            if node.name in wanted:
                found.append(node)
                if node.name not in known:
                    wanted |= node.sources
        return found[::-1]

    def moving(self, *sources: str) -> set[str]:
        """The nodes that depend on some others."""
        found = set(sources)
        for node in self.nodes:
            if not found.isdisjoint(node.sources):
                found.add(node.name)
        return found


def references(value: Any) -> list[Ref]:
    """The references in an argument."""
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, Mapping):
        return [ref for one in value.values() for ref in references(one)]
    if isinstance(value, tuple | list):
        return [ref for one in value for ref in references(one)]
    return []


def renamed_node(node: Node, names: Mapping[str, str]) -> Node:
    """A node whose arguments go by other names; those that have none keep their own."""

    def changed(value: Any) -> Any:
        if isinstance(value, Ref):
            return Ref(names.get(value.name, value.name))
        if isinstance(value, Mapping):
            return {name: changed(one) for name, one in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(map(changed, value))
        return value

    return replace(node, args=changed(node.args), named=changed(node.named))


@dataclass(frozen=True)
class Branches:
    """What comparisons and places came to at drawn points: arrays of truth values and of whole numbers, by the names of
    nodes.
    """

    decided: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """Alike for the same path."""
        return tuple(
            (name, np.asarray(value).tobytes()) for name, value in sorted(self.decided.items())
        )


class TracedCall(Protocol):
    """A call that was traced."""

    def agrees(self, points: Sequence[Any]) -> bool:
        """Whether the graph computes what the object does, at batches of points, and with other weights."""

    def graph(self) -> Graph:
        """The graph."""

    def path(self, x: Any) -> Branches | None:
        """What comparisons and places come to for a batch; None where that takes arrays of other shapes."""
