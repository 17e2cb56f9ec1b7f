"""Statements about several calls, as one graph: each call is traced once, at points of its own, and the graphs are joined.

What an object keeps of one call is then of no use to another: a call that gives what an earlier one left behind computes a
constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from flowref.backends.protocol import Traced
from flowref.loading import Recipe
from flowref.model import Unsupported, draw
from flowref.model.graph import Branches, Graph, Node, Ref, renamed

# Batches at which a graph is run beside the object, and whose paths are asked for.
BESIDE, DRAWN = 3, 8
# Numbers of points of a batch that is traced: one that no axis has.
ROWS = (3, 5, 7, 11, 13)
# Batches in train mode that an object has seen.
WARM = 2
POINT = Ref("x")
CONTEXT = "context"

Call = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Part:
    """A call that was traced."""

    traced: Traced
    graph: Graph


class Calls:
    """The calls of a target, each traced when it is first asked for; ``more``: calls of the object that its dialect lacks."""

    def __init__(self, recipe: Recipe, more: Mapping[str, Call] | None = None) -> None:
        self.recipe, self.more = recipe, dict(more or {})
        self._parts: dict[str, Part | str] = {}

    def call(self, name: str) -> Call:
        """By its name in the dialect. Raises: `Unsupported` where there is none."""
        found: Call | None = self.more.get(name) or getattr(self.recipe.dialect, name, None)
        if found is None:
            raise Unsupported(f"it has no {name}")
        return found

    @cached_property
    def prepared(self) -> tuple[Any, list[Any], Any]:
        """An object in eval mode that has seen batches in train mode, batches of points, and a context."""
        recipe, rng = self.recipe, np.random.default_rng(0)
        backend, facts = recipe.backend, recipe.facts
        obj = backend.cast(recipe.build(), recipe.dtype)
        held = {
            size
            for shape in (*backend.state_shapes(obj), facts.event_shape, facts.context_shape or ())
            for size in shape
        }
        rows = next((count for count in ROWS if count not in held), ROWS[0])
        points = [
            backend.tensor(draw(facts.domain, (rows, *facts.event_shape), rng), recipe.dtype)
            for _ in range(DRAWN)
        ]
        context = None
        if facts.context_shape is not None:
            numbers = rng.standard_normal((rows, *facts.context_shape))
            context = backend.tensor(numbers, recipe.dtype)
        backend.set_mode(obj, True)
        for batch in points[:WARM]:
            self.call("forward")(obj, batch, context)
        backend.set_mode(obj, False)
        return obj, points, context

    @property
    def points(self) -> list[Any]:
        """Batches of the domain."""
        return self.prepared[1]

    @cached_property
    def latents(self) -> list[Any]:
        """Images of the points under forward."""
        return self.images("forward", self.points)

    def images(self, name: str, points: Sequence[Any]) -> list[Any]:
        """What a call gives at batches, without its log-det."""
        obj, _, context = self.prepared
        results = [self.call(name)(obj, one, context) for one in points]
        return [detached(one[0] if isinstance(one, tuple) else one) for one in results]

    def part(self, name: str, points: Sequence[Any]) -> Part:
        """A call as a graph; ``points``: batches at which it is traced and compared, the first time that it is asked for.
        Raises: `Unsupported` where there is no graph that is the object's.
        """
        if name not in self._parts:
            try:
                self._parts[name] = self._traced(name, points)
            except Unsupported as error:
                self._parts[name] = str(error)
            except Exception as error:  # which error is the laws' affair
                text = str(error).partition("\n")[0]
                self._parts[name] = f"it raised {type(error).__name__}: {text}"
        found = self._parts[name]
        if isinstance(found, str):
            raise Unsupported(found)
        return found

    def _traced(self, name: str, points: Sequence[Any]) -> Part:
        obj, _, context = self.prepared
        traced = self.recipe.backend.traced(obj, self.call(name), points[0], context)
        if not traced.agrees(points[1 : 1 + BESIDE]):
            raise Unsupported("what was traced is not what the object computes")
        graph = traced.graph()
        if graph.writes:
            raise Unsupported("it writes to its weights, or to its input")
        return Part(traced, graph)


class Composition:
    """Calls of a target, one behind another, from batches of points, as one graph."""

    def __init__(self, calls: Calls, points: Sequence[Any]) -> None:
        self.calls, self.points = calls, points
        self._images: dict[Ref, Callable[[], Sequence[Any]]] = {}
        self._nodes: dict[str, Node] = {}
        self._graphs: list[Graph] = []
        self._constants: dict[str, Any] = {}
        self._paths: list[dict[str, Any] | None] = [{} for _ in points]

    def call(self, name: str, at: Ref = POINT) -> tuple[Ref, Ref | None]:
        """The value and the log-det of a call at the points, or at what another call gave."""
        points = self.points if at == POINT else self._images[at]()
        part = self.calls.part(name, points)
        graph = part.graph
        if tuple(points[0].shape) != graph.points[1]:
            raise Unsupported(f"its {name} is given points of several shapes")
        names = {graph.points[0]: at.name}
        if graph.given is not None:
            names[graph.given[0]] = CONTEXT
        names |= {node.name: self._named(name, node, graph) for node in graph.nodes}
        for node in graph.nodes:
            own = names[node.name]
            self._nodes.setdefault(own, replace(renamed(node, names), name=own))
        self._graphs.append(graph)
        self._constants |= {names.get(one, one): value for one, value in graph.constants.items()}
        for number, batch in enumerate(points):
            known, path = self._paths[number], part.traced.path(batch)
            if known is None or path is None:
                self._paths[number] = None
            else:
                known |= {names[one]: value for one, value in path.decided.items() if one in names}
        first, second = graph.outputs
        value = Ref(names.get(first.name, first.name))
        self._images[value] = lambda: self.calls.images(name, points)
        return value, None if second is None else Ref(names.get(second.name, second.name))

    def _named(self, call: str, node: Node, graph: Graph) -> str:
        """A name of its own; the same for an array that several calls hold, which is known by where it lies."""
        if node.op != "constant":
            return f"{call}.{node.name}"
        layout = np.asarray(graph.constants[node.name]).__array_interface__
        return f"constant.{layout['data'][0]}.{layout['typestr']}.{layout['shape']}.{layout['strides']}"

    def negative(self, one: Ref | None) -> Ref:
        """- a log-det. Raises: `Unsupported` where there is none."""
        return self._computed("neg", one)

    def sum(self, one: Ref | None, other: Ref | None) -> Ref:
        """Of two numbers of each point. Raises: `Unsupported` where there is none."""
        return self._computed("add", one, other)

    def _computed(self, op: str, *of: Ref | None) -> Ref:
        given = [one for one in of if one is not None]
        if len(given) < len(of):
            raise Unsupported("it returns no log-det")
        shapes = [self._nodes[one.name].shape for one in given if one.name in self._nodes]
        node = Node(
            f"statement.{len(self._nodes)}",
            op,
            tuple(given),
            {},
            "float",
            shapes[0] if shapes else (),
        )
        self._nodes[node.name] = node
        return Ref(node.name)

    def graph(self, outputs: tuple[Ref, Ref | None]) -> Graph:
        """Of all calls."""
        first, context = self._graphs[0], self.calls.prepared[2]
        return Graph(
            first.weights,
            (POINT.name, tuple(self.points[0].shape)),
            None if context is None else (CONTEXT, tuple(context.shape)),
            self._constants,
            tuple(self._nodes.values()),
            outputs,
            tuple(guard for graph in self._graphs for guard in graph.guards),
            first.trained,
        )

    def paths(self) -> tuple[Branches, ...]:
        """That the points take, where they take the shapes of the graph."""
        return tuple(Branches(one) for one in self._paths if one is not None)


def detached(value: Any) -> Any:
    """An array without the graph of its gradients, where a framework keeps one."""
    return value.detach() if hasattr(value, "detach") else value
