"""Observing a map while it is called: which of its modules run, their inputs and outputs, and what
depends on what.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from flowref.backends.torch.arrays import array
from flowref.model import Unsupported

# The two calls of a bijection that is a module.
DIRECTIONS = ("forward", "inverse")


def module_by_path(obj: Any, name: str) -> Any:
    """Returns the module of a dotted name; raises `Unsupported` if there is none."""
    module = obj
    for step in name.split("."):
        if not hasattr(module, step):
            raise Unsupported(f"it has no {name}")
        module = getattr(module, step)
    return module


@contextlib.contextmanager
def wrap_methods(
    module: Any, methods: Sequence[str], around: Callable[[Callable[..., Any], Any, Any], Any]
) -> Iterator[None]:
    """Calls of a module's methods go to ``around(method, arguments, keywords)``; nested ones do
    not.
    """
    inside: list[str] = []

    def answering(method: Callable[..., Any], name: str) -> Callable[..., Any]:
        def answer(*inputs: Any, **keywords: Any) -> Any:
            if inside:
                return method(*inputs, **keywords)
            inside.append(name)
            try:
                return around(method, inputs, keywords)
            finally:
                inside.pop()

        return answer

    before = {name: vars(module)[name] for name in methods if name in vars(module)}
    for name in methods:
        vars(module)[name] = answering(getattr(module, name), name)
    try:
        yield
    finally:
        for name in methods:
            vars(module).pop(name, None)
        vars(module).update(before)


def is_layer(module: Any) -> bool:
    """Whether a module is a bijection with trainable parameters."""
    both = all(callable(getattr(module, name, None)) for name in DIRECTIONS)
    return both and any(parameter.requires_grad for parameter in module.parameters())


def own_methods(module: Any) -> list[str]:
    """The names of the methods that a module's classes define, without torch's."""
    kinds = [kind for kind in type(module).__mro__ if not issubclass(nn.Module, kind)]
    names = {name for kind in kinds for name, value in vars(kind).items() if callable(value)}
    return sorted(
        name
        for name in names
        if not name.startswith("__") and callable(getattr(module, name, None))
    )


def layer_run_counts(obj: Any, call: Callable[[], Any]) -> dict[str, int]:
    """Layer name -> number of runs in a call; layers are bijections with parameters."""
    counts: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        for name, module in obj.named_modules():
            if name and is_layer(module):
                counts[name] = 0

                def count(
                    method: Callable[..., Any], inputs: Any, keywords: Any, name: str = name
                ) -> Any:
                    counts[name] += 1
                    return method(*inputs, **keywords)

                stack.enter_context(wrap_methods(module, own_methods(module), count))
        call()
    return counts


def traced(
    obj: Any, names: Sequence[str], call: Callable[[], Any]
) -> list[tuple[str, Any, Any, Any]]:
    """Inputs and outputs of the named modules during a call: (name, input, value, log-det).

    The last entry, without a name, is the result of the call.
    """
    seen: list[tuple[str, Any, Any, Any]] = []
    with contextlib.ExitStack() as stack:
        for name in names:

            def record(
                method: Callable[..., Any], inputs: Any, keywords: Any, name: str = name
            ) -> Any:
                first = array(inputs[0]) if inputs and isinstance(inputs[0], torch.Tensor) else None
                out = method(*inputs, **keywords)
                value, ladj = (
                    out if isinstance(out, (tuple, list)) and len(out) == 2 else (out, None)
                )
                seen.append((name, first, array(value), array(ladj)))
                return out

            module = module_by_path(obj, name)
            ways = [way for way in DIRECTIONS if callable(getattr(module, way, None))]
            stack.enter_context(wrap_methods(module, ways, record))
        whole = call()
    return [*seen, ("", None, whole.value, whole.ladj)]


def cut_after(obj: Any, name: str, call: Callable[[], Any]) -> tuple[Any, Any]:
    """Treats the output of a named module in a call as an input: returns (this input, the
    result).
    """
    leaves: list[Any] = []

    def cut(method: Callable[..., Any], inputs: Any, keywords: Any) -> Any:
        value, *others = method(*inputs, **keywords)
        leaves.append(value.detach().requires_grad_(True))
        return (leaves[-1], *others)

    with wrap_methods(module_by_path(obj, name), DIRECTIONS, cut):
        out = call()
    if not leaves:
        raise Unsupported(f"its {name} does not run")
    return leaves[-1], out
