"""Leading a visitor through a call: the whole, then its parts where the whole tells nothing, each at
the points that reach it.

Parts are those that the dialect lists, applied one after the other, or modules inside the object
that return a value and a log-det while it is called. What such a module gives is cut off from what
it was given, so that what lies between the modules can be seen by itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from flowref.backends.kept import KEPT, digest_of
from flowref.backends.parts import listed_parts
from flowref.backends.torch.arrays import array
from flowref.backends.torch.cuts import Piece, pieces, rest_of, runs_of, whole_of
from flowref.backends.torch.derivatives import graphed_rows
from flowref.backends.torch.levels import own_methods, wrapped
from flowref.backends.torch.live import Live
from flowref.backends.torch.stages import Asked, Graphs, graphed, stage_of, tensor_like, zeros_for
from flowref.backends.torch.state import trainable
from flowref.model import Array, Dialect, Stage, Visitor

# So many times the work of a call a walk takes, whatever it finds; Jacobians are asked for as they are
# made.
WALKED = 20.0
# Modules with log-dets that make a composite.
SEVERAL = 2


def walk(live: Live, name: str, x: Array, context: Array | None, visitor: Visitor) -> bool:
    """Lead a visitor through one call; whether it told everything. Where it did not without noise,
    it does not with it.
    """
    if not visitor.steady:
        key = (live.number, None, live.default, digest_of(f"resolved {name}", x, context))
        if live.rounding is None:
            return bool(KEPT.get(key, lambda: led(live, name, x, context, visitor), anew=True))
        return KEPT.entries.get(key) is not False and led(live, name, x, context, visitor)

    def anew() -> tuple[bool, Any]:
        before, live.rounding = live.rounding, None
        try:
            return led(live, name, x, context, visitor), visitor.notes()
        finally:
            live.rounding = before

    key = (live.number, None, live.default, digest_of(f"walk {name}", x, context))
    resolved, notes = KEPT.get(key, anew)
    visitor.recall(notes)
    return bool(resolved)


def led(live: Live, name: str, x: Array, context: Array | None, visitor: Visitor) -> bool:
    """The same, under the noise that is on."""
    with live.lend() as obj, frozen(obj), live.calling(f"walk {name}"):
        points = live.tensor(x, support=live.support_of(name))
        assert points is not None
        live.afford(name, len(x), WALKED, graphed=True)
        ctx = live.tensor(context, jitter=1)
        walker = Walker(live, visitor, graphed_rows(live.facts.cost, name))
        try:
            return walker.visit("", obj, live.dialect, name, points, ctx)
        finally:
            walker.graphs.forget()


@contextlib.contextmanager
def frozen(obj: Any) -> Iterator[None]:
    """No graph leads to the parameters: masks times weights, call after call, fill the memory."""
    held = [parameter for _, parameter in trainable(obj)]
    for parameter in held:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(True)


@dataclass
class Scope:
    """One call while its modules are cut out of it: what can be consumed, and what was."""

    sources: list[torch.Tensor] = field(default_factory=list)
    sinks: list[torch.Tensor] = field(default_factory=list)
    failed: bool = False

    def between(self, name: str) -> Stage:
        """What lies between the modules, from every source to every sink."""
        batch = len(self.sources[0])

        def pull(cotangents: Array) -> Array:
            sizes = np.cumsum([sink[0].numel() for sink in self.sinks])[:-1]
            rows = []
            for probe in range(cotangents.shape[1]):
                pieces = np.split(cotangents[:, probe], sizes, axis=1)
                moving = [pair for pair in zip(self.sinks, pieces, strict=True) if graphed(pair[0])]
                gradients: Sequence[torch.Tensor | None] = [None] * len(self.sources)
                if moving:
                    gradients = torch.autograd.grad(
                        [sink for sink, _ in moving],
                        self.sources,
                        [tensor_like(piece, sink) for sink, piece in moving],
                        retain_graph=True,
                        allow_unused=True,
                    )
                flat = [
                    np.asarray(array(zeros_for(gradient, source))).reshape(batch, -1)
                    for gradient, source in zip(gradients, self.sources, strict=True)
                ]
                rows.append(np.concatenate(flat, 1))
            return np.stack(rows, 1)

        given, taken = (
            np.concatenate([array(one).reshape(batch, -1) for one in side], 1)
            for side in (self.sources, self.sinks)
        )
        return Stage(name, given.shape[1:], given, taken, pull, between=True)


@dataclass
class Walker:
    """A visitor on its way through one call."""

    live: Live
    visitor: Visitor
    most: int
    scopes: list[Scope] = field(default_factory=list)
    muted: bool = False
    graphs: Graphs = field(default_factory=Graphs)
    # Classes of modules that were told by their pieces, and the names of those that call others.
    pieced: set[type] = field(default_factory=set)
    holding: set[str] = field(default_factory=set)

    def visit(
        self,
        name: str,
        obj: Any,
        dialect: Dialect,
        call: str,
        x: torch.Tensor,
        context: torch.Tensor | None,
    ) -> bool:
        """Visit a call of an object, or what it is made of."""
        function = getattr(dialect, call)
        asked = Asked(lambda points, ctx: function(obj, points, ctx), (context,))
        stage = stage_of(name, asked, x, self.most, graphs=self.graphs)
        if self.live.facts.cost.heavy:  # a composite of several parts seldom tells as a whole
            mark = self.visitor.mark()
            if listed_parts(obj, dialect):
                if self._parts(stage, obj, dialect, call, x, context):
                    return True
            elif self._modules(name, obj, asked, x, SEVERAL):
                return True
            self.visitor.forget(mark)
        return self._resolved(
            stage,
            lambda: self._parts(stage, obj, dialect, call, x, context),
            lambda: self._modules(name, obj, asked, x),
            lambda: self._pieces(stage, asked, x),
        )

    def _resolved(self, stage: Stage, *roads: Callable[[], bool]) -> bool:
        if self.visitor.told(stage):
            return True
        for road in roads:
            mark = self.visitor.mark()
            if road():
                return True
            self.visitor.forget(mark)
        return self.visitor.insist(stage)

    def _parts(
        self,
        whole: Stage,
        obj: Any,
        dialect: Dialect,
        call: str,
        x: torch.Tensor,
        context: torch.Tensor | None,
    ) -> bool:
        """Visit the parts that a dialect lists, one after the other."""
        listed = listed_parts(obj, dialect)
        if not listed:
            return False
        stages = []
        for name, part in listed if call == "forward" else listed[::-1]:
            own = self.live.resolve(part) or dialect
            function = getattr(own, call)
            if function is None:
                return False
            asked = Asked(lambda p, ctx, f=function, o=part: f(o, p, ctx), (context,))
            try:
                stages.append(stage_of(name, asked, x, self.most, graphs=self.graphs))
                if not self.visit(name, part, own, call, x, context):
                    return False
                with torch.no_grad():
                    x = asked.at(x)
            except Exception:  # a part that cannot be called alone
                return False
        return self.visitor.composed(whole, stages)

    def _modules(self, name: str, obj: Any, asked: Asked, x: torch.Tensor, least: int = 1) -> bool:
        """Visit the modules inside an object that are maps with log-dets, as a call runs them, if there
        are so many.
        """
        if not isinstance(obj, nn.Module):
            return False
        found = self._found(obj, asked, x)
        if len(found) < least:
            return False
        with self._hooked(obj, found):
            return self._scope(name, asked, x)

    def _found(self, obj: nn.Module, asked: Asked, x: torch.Tensor) -> dict[str, list[str]]:
        """Which methods of which modules return a value and a log-det whenever a call runs them."""
        maps: dict[str, dict[str, bool]] = {}
        running: list[str] = []
        within: set[tuple[str, str]] = set()
        with contextlib.ExitStack() as stack:
            for name, module in inside(obj):

                def record(
                    method: Callable[..., Any], inputs: Any, keywords: Any, name: str = name
                ) -> Any:
                    within.update((outer, name) for outer in running)
                    running.append(name)
                    try:
                        out = method(*inputs, **keywords)
                    finally:
                        running.pop()
                    seen = maps.setdefault(name, {})
                    label = method.__name__
                    fits = is_map(inputs, out, len(x))
                    seen[label] = seen.get(label, True) and fits
                    return out

                stack.enter_context(wrapped(module, public(module), record))
            with torch.no_grad():
                asked.at(x.detach())
        kept = {
            name: [label for label, fits in seen.items() if fits] for name, seen in maps.items()
        }
        found = {name: labels for name, labels in kept.items() if labels}
        self.holding = {outer for outer, name in within if name in found}
        return found

    @contextlib.contextmanager
    def _hooked(self, obj: nn.Module, found: Mapping[str, list[str]]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name, module in inside(obj):
                if name in found:

                    def around(
                        method: Callable[..., Any], inputs: Any, keywords: Any, name: str = name
                    ) -> Any:
                        if self.muted:
                            return method(*inputs, **keywords)
                        return self._module(name, method, inputs, keywords)

                    stack.enter_context(wrapped(module, found[name], around))
            yield

    def _module(
        self, name: str, method: Callable[..., Any], inputs: tuple[Any, ...], keywords: Any
    ) -> Any:
        """Answer the call of a module: it is visited, and what it gives is a new source."""
        given, *others = inputs
        x, scope = alone(given), self.scopes[-1]

        def of_points(points: torch.Tensor, *rest: Any, **named: Any) -> Any:
            value, *more = method(again_alone(given, points), *rest, **named)
            return alone(value), *more

        asked = Asked(of_points, tuple(others), keywords)
        with self._mute():
            out = method(given, *others, **keywords)
            y = alone(out[0])
            stage = stage_of(name, asked, x, self.most, y, self.graphs)
        if not scope.failed:
            kind = type(getattr(method, "__self__", None))
            scope.failed = not (
                apart(y, x, (*others, *keywords.values()))
                and self._resolved_quietly(stage, name, asked, x, kind)
            )
        leaf = y.detach().requires_grad_(True)
        scope.sinks.append(x)
        scope.sources.append(leaf)
        result = (again_alone(out[0], leaf), *out[1:])
        return type(out)(result) if type(out) in (tuple, list) else result

    def _resolved_quietly(
        self, stage: Stage, name: str, asked: Asked, x: torch.Tensor, kind: type
    ) -> bool:
        """What a module of a kind is told by; where another one of it was told by its pieces alone, by
        these first.
        """
        quiet, mark = Quiet(self.visitor, self._mute), self.visitor.mark()

        def by_pieces() -> bool:
            with self._mute():
                return self._pieces(stage, asked, x)

        early = kind in self.pieced
        if early:
            if by_pieces():
                return True
            self.visitor.forget(mark)
        if quiet.told(stage):
            return True
        if name in self.holding and self._scope(name, asked, x):
            return True
        self.visitor.forget(mark)
        if not early and by_pieces():
            if self.live.facts.cost.heavy:
                self.pieced.add(kind)
            return True
        self.visitor.forget(mark)
        return quiet.insist(stage)

    def _scope(self, name: str, asked: Asked, x: torch.Tensor) -> bool:
        """Run a call with its modules cut out; whether they and what lies between told everything."""
        scope = Scope([x.detach().requires_grad_(True)])
        self.scopes.append(scope)
        try:
            with torch.enable_grad():
                value = asked.at(scope.sources[0])
        except Exception:  # it does not run on what has a graph
            return False
        finally:
            self.scopes.pop()
        if scope.failed or len(scope.sources) < 2:
            return False
        scope.sinks.append(value)
        with self._mute():
            return self.visitor.told(scope.between(f"{name} (between its modules)".strip()))

    def _pieces(self, whole: Stage, asked: Asked, x: torch.Tensor) -> bool:
        """Visit what a call is made of, whatever it is written in."""
        try:
            found = pieces(asked, x)
        except Exception:  # it does not run so
            return False
        if len(found) < 2:
            return False
        if not all(self._run(whole.name, run) for run in runs_of(found)):
            return False
        every = [whole_of(whole.name, [piece]) for piece in found]
        return self.visitor.composed(whole, every)

    def _run(self, name: str, run: Sequence[Piece]) -> bool:
        """Visit pieces that follow each other, together if that tells, and otherwise in halves."""
        stage = rest_of(name, run)
        if stage is None or self.visitor.told(stage):
            return True
        if len(run) == 1:
            return self.visitor.insist(stage)
        half = len(run) // 2
        return self._run(name, run[:half]) and self._run(name, run[half:])

    @contextlib.contextmanager
    def _mute(self) -> Iterator[None]:
        before, self.muted = self.muted, True
        try:
            yield
        finally:
            self.muted = before


class Quiet(NamedTuple):
    """A visitor while modules answer as they are."""

    visitor: Visitor
    mute: Callable[[], contextlib.AbstractContextManager[None]]

    def told(self, stage: Stage) -> bool:
        """See `Visitor.told`."""
        with self.mute():
            return self.visitor.told(stage)

    def insist(self, stage: Stage) -> bool:
        """See `Visitor.insist`."""
        with self.mute():
            return self.visitor.insist(stage)


def inside(obj: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules in an object whose classes are not torch's own, by dotted name."""
    for name, module in obj.named_modules():
        if name and not type(module).__module__.startswith("torch."):
            yield name, module


