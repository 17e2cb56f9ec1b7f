"""Calls without a backward pass: gradients stay enabled, as users have them, but no tensors are
saved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class Walked(RuntimeError):
    """A saved tensor is needed after all: the call itself runs a backward pass."""


class Ungraphed:
    """Whether a backward pass needed saved tensors, or a transform forbids hooks on them."""

    walked = False
    # Whether that was a transform of torch.func.
    transformed = False


@contextlib.contextmanager
def ungraphed() -> Iterator[Ungraphed]:
    """Graphs recorded inside save no tensors. A backward pass inside raises `Walked`, which is
    recorded; so is a transform of ``torch.func``, which refuses to run here.

    This also avoids leaks: a graph that saves tensors which the code then overwrites in place, as
    inverses that go through features one by one do, refers to itself, out of reach of Python's
    collector.
    """
    state = Ungraphed()

    def forget(_: torch.Tensor) -> None:
        return None

    def remember(_: None) -> torch.Tensor:
        state.walked = True
        raise Walked("the graph saved no tensors")

    with noting_transforms(state), torch.autograd.graph.saved_tensors_hooks(forget, remember):
        yield state


@contextlib.contextmanager
def noting_transforms(state: Ungraphed) -> Iterator[None]:
    """Records when a transform of ``torch.func`` begins: it forbids hooks on saved tensors, and
    raises if there are any.
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
    """The result of a call without saved tensors; of the plain call if that fails, for any reason:
    it may run a backward pass, or reject its input.
    """
    try:
        with ungraphed() as state:
            result = run()
    except Exception:
        return run()
    return run() if state.walked else result


def keeps_nothing(run: Callable[[], Any]) -> bool:
    """Whether a call works without saved tensors."""
    try:
        with ungraphed() as state:
            run()
    except Exception:
        return False
    return not state.walked
