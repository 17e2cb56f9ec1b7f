"""Calls of torch as graphs of operators (`flowref.model.graph`), with the outcomes of comparisons
at drawn points.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import stateless

import flowref
from flowref.backends.torch.dispatch import Dispatch
from flowref.model import Unsupported
from flowref.model.graph import Branches, Graph, Node, Ref

aten = torch.ops.aten
STEPPING = {aten.floor, aten.ceil, aten.round, aten.trunc}
# The rounding allowed between an operator and its decomposition.
NEAR = 1e-9
# How far points and weights move when a graph is compared with its object.
AWAY, CLOSE = 0.1, 1e-9
# Files whose lines are not reported.
FRAMEWORKS = tuple(f"{Path(str(one.__file__)).parent}{os.sep}" for one in (torch, flowref))


class Untraced(Unsupported):
    """A call without a graph."""


@functools.cache
def _decomposition_table() -> dict[Any, Any]:
    more = [
        aten.native_batch_norm, aten._softmax, aten._log_softmax, aten.leaky_relu, aten.softplus, aten.rsub, aten.stack,
        aten.log_sigmoid_forward, aten.native_layer_norm, aten.native_group_norm, aten.gelu, aten.silu, aten.logsumexp,
        aten.addcmul, aten.addcdiv, aten.mse_loss,
    ]  # fmt: skip
    chosen = {
        **dict.fromkeys((aten.as_strided.default, aten.as_strided_copy.default), _restrided),
        aten.as_strided_scatter.default: _restrided_into,
        aten.relu.default: lambda x: torch.where(x > 0, x, 0.0),
        aten.abs.default: lambda x: torch.where(x < 0, -x, x),
        **dict.fromkeys((aten.sign.default, aten.sgn.default), _signed),
        aten.maximum.default: lambda a, b: torch.where(a > b, a, b),
        aten.minimum.default: lambda a, b: torch.where(a < b, a, b),
        **dict.fromkeys((aten.clamp.default, aten.clamp.Tensor, aten.hardtanh.default), _clamped),
        **dict.fromkeys((aten.clamp_min.default, aten.clamp_min.Tensor), _clamped),
        **dict.fromkeys(
            (aten.clamp_max.default, aten.clamp_max.Tensor), lambda x, high: _clamped(x, None, high)
        ),
    }
    return {**core_aten_decompositions(), **get_decompositions(more), **chosen}


def _signed(x: Any) -> Any:
    one = torch.ones_like(x)
    return torch.where(x < 0, -one, torch.where(x > 0, one, torch.zeros_like(x)))


def _restrided(x: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    """Entries of a contiguous array, by index."""
    places = _strided_indices(x, size, stride, offset)
    return NotImplemented if places is None else x.view(-1)[places.view(-1)].view(size)


def _restrided_into(x: Any, values: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    """A contiguous array with entries replaced, by index."""
    places = _strided_indices(x, size, stride, offset)
    if places is None or places.unique().numel() < places.numel():
        return NotImplemented
    flat = x.reshape(-1).index_put((places.view(-1),), values.reshape(-1))
    return flat.view(x.shape)


def _strided_indices(x: Any, size: Any, stride: Any, offset: Any) -> Any:
    if not x.is_contiguous() or x.storage_offset():
        return None
    steps = np.tensordot(np.asarray(stride, np.int64), np.indices(size), 1)
    return torch.from_numpy(np.ascontiguousarray(steps + (offset or 0)).reshape(size))


def _clamped(x: Any, low: Any = None, high: Any = None) -> Any:
    """A clamp by comparisons, whose outcome is part of a path."""
    x = x if low is None else torch.where(x < low, low, x)
    return x if high is None else torch.where(x > high, high, x)


class TorchTracedCall:
    """The graph of a call, and its evaluation in floats.

    ``call``: a function of object, points and context; ``x``, ``context``: the batch that is
    traced.
    """

    def __init__(
        self, obj: Any, call: Callable[[Any, Any, Any], Any], x: torch.Tensor, context: Any = None
    ) -> None:
        module = isinstance(obj, torch.nn.Module)
        state = {**dict(obj.named_parameters()), **dict(obj.named_buffers())} if module else {}
        self.trained = {name for name, _ in obj.named_parameters()} if module else set()
        self.names = [name for name, one in state.items() if one.is_floating_point()]
        self.state = [state[name].detach().clone() for name in self.names]

        def run(weights: Sequence[Any], points: Any, given: Any) -> Any:
            swapped = (
                stateless._reparametrize_module(obj, dict(zip(self.names, weights, strict=True)))
                if module
                else contextlib.nullcontext()
            )
            with swapped:
                out = call(obj, points, given)
            parts = [one for one in out if one is not None] if isinstance(out, tuple) else [out]
            # A log-det may be a Python number.
            return [
                one if isinstance(one, torch.Tensor) else points.new_tensor(one) for one in parts
            ]

        self.run, self.inputs = run, (x, context)
        self.guards: list[str] = []
        whole = functionalize(run, remove="mutations_and_views")
        try:
            sources = [*self.state, *(one for one in self.inputs if one is not None)]
            # Without decompositions, which round differently: this graph is compared with the
            # object.
            with _guarded(sources, self.guards):
                self.plain = self._trace(run, {})
            with _guarded(sources, []):
                self.module = self._decomposed(whole, getattr(call, "differentiates", False))
        except Unsupported:
            raise
        except Exception as error:
            raise Untraced(
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            ) from error
        self.module.graph.eliminate_dead_code()
        self.seen = self.floats(x, context)

    def _decomposed(self, whole: Any, differentiates: bool) -> Any:
        """The graph of decomposed operators, without writes. For a call that differentiates
        inside, the graph of its operators is decomposed, since decomposing during the call
        fails.
        """
        try:
            if not differentiates:
                return self._trace(whole, _decomposition_table())
        except RuntimeError as error:
            if "functorch" not in str(error):
                raise
        for node in reversed(self.plain.graph.nodes):
            # Answers given to the code are recorded, and not asked again.
            if torch.Tag.data_dependent_output in getattr(node.target, "tags", ()):
                self.plain.graph.erase_node(node)
        self.plain.recompile()
        again = Replayed(self.plain)
        return self._trace(
            functionalize(again.results, remove="mutations_and_views"),
            _decomposition_table(),
            again,
        )

    def _trace(self, call: Any, table: Mapping[Any, Any], again: Replayed | None = None) -> Any:
        settings: dict[str, Any] = {
            "_allow_non_fake_inputs": True,
            "_error_on_data_dependent_ops": False,
        }
        # One fake mode for all nodes, each of which would make its own.
        shared = tracing(TracingContext(FakeTensorMode(allow_fallback_kernels=True)))
        with _recording_lines(again), shared:
            return make_fx(call, dict(table), "real", **settings)(self.state, *self.inputs)

    def floats(self, x: Any, context: Any, state: Sequence[Any] | None = None) -> dict[str, Any]:
        """All values of the graph at points ``(n, *event)``, by name."""
        found: dict[str, Any] = {}

        class Keeping(torch.fx.Interpreter):  # type: ignore[misc]  # it has no types
            def run_node(self, n: Any) -> Any:
                found[n.name] = super().run_node(n)
                return found[n.name]

        with torch.no_grad():
            Keeping(self.module).run(self.state if state is None else state, x, context)
        return found

    def graph(self) -> Graph:
        """The graph in the form of `flowref.model.graph`."""
        placeholders = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        rest = placeholders[len(self.state) :]
        # Names of operators have no dot.
        owned = [f"self.{name}" for name in self.names]
        self.owned = dict(zip([node.name for node in placeholders], owned, strict=False))
        weights = dict(zip(owned, self.state, strict=True))
        points = rest[0].name, tuple(self.inputs[0].shape)
        given = None if self.inputs[1] is None else (rest[1].name, tuple(self.inputs[1].shape))
        nodes, constants = [], {name: one.numpy() for name, one in weights.items()}
        for node in self.module.graph.nodes:
            if node.op == "get_attr":
                value = getattr(self.module, node.target).detach()
                constants[node.name] = value.numpy()
                nodes.append(
                    Node(
                        node.name,
                        "constant",
                        (),
                        {},
                        _node_kind(value),
                        tuple(value.shape),
                    )
                )
            elif node.op == "call_function":
                nodes.append(self._node(node, constants))
            elif node.op == "output":
                outputs = [self._argument(one) for one in node.args[0]]
        return Graph(
            {name: tuple(one.shape) for name, one in weights.items()}, points, given, constants, tuple(nodes),
            (outputs[0], outputs[1] if len(outputs) > 1 else None), tuple(self.guards),
            frozenset(f"self.{name}" for name in self.names if name in self.trained),
        )  # fmt: skip

    def _node(self, node: Any, constants: dict[str, Any]) -> Node:
        value = self.seen[node.name]
        kind = _node_kind(value)
        if kind in ("int", "bool"):
            constants[node.name] = value.numpy()
        target = node.target
        name = (
            target.overloadpacket.__name__ if hasattr(target, "overloadpacket") else target.__name__
        )
        name = name if name.startswith("_to") else name.removesuffix("_copy")
        args = torch.fx.node.map_aggregate(node.args, self._argument)
        named = torch.fx.node.map_aggregate(node.kwargs, self._argument)
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        return Node(
            node.name,
            name,
            tuple(args),
            dict(named),
            kind,
            shape,
            node.meta.get("line", ""),
        )

    def _argument(self, value: Any) -> Any:
        named = isinstance(value, torch.fx.Node)
        return Ref(self.owned.get(value.name, value.name)) if named else value

    def agrees(self, points: Sequence[Any]) -> bool:
        """Whether the graph computes what the object does, at points and with other weights: bit
        for bit as traced, and up to rounding when decomposed. If code reads numbers, the graph
        holds for one answer only: then points and weights are near the traced ones.
        """
        generator = torch.Generator().manual_seed(0)
        scale = CLOSE if self.guards else AWAY

        def moved(one: Any) -> Any:
            return one + scale * torch.randn(one.shape, generator=generator, dtype=one.dtype).abs()

        compared = 0
        for x in [moved(self.inputs[0]) for _ in points] if self.guards else points:
            for state in (self.state, [moved(one) for one in self.state]):
                try:
                    alike = self._agrees_at(state, x)
                except Exception:  # other weights or points may be rejected
                    continue
                compared += 1
                if not alike:
                    return False
        return compared > 0

    def _agrees_at(self, state: Sequence[Any], x: Any) -> bool:
        def run(call: Any, grad: bool = False) -> list[Any]:
            with torch.set_grad_enabled(grad):
                points = x.clone().requires_grad_(grad)
                out = call([one.clone() for one in state], points, self.inputs[1])
            return [one.detach() for one in out]

        plain, graph = run(self.plain), run(self.module)
        return all(
            torch.equal(one.nan_to_num(), other.nan_to_num())
            and torch.allclose(one, decomposed, rtol=NEAR, atol=NEAR, equal_nan=True)
            for there in (run(self.run), run(self.run, grad=True))
            for one, other, decomposed in zip(there, plain, graph, strict=True)
        )

    def path(self, x: Any) -> Branches | None:
        """The outcomes of comparisons and integers at points; None if these lead to other
        shapes.
        """
        try:
            found = self.floats(x, self.inputs[1])
        except Exception:  # a mask selects another number of entries
            return None
        steps = {
            node.name
            for node in self.module.graph.nodes
            if getattr(node.target, "overloadpacket", None) in STEPPING
        }
        whole = {
            name: one
            for name, one in found.items()
            if _node_kind(one) in ("int", "bool") or name in steps
        }
        return Branches({name: np.array(one.numpy()) for name, one in whole.items()})


def _node_kind(value: Any) -> str:
    """The kind of a node's value, as in `Node`."""
    if not isinstance(value, torch.Tensor):
        return "list"
    if value.is_complex():
        return "complex"
    if value.is_floating_point():
        return "float" if value.dtype == torch.float64 else "float32"
    return "bool" if value.dtype == torch.bool else "int"


