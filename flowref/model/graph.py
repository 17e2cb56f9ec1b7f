"""The operators of a call, as a graph."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np


class Ref(NamedTuple):
    """A reference to a node, by name."""

    name: str


# Prefixes of arrays that a statement quantifies over: weights of sums, and directions.
COTANGENT, ALONG = "cotangent ", "along "
DRAWN = (COTANGENT, ALONG)
# Operators to integers: their values decide a path, as comparisons do.
STEPS = ("floor", "ceil", "round", "trunc")


@dataclass(frozen=True)
class Node:
    """One operator.

    ``name``; ``op``: its name in ATen; ``args`` and ``named``: values or references; ``kind``: "float",
    "float32", "complex", "int", "bool" or "list"; ``line``: its source line as "file:12", empty if unknown.
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
    """A traced call.

    ``weights``: names and shapes of free weights;
    ``points``: name and shape of the traced batch; ``given``: of its context, or None;
    ``constants``: other arrays in the code;
    ``nodes``: in order of execution;
    ``outputs``: of value and log-det, None if there is none;
    ``guards``: questions that code asked of numbers, with the answers;
    ``trained``: weights that are parameters, not buffers; ``variances``: nonnegative ones.
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
        """The names of the points, and of the context if there is one."""
        return (self.points[0],) if self.given is None else (self.points[0], self.given[0])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all nodes and inputs."""
        given = () if self.given is None else (self.given,)
        own = ((node.name, node.shape) for node in self.nodes)
        return dict((*self.weights.items(), self.points, *given, *own))

    @property
    def written(self) -> set[str]:
        """Weights, points and contexts that a node writes to in place."""
        sources = {*self.weights, *self.inputs}
        targets = {node.args[0].name for node in self.nodes if node.op == "copy_"}
        return targets & sources

    def needed(self, known: Container[str]) -> list[Node]:
        """The nodes that the outputs depend on, in order; ``known`` names are not expanded."""
        wanted = {ref.name for ref in self.outputs if ref is not None}
        found = []
        for node in reversed(self.nodes):
            if node.name in wanted:
                found.append(node)
                if node.name not in known:
                    wanted |= node.sources
        return found[::-1]

    def moving(self, *sources: str) -> set[str]:
        """The nodes that depend on given ones."""
        found = set(sources)
        for node in self.nodes:
            if not found.isdisjoint(node.sources):
                found.add(node.name)
        return found


def references(value: Any) -> list[Ref]:
    """The references in an argument, nested."""
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, Mapping):
        return [ref for one in value.values() for ref in references(one)]
    if isinstance(value, tuple | list):
        return [ref for one in value for ref in references(one)]
    return []


def renamed_node(node: Node, names: Mapping[str, str]) -> Node:
    """A node with its references renamed; names without an entry are kept."""

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
    """The outcomes of comparisons and index choices at drawn points: boolean and integer arrays by node."""

    decided: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal paths."""
        return tuple(
            (name, np.asarray(value).tobytes()) for name, value in sorted(self.decided.items())
        )


class TracedCall(Protocol):
    """A traced call of an object."""

    def agrees(self, points: Sequence[Any]) -> bool:
        """Whether the graph reproduces the object at other batches, and with other weights."""

    def graph(self) -> Graph:
        """The traced graph."""

    def path(self, x: Any) -> Branches | None:
        """The branch outcomes for a batch; None if its arrays have other shapes."""
