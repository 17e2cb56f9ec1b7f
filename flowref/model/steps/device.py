"""An object on another device."""

from __future__ import annotations

from dataclasses import dataclass

from flowref.model.call import Mapped
from flowref.model.steps.calls import Learn, Run
from flowref.model.steps.life import Step


@dataclass(frozen=True)
class Move(Step[bool]):
    """``.to(device)``; an object without tensors follows its inputs. The outcome is whether the object
    supports other devices (it is a library's, or its code mentions devices) or left tensors behind. Raises
    `Unsupported` if its tensors cannot be moved.

    ``device``: its name; empty for a simulated one, whose tensors compute on the CPU and reject what a GPU
    rejects.
    """

    device: str = ""


@dataclass(frozen=True)
class Located:
    """The outcome of a step on another device.

    ``refused``: the error for tensors on different devices, in one line, or ""; ``left``: results that are
    on the CPU; ``failed``: any other error, in one line, or ""; ``out``: the result, if any; ``tf32``:
    whether single-precision matrix products are rounded to tf32 there.
    """

    refused: str = ""
    left: tuple[str, ...] = ()
    failed: str = ""
    out: Mapped | None = None
    tf32: bool = False


@dataclass(frozen=True, eq=False)
class There(Step[Located]):
    """A step after `Move` with its inputs on that device: a call, or an optimizer step on the loss."""

    step: Run | Learn
