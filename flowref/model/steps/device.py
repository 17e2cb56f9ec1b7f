"""An object on another device."""

from __future__ import annotations

from dataclasses import dataclass

from flowref.model.call import Mapped
from flowref.model.steps.calls import Learn, Run
from flowref.model.steps.life import Step


@dataclass(frozen=True)
class Move(Step[bool]):
    """``.to(device)``, of what is moved like that; an object without tensors follows its inputs. Its outcome: whether the
    object is meant for other devices (it is a library's, or its code speaks of devices), or has tensors that stayed
    behind. Raises `Unsupported` where tensors that are its own cannot be moved.

    ``device``: its name; empty: one that is not there, whose tensors compute on the processor and refuse
    what a GPU refuses.
    """

    device: str = ""


@dataclass(frozen=True)
class Located:
    """What became of a step on another device.

    ``refused``: the error by which it refused what lay on another device, in one line, or "";
    ``left``: which of its results lie on the processor; ``failed``: any other error, in one line, or "";
    ``out``: what was returned, where that is anything; ``tf32``: whether products of matrices are rounded to tf32
    there in single precision.
    """

    refused: str = ""
    left: tuple[str, ...] = ()
    failed: str = ""
    out: Mapped | None = None
    tf32: bool = False


@dataclass(frozen=True, eq=False)
class There(Step[Located]):
    """A step of a life after `Move`, with its inputs on that device: a call, or a backward pass of the loss with
    an optimizer's step.
    """

    step: Run | Learn