def _current_source_line() -> str:
    """The "file:line" that runs: the last one outside of frameworks, or else of torch's own
    distributions; "" outside of the traced call.
    """
    frame: FrameType | None = sys._getframe(1)
    source = ""
    while frame is not None:
        file, line = (
            frame.f_code.co_filename,
            f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}",
        )
        if file == __file__ and frame.f_code.co_name == "run":
            break
        if not file.startswith((*FRAMEWORKS, "<")):
            return line
        if file.startswith(DISTRIBUTIONS):
            source = source or line
        frame = frame.f_back
    return source


class Replayed(torch.fx.Interpreter):  # type: ignore[misc]  # it has no types
    """Runs a graph, and records the source line of the current node."""

    line = ""

    def results(self, *given: Any) -> Any:
        """Runs the graph on arguments as it was traced with."""
        return self.run(*torch.utils._pytree.tree_leaves(given))

    def run_node(self, n: Any) -> Any:
        """Runs one node."""
        self.line = n.meta.get("line", "")
        return super().run_node(n)


@contextlib.contextmanager
def _recording_lines(again: Replayed | None = None) -> Iterator[None]:
    """Each node of a trace gets its source line: torch records those of ``forward``
    methods only.
    """
    plain = torch.fx.Tracer.create_node

    def create(tracer: Any, *given: Any, **named: Any) -> Any:
        node = plain(tracer, *given, **named)
        node.meta["line"] = _current_source_line() if again is None else again.line
        return node

    torch.fx.Tracer.create_node = create  # restored after the trace
    try:
        yield
    finally:
        torch.fx.Tracer.create_node = plain