def public(module: nn.Module) -> list[str]:
    """The methods of a module that others call."""
    return [name for name in own_methods(module) if not name.startswith("_")]


def is_map(inputs: Sequence[Any], out: Any, batch: int) -> bool:
    """Whether a method took points and returned as many numbers, and a log-det per point."""
    if not (isinstance(out, (tuple, list)) and len(out) >= 2 and inputs):
        return False
    x, y, ladj = alone(inputs[0]), alone(out[0]), out[1]
    if not all(isinstance(one, torch.Tensor) and one.is_floating_point() for one in (x, y)):
        return False
    if min(x.dim(), y.dim()) < 1 or len(x) != batch or len(y) != batch:
        return False
    if x.numel() != y.numel() or x[0].numel() < 2:
        return False
    if isinstance(ladj, torch.Tensor):
        return ladj.numel() in (1, batch)
    return isinstance(ladj, (int, float))


def alone(value: Any) -> Any:
    """The one tensor of a list or a tuple that holds no other; anything else as it is."""
    return value[0] if type(value) in (tuple, list) and len(value) == 1 else value


def again_alone(like: Any, tensor: torch.Tensor) -> Any:
    """A tensor in such a list or tuple, if that is how another was handed over."""
    return type(like)((tensor,)) if type(like) in (tuple, list) else tensor


def apart(value: torch.Tensor, x: torch.Tensor, others: Sequence[Any]) -> bool:
    """Whether what a map gives hangs on nothing that moves but its points: no further argument with
    a graph enters it.
    """
    graded = [one for one in tensors_in(others) if one.requires_grad and one is not x]
    if not graded or not value.requires_grad:
        return True
    generator = torch.Generator().manual_seed(3)
    weights = torch.rand(value.shape, generator=generator, dtype=value.dtype)
    gradients = torch.autograd.grad(value, graded, weights, retain_graph=True, allow_unused=True)
    return all(gradient is None or not gradient.any() for gradient in gradients)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments, and in the containers among them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors_in(one)
