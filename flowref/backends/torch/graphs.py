"""Calls whose graph nobody walks: gradients stay on, as users have them, and nothing is kept for a
way back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class Walked(RuntimeError):
    """What a graph would have kept is needed after all: the call itself differentiates."""


class Ungraphed:
    """Whether anything asked for what was not kept, or refuses to be asked for what to keep."""

    walked = False
    # Whether that was a transform of torch.func.
    transformed = False


@contextlib.contextmanager
def ungraphed() -> Iterator[Ungraphed]:
    """Graphs that are recorded inside keep no tensors. Where the code inside walks one, `Walked` is
    raised there, and noted; so is a transform of ``torch.func``, which refuses to run here.

    Without a graph that keeps its tensors, code that writes in place into what it has already used,
    as inverses do that go through features one by one, leaks nothing: the graph of such a call holds
    itself, out of reach of Python's collector.
    """
    state = Ungraphed()

    def forget(_: torch.Tensor) -> None:
        return None

    def remember(_: None) -> torch.Tensor:
        state.walked = True
        raise Walked("the graph was not kept")

    with noting_transforms(state), torch.autograd.graph.saved_tensors_hooks(forget, remember):
        yield state


@contextlib.contextmanager
def noting_transforms(state: Ungraphed) -> Iterator[None]:
    """Note that a transform of ``torch.func`` begins: it forbids such hooks, and raises where there
    are some.
    """
    module: Any = torch._C._autograd
    forbid = module._saved_tensors_hooks_disable

    def noted(*asked: Any) -> Any:
        state.walked = state.transformed = True
        return forbid(*asked)

    module._saved_tensors_hooks_disable = noted
    try:
        yield
    finally:
        module._saved_tensors_hooks_disable = forbid


def sparing(run: Callable[[], T]) -> T:
    """The result of a call that keeps nothing for a way back; of the plain call where that fails,
    for whatever reason: it may walk back itself, or refuse its input.
    """
    try:
        with ungraphed() as state:
            result = run()
    except Exception:
        return run()
    return run() if state.walked else result


def keeps_nothing(run: Callable[[], Any]) -> bool:
    """Whether a call can be made so."""
    try:
        with ungraphed() as state:
            run()
    except Exception:
        return False
    return not state.walked