# Methods that read numbers from tensors without an operator: results that depend on them are not in
# the graph.
LEAVING = ("tolist", "numpy", "__array__", "__dlpack__")
# Operators that read numbers -> the name in code.
ASKING = {"_local_scalar_dense": "item"}
DISTRIBUTIONS = str(Path(torch.distributions.__file__).parent)


class Watched(Dispatch):
    """Operators that return numbers to code, such as ``int`` and ``equal``, are rejected if these
    depend on inputs or weights, and truth values are recorded; operators whose results have a
    data-dependent number of entries are rejected too, since code may count them.
    """

    def __init__(self, sources: Iterable[Any], guards: list[str]) -> None:
        super().__init__()
        self.guards, self.asked = guards, False
        # Storages of values that depend on inputs and weights, kept alive so that none is reused.
        self.moving = {one.untyped_storage()._cdata: one for one in sources}

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operator, unless it is rejected."""
        given = torch.utils._pytree.tree_leaves((args, named))
        moves = any(self._moves(one) for one in given)
        if moves and torch.Tag.data_dependent_output in func.tags and not self.asked:
            name = func.overloadpacket.__name__
            raise Untraced(f"a number leaves a tensor by {ASKING.get(name, name)}()")
        if moves and self.asked and torch.Tag.data_dependent_output in func.tags:
            value = func(*args, **named)
            self.guards.append(str(bool(value)))
            return value
        chosen = func is aten.index.Tensor and any(
            one is not None and one.dtype == torch.bool for one in args[1]
        )
        if moves and (
            chosen
            or (func is not aten.index.Tensor and torch.Tag.dynamic_output_shape in func.tags)
        ):
            self.guards.append(func.overloadpacket.__name__)
        found = func(*args, **named)
        if moves:
            written = given if func._schema.is_mutable else ()
            for one in torch.utils._pytree.tree_leaves((found, written)):
                if isinstance(one, torch.Tensor):
                    self.moving[one.untyped_storage()._cdata] = one
        return found

    def _moves(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.untyped_storage()._cdata in self.moving


@contextlib.contextmanager
def _guarded(sources: Iterable[Any], guards: list[str]) -> Iterator[None]:
    """Records truth values that code reads from values that depend on ``sources``; reading such
    numbers raises `Untraced`.
    """
    plain = torch.Tensor.__bool__
    kept = {name: getattr(torch.Tensor, name) for name in LEAVING}
    watched = Watched(sources, guards)

    def leaving(name: str) -> Any:
        def run(tensor: Any, *given: Any, **named: Any) -> Any:
            raise Untraced(f"a number leaves a tensor by {name}()")

        return run

    def asked(tensor: Any) -> bool:
        watched.asked = True
        try:
            return bool(plain(tensor))
        finally:
            watched.asked = False

    torch.Tensor.__bool__ = asked  # type: ignore[method-assign,assignment]  # for the time of the trace
    for name in LEAVING:
        setattr(torch.Tensor, name, leaving(name))
    try:
        with watched:
            yield
    finally:
        torch.Tensor.__bool__ = plain  # type: ignore[method-assign]
        for name, method in kept.items():
            setattr(torch.Tensor, name, method)
