"""Statements about several calls, as one graph: each call is traced once, at points of its own,
and the graphs are joined.

State that an object keeps of one call is then of no use to another: a call that returns a stored
result of an earlier one computes a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from flowref.loading import Recipe
from flowref.model import Shape, Unsupported, draw_points
from flowref.model.graph import (
    ALONG,
    COTANGENT,
    DRAWN,
    Branches,
    Graph,
    Node,
    Ref,
    TracedCall,
    renamed_node,
)
from flowref.proving.exact.residues import Field
from flowref.proving.numbers import NotModelled
from flowref.proving.runs import GraphRun

# The number of batches on which graph and object are compared, and whose paths are taken.
COMPARED, PATHS = 3, 8
# Batch sizes for traces: one that is no size of an axis.
ROWS = (3, 5, 7, 11, 13)
# The number of train-mode batches of an object.
WARM = 2
# The seed of numbers drawn by a statement, which no user code has.
SEED = 0x5EED0F10
POINT, CONTEXT = Ref("x"), "context"
# How far parameters are moved to see which constants depend on them.
MOVED = 0.1
# Calls with one result per point, and the rounding allowed when a point is alone.
POINTWISE, NEAR = ("forward", "inverse", "log_prob", "base_log_prob"), 1e-9
# An index that stands for all results of a call.
ALL = -1
OTHER_WAY = {"forward": "inverse", "inverse": "forward"}
# The calls of a composite's parts in sequence.
THROUGH = {name: f"parts of {name}" for name in OTHER_WAY}

Call = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class TracedComponent:
    """A traced call."""

    traced: TracedCall
    graph: Graph


class Calls:
    """The calls of a target in a mode and a direction, each traced on first use; ``more``: calls
    that its dialect lacks; ``batch``: the shape of batches, if it matters; ``moved``: the scale
    by which parameters are moved before the first call.
    """

    def __init__(
        self,
        recipe: Recipe,
        mode: str = "eval",
        direction: str = "forward",
        more: Mapping[str, Call] | None = None,
        batch: Shape | None = None,
        moved: float = 0.0,
    ) -> None:
        self.recipe, self.mode, self.direction, self.batch = recipe, mode, direction, batch
        self.moved = moved
        self._more: dict[str, Call] = {
            name: partial(self._through, way) for way, name in THROUGH.items()
        }
        self._more |= more or {}
        self._arrays: dict[str, Any] = {}
        self._parts: dict[str, TracedComponent | str] = {}
        # Results that violate each criterion, and the claims so far.
        self.missed = set[Any]()
        self.claims: dict[Any, Any] = {}

    def call(self, name: str) -> Call:
        """The call of a name; raises `Unsupported` if there is none."""
        if self.direction == "inverse":
            name = {
                **OTHER_WAY,
                **dict(zip(THROUGH.values(), reversed(THROUGH.values()), strict=True)),
            }.get(name, name)
        found: Call | None = self._more.get(name) or getattr(self.recipe.dialect, name, None)
        if found is None:
            raise Unsupported(f"it has no {name}")
        return found

    def _through(self, way: str, obj: Any, x: Any, context: Any) -> tuple[Any, Any]:
        """The parts of a composite in sequence, and the sum of their log-dets."""
        recipe, total = self.recipe, None
        parts = recipe.dialect.listed(obj)
        if not parts:
            raise Unsupported("it has no parts that can be called one by one")
        silent = False
        for _, part in parts if way == "forward" else reversed(parts):
            out = (recipe.resolve(part) or recipe.dialect).function(way)(part, x, context)
            x, ladj = out if isinstance(out, tuple) else (out, None)
            silent = silent or ladj is None
            if not silent:
                each = ladj.reshape(len(x), -1).sum(-1) if ladj.ndim > 1 else ladj
                total = each if total is None else total + each
        return x, None if silent else total

    @cached_property
    def prepared(self) -> tuple[Any, list[Any], Any]:
        """An object after train-mode batches, batches of its domain, and a context."""
        recipe, rng = self.recipe, np.random.default_rng(0)
        backend, facts = recipe.backend, recipe.facts
        obj = backend.cast(recipe.build(), recipe.dtype)
        obj = backend.moved(obj, self.moved) if self.moved else obj
        held = {
            size
            for shape in (*backend.state_shapes(obj), facts.event_shape, facts.context_shape or ())
            for size in shape
        }
        rows = next((count for count in ROWS if count not in held), ROWS[0])
        usual = rows, *facts.event_shape
        rows = rows if self.batch is None else self.batch[0]

        def drawn(shape: Shape) -> list[Any]:
            return [
                backend.tensor(draw_points(facts.domain, shape, rng), recipe.dtype)
                for _ in range(PATHS)
            ]

        points = drawn(usual)
        context = None
        if facts.context_shape is not None:
            numbers = rng.standard_normal((rows, *facts.context_shape))
            context = backend.tensor(numbers, recipe.dtype)
        if recipe.dialect.forward is None:
            raise Unsupported("it has no forward")
        if backend.modes:
            backend.set_mode(obj, True)
            for batch in points[:WARM]:
                recipe.dialect.forward(obj, batch, context)
            backend.set_mode(obj, self.mode == "train")
        elif self.mode == "train":
            raise Unsupported("it has no train mode")
        return obj, points if self.batch is None else drawn(self.batch), context

    @property
    def normalizing(self) -> str:
        """The name of the call that maps data to latents."""
        return "forward" if self.direction == "inverse" else self.recipe.dialect.normalizing

    @property
    def variances(self) -> set[str]:
        """The weights that are running variances of a batch normalizer."""
        normalizer = self.recipe.facts.normalizer
        roles = {} if normalizer is None or "running_var" in normalizer.forms else normalizer.roles
        return {f"self.{roles['running_var']}"} if "running_var" in roles else set()

    @property
    def points(self) -> Sequence[Any]:
        """Batches of the domain."""
        return self._images if self.direction == "inverse" else self.prepared[1]

    @property
    def latents(self) -> Sequence[Any]:
        """Images of these batches."""
        return self.prepared[1] if self.direction == "inverse" else self._images

    @property
    def noise(self) -> Sequence[Any]:
        """Batches of latents, on which the base density is defined."""
        return self.latents if self.normalizing == "forward" else self.points

    @property
    def data(self) -> Sequence[Any]:
        """Batches of data, on which the density is defined."""
        return self.points if self.normalizing == "forward" else self.latents

    @cached_property
    def _images(self) -> list[Any]:
        forward: Any = self.recipe.dialect.forward
        return self._values(forward, self.prepared[1])

    def _values(self, call: Call, points: Sequence[Any]) -> list[Any]:
        obj, _, context = self.prepared
        once = self.recipe.backend.once
        results = [once(call, obj, one, context) for one in points]
        return [detached(one[0] if isinstance(one, tuple) else one) for one in results]

    def values(self, name: str, points: Sequence[Any]) -> list[Any]:
        """The values of a call at batches, without log-dets."""
        return self._values(self.call(name), points)

    def array(self, name: str, shape: Shape, where: Any = True) -> Any:
        """Random numbers of a statement, cached by name; zero outside of ``where``."""
        if name not in self._arrays:
            numbers = np.random.default_rng((SEED, len(self._arrays))).standard_normal(shape)
            numbers = np.where(where, numbers, 0.0)
            self._arrays[name] = self.recipe.backend.tensor(numbers, self.recipe.dtype)
        return self._arrays[name]

    @property
    def arrays(self) -> dict[str, Any]:
        """The numbers drawn so far, by name."""
        return {name: np.asarray(one) for name, one in self._arrays.items()}

    def slope(self, of: Sequence[tuple[str, int]], by: str, shape: Shape | None = None) -> str:
        """The name of a call that returns a weighted sum of results, given as (call, index), and
        its derivative by autodiff along directions; see `Backend.slope`.
        """
        name = f"slope of {of} by {by} {shape or ''}"
        if name not in self._more:
            calls = [partial(_call_output, self.call(call), place) for call, place in of]
            self._more[name] = self.recipe.backend.slope(
                self.prepared[0], calls, by, self.array, shape
            )
        return name

    def resting(self, of: Sequence[tuple[str, int]], points: Sequence[Any]) -> bool:
        """Whether the constants in a derivative by parameters do not depend on parameters: they
        must be equal when parameters are moved before any call.
        """
        graph = self.part(self.slope(of, "parameters"), points).graph
        held = [one.name for one in graph.nodes if one.op == "constant" and one.kind == "float"]
        if not held:
            return True
        twin = Calls(self.recipe, self.mode, self.direction, batch=self.batch, moved=MOVED)
        twin._arrays = self._arrays
        try:
            other = twin.part(twin.slope(of, "parameters"), points).graph.constants
        except Unsupported:
            return False
        return all(np.array_equal(graph.constants[one], other.get(one, np.nan)) for one in held)

    def part(self, name: str, points: Sequence[Any]) -> TracedComponent:
        """Returns a call as a graph; ``points``: batches at which it is traced and compared, on
        first use. Raises `Unsupported` if there is no graph that agrees with the object.
        """
        if name not in self._parts:
            try:
                self._parts[name] = self._traced(name, points)
            except Unsupported as error:
                self._parts[name] = str(error)
            except Exception as error:  # exceptions are tested by the laws
                text = str(error).partition("\n")[0]
                self._parts[name] = f"it raised {type(error).__name__}: {text}"
        found = self._parts[name]
        if isinstance(found, str):
            raise Unsupported(found)
        return found

    def _traced(self, name: str, points: Sequence[Any]) -> TracedComponent:
        obj, _, context = self.prepared
        traced = self.recipe.backend.traced(obj, self.call(name), points[0], context)
        if not traced.agrees(points[1 : 1 + COMPARED]):
            raise Unsupported("the trace does not compute what the object computes")
        if self.mode == "eval" and name in (*POINTWISE, *THROUGH.values()):
            self.demand_alone(name, points[0])
        graph = traced.graph()
        demand_modelled(graph, partial(traced.path, points[0]))
        return TracedComponent(traced, graph)

    def alone(self, name: str, points: Any) -> bool:
        """Whether a call returns the same for each point alone and among others, up to rounding."""
        obj, _, context = self.prepared
        rows = len(points)

        def results(at: slice) -> list[Any]:
            given = None if context is None else context[at]
            out = self.recipe.backend.once(self.call(name), obj, points[at], given)
            found = out if isinstance(out, tuple) else (out,)
            return [np.asarray(detached(one)) for one in found if one is not None]

        several = results(slice(None))
        for row in range(rows):
            at = slice(row, row + 1)
            expected = [one[at] if np.shape(one)[:1] == (rows,) else one for one in several]
            try:
                found = results(at)
            except Exception:  # it rejects single points
                return False
            if not all(
                np.shape(one) == np.shape(other) and np.allclose(one, other, NEAR, NEAR, True)
                for one, other in zip(found, expected, strict=True)
            ):
                return False
        return True

    def demand_alone(self, name: str, points: Any) -> None:
        """Raises `Unsupported` if `alone` is False."""
        if not self.alone(name, points):
            raise Unsupported("it computes something else of one point than of several")


class Composition:
    """Calls of a target in sequence, from batches of points, as one graph."""

    def __init__(self, calls: Calls, points: Sequence[Any]) -> None:
        self.calls, self.points = calls, points
        self._images: dict[Ref, Callable[[], Sequence[Any]]] = {POINT: lambda: points}
        self._nodes: dict[str, Node] = {}
        self._graphs: list[Graph] = []
        self._places: dict[str, Ref] = {}
        self._constants: dict[str, Any] = {}
        self._arrays = set[str]()
        self._taken: list[tuple[TracedCall, Sequence[Any], dict[str, str]]] = []

    def call(self, name: str, at: Ref = POINT, *, as_it_is: bool = False) -> tuple[Ref, Ref | None]:
        """The value and the log-det of a call at the points, or at another result; ``as_it_is``:
        with the object's own weights, not free ones. Raises `Unsupported`.
        """
        points = self._images[at]()
        part = self.calls.part(name, points)
        graph = part.graph
        if tuple(points[0].shape) != graph.points[1]:
            raise Unsupported(f"its {name} is given points of several shapes")
        names = {graph.points[0]: at.name}
        if graph.given is not None:
            names[graph.given[0]] = CONTEXT
        if as_it_is:
            for weight, shape in graph.weights.items():
                names[weight] = own = f"{weight} as it is"
                kind = "float" if graph.constants[weight].dtype.kind == "f" else "int"
                self._nodes.setdefault(own, Node(own, "constant", (), {}, kind, shape))
        again = self._places.setdefault(name, at) != at
        label = f"{name} at {at.name}" if again else name
        names |= {node.name: self._named(label, node, graph) for node in graph.nodes}
        for node in graph.nodes:
            own = names[node.name]
            if own.startswith(DRAWN):
                self._arrays.add(own)
            else:
                self._nodes.setdefault(own, replace(renamed_node(node, names), name=own))
        self._graphs.append(graph)
        self._constants |= {names.get(one, one): value for one, value in graph.constants.items()}
        self._taken.append((part.traced, points, names))
        value, ladj = (
            None if one is None else Ref(names.get(one.name, one.name)) for one in graph.outputs
        )
        assert value is not None
        self._images[value] = lambda: self.calls.values(name, points)
        return value, ladj

    def slope(
        self, *of: tuple[str, int], by: str = "points", apart: bool = True
    ) -> tuple[Ref, Ref | None]:
        """A weighted sum of results, and its derivative by autodiff; ``apart``: whether each point
        must have a result of its own.
        """
        for name, _ in of:
            if apart and (by == "points" or self.calls.mode == "eval"):
                self.calls.demand_alone(name, self.points[0])
        for (
            name,
            _,
        ) in (
            of
        ):  # without graphs of the calls there is none of the derivative, which takes longer to see
            self.calls.part(name, self.points)
        found = self.call(self.calls.slope(of, by))
        if by == "parameters" and not self.calls.resting(of, self.points):
            raise Unsupported("it holds arrays that come of its parameters")
        moved = "self." if by == "parameters" else POINT.name
        self._arrays |= {one for one in self.calls.arrays if one.startswith(ALONG + moved)}
        return found

    def columns(self, name: str, axes: Sequence[int]) -> tuple[Ref, Ref]:
        """The value of a call and the points, as rows whose columns are the channels, ``axes`` of
        an event, with a direction of the points.
        """
        shape = tuple(self.points[0].shape)
        direction = f"{ALONG}{POINT.name}"
        self.calls.array(direction, shape)
        self._arrays.add(direction)
        last = [1 + axis for axis in axes]
        order = [axis for axis in range(len(shape)) if axis not in last] + last
        moved = [shape[axis] for axis in order]
        rows = math.prod(moved[: -len(last)])
        found = []
        for ref in (self.call(name)[0], POINT):
            turned = self._node("permute", (ref, order), tuple(moved))
            found.append(self._node("view", (turned, [rows, -1]), (rows, math.prod(shape) // rows)))
        return found[0], found[1]

    def along_channels(self, name: str, axes: Sequence[int]) -> tuple[Ref, Ref]:
        """The derivative by autodiff of a weighted sum of a call's results when a whole channel is
        moved, and zero.
        """
        shape = tuple(
            size if axis in axes else 1 for axis, size in enumerate(self.points[0].shape[1:])
        )
        _, along = self.call(self.calls.slope(((name, 0),), "points", shape))
        assert along is not None
        return along, self._node("full", ([], 0.0), ())

    def _named(self, call: str, node: Node, graph: Graph) -> str:
        """A unique name; for an array of the statement, recognized by its numbers, its own; and
        one for an array shared by several calls, recognized by its memory.
        """
        if node.op != "constant":
            return f"{call}.{node.name}"
        held = np.asarray(graph.constants[node.name])
        for name, one in self.calls.arrays.items():
            if np.array_equal(one, held):
                return name
        layout = held.__array_interface__
        return f"constant {layout['data'][0]} {layout['typestr']} {layout['shape']} {layout['strides']}"

    def direction(self, along: Any) -> Ref:
        """A direction of the points for derivatives, free where ``along``, of shape event, is not
        zero.
        """
        name, points = f"{ALONG}{POINT.name}", self.points[0]
        self.calls.array(name, tuple(points.shape), along)
        self._arrays.add(name)
        return Ref(name)

    def behind(self, direction: Ref) -> Ref:
        """The points minus a direction."""
        step = self.calls.array(direction.name, tuple(self.points[0].shape))
        found = self._node("sub", (POINT, direction), tuple(self.points[0].shape))
        self._images[found] = lambda: [one - step for one in self.points]
        return found

    def others(self) -> Ref:
        """Other free points."""
        name = f"{COTANGENT}others"
        drawn = self.calls.array(name, tuple(self.points[0].shape))
        self._arrays.add(name)
        self._images[Ref(name)] = lambda: [drawn for _ in self.points]
        return Ref(name)

    def half_square(self, at: Ref) -> Ref:
        r"""$\frac12 \|z\|^2$ of each point, ``(rows,)``."""
        rows, shape = self.points[0].shape[0], tuple(self.points[0].shape)
        squares = self._entries(self._node("square", (at,), shape), shape)
        return self._node("mul", (self._node("sum", (squares, [1]), (rows,)), 0.5), (rows,))

    def value_with_log_det(self, value: Ref, ladj: Ref | None) -> Ref:
        """Entries of a value and the log-det of each point, if there is one, concatenated:
        ``(rows, width)``.
        """
        rows = self.points[0].shape[0]
        found = [self._entries(one, self._shape(one)) for one in (value, ladj) if one is not None]
        if ladj is not None:
            found[1] = self._node("sum", (found[1], [1], True), (rows, 1))
        width = sum(self._shape(one)[1] for one in found)
        return self._node("cat", (found, 1), (rows, width))

    def _entries(self, of: Ref, shape: Shape) -> Ref:
        rows = self.points[0].shape[0]
        if not shape or shape[0] != rows:
            raise Unsupported("it returns no numbers per point")
        return self._node("view", (of, [rows, -1]), (rows, math.prod(shape[1:])))

    def _shape(self, of: Ref) -> Shape:
        return self._nodes[of.name].shape if of.name in self._nodes else tuple(self.points[0].shape)

    def negative(self, one: Ref | None) -> Ref:
        """The negative of a log-det; raises `Unsupported` if there is none."""
        return self._computed("neg", one)

    def sum(self, one: Ref | None, other: Ref | None) -> Ref:
        """The sum of two numbers of each point; raises `Unsupported` if one is missing."""
        return self._computed("add", one, other)

    def less(self, one: Ref, other: Ref) -> Ref:
        """The difference of two results."""
        return self._computed("sub", one, other)

    def constant(self, name: str, value: Any) -> Ref:
        """Constant numbers of the statement."""
        self._constants[name] = value
        self._nodes[name] = Node(name, "constant", (), {}, "int", np.shape(value))
        return Ref(name)

    def only(self, operators: Container[str]) -> bool:
        """Whether all operators so far are among ``operators``."""
        return all(one.op in operators for one in self._nodes.values())

    def _computed(self, op: str, *of: Ref | None) -> Ref:
        given = tuple(one for one in of if one is not None)
        if len(given) < len(of):
            raise Unsupported("it returns no log-det")
        shape = self._nodes[given[0].name].shape if given[0].name in self._nodes else ()
        return self._node(op, given, shape)

    def _node(self, op: str, args: tuple[Any, ...], shape: Shape) -> Ref:
        node = Node(f"statement.{len(self._nodes)}", op, args, {}, "float", shape)
        self._nodes[node.name] = node
        return Ref(node.name)

    def graph(self, outputs: tuple[Ref, Ref | None]) -> Graph:
        """The graph of all calls; raises `Unsupported` if one writes what another may read."""
        first, context = self._graphs[0], self.calls.prepared[2]
        arrays = {name: one for name, one in self.calls.arrays.items() if name in self._arrays}
        written = {name for graph in self._graphs for name in graph.written}
        buffers = set(first.weights) - first.trained
        if written and not (self.calls.mode == "train" and written <= buffers):
            raise Unsupported("it writes to its weights, or to its input")
        if written and len(self._graphs) > 1:
            raise Unsupported("it writes to its buffers, which another call reads")
        nodes = [one for one in self._nodes.values() if one.op != "copy_"]
        return Graph(
            {**first.weights, **{name: one.shape for name, one in arrays.items()}},
            (POINT.name, tuple(self.points[0].shape)),
            None if context is None else (CONTEXT, tuple(context.shape)),
            self._constants | arrays,
            tuple(nodes),
            outputs,
            tuple(guard for graph in self._graphs for guard in graph.guards),
            first.trained,
            frozenset(
                one
                for one in buffers
                if one in self.calls.variances or one.rpartition(".")[2] == "running_var"
            ),
        )

    @property
    def paths(self) -> Iterator[Branches]:
        """Yields the paths of the points, if they have the shapes of the graph."""
        recipe = self.calls.recipe
        for number in range(len(self.points)):
            with recipe.backend.sandbox(0, recipe.dtype):
                found = [traced.path(points[number]) for traced, points, _ in self._taken]
            decided: dict[str, Any] = {}
            for path, (_, _, names) in zip(found, self._taken, strict=True):
                each = {} if path is None else path.decided
                decided |= {names[one]: value for one, value in each.items() if one in names}
            if None not in found:
                yield Branches(decided)


def demand_modelled(graph: Graph, path: Callable[[], Branches | None]) -> None:
    """Raises `Unsupported` if a graph has operators without residues, both for all outcomes and on
    a path.
    """
    weights, none = frozenset(graph.weights), frozenset[str]()
    reason = ""
    for on_path, free in ((False, weights), (True, weights), (True, none)):
        try:
            GraphRun(graph, Field(1, 0), path() if on_path else None, free, "")
        except NotModelled as error:
            reason = f"not modelled: {error}"
        else:
            return
    raise Unsupported(reason)


def _call_output(call: Call, place: int, obj: Any, x: Any, context: Any) -> Any:
    out = call(obj, x, context)
    if place == ALL:
        return out
    found = out[place] if isinstance(out, tuple) else out
    if found is None:
        raise Unsupported("it returns no log-det")
    return found


def detached(value: Any) -> Any:
    """An array without its autograd graph, if the framework has one."""
    return value.detach() if hasattr(value, "detach") else value
