"""The functions of the user's code that each call runs, traced once, so that reports can name the faulty
one.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import flowref
from flowref.loading.place import INSTALLED, root_of
from flowref.model import Method, Subject, draw_points

# Operations of a round trip above which no call is traced.
DEAREST = 20_000


def entered_methods(subject: Subject) -> tuple[Method, ...]:
    """The functions that each call enters from outside the user's code, or of another class."""
    if subject.operations > DEAREST or subject.facts.unended:
        return ()
    root = root_of(Path.cwd())
    found: dict[Method, None] = {}
    for call, run in _ordinary_calls(subject):
        with contextlib.suppress(Exception):  # reported by laws
            found |= dict.fromkeys(_entered(call, run, root))
    return tuple(found)


def _ordinary_calls(subject: Subject) -> Iterator[tuple[str, Callable[[], Any]]]:
    rng = np.random.default_rng(0)
    x = draw_points(subject.domain, (3, *subject.event_shape), rng)
    shape = subject.context_shape
    context = None if shape is None else rng.standard_normal((3, *shape))
    forward, inverse = subject.forward, subject.inverse
    if forward is not None:
        yield "forward", lambda: forward(x, context)
        if inverse is not None:
            yield "inverse", functools.partial(inverse, forward(x, context).value, context)
    if subject.log_prob is not None:
        yield "log_prob", functools.partial(subject.log_prob, x, context)
    if subject.sample is not None:
        yield (
            "sample",
            functools.partial(subject.sample, 2, 0, None if context is None else context[:1]),
        )


def _entered(call: str, run: Callable[[], Any], root: Path) -> list[Method]:
    stack: list[tuple[FrameType, str]] = []
    found: list[Method] = []

    def follow(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and stack and stack[-1][0] is frame:
            stack.pop()
        if event != "call" or not (path := _repository_path(frame.f_code, root)):
            return
        owner = _owner(frame)
        place = path, frame.f_code.co_firstlineno, frame.f_code.co_name
        if not stack:
            found.append(Method(call, "", *place))
        if owner and owner not in {inside for _, inside in stack}:
            found.append(Method(call, owner, *place))
        stack.append((frame, owner))

    before = sys.getprofile()
    sys.setprofile(follow)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


@functools.lru_cache(maxsize=4096)
def _repository_path(code: CodeType, root: Path) -> str:
    """The file of a function relative to the repository; empty outside the user's code."""
    if code.co_name.startswith("<"):
        return ""
    file = Path(code.co_filename)
    if not file.is_absolute() or not file.is_relative_to(root) or not file.is_file():
        return ""
    inside = file.relative_to(root)
    ours = file.is_relative_to(Path(flowref.__file__).parent)
    return "" if ours or set(INSTALLED) & set(inside.parts) else inside.as_posix()


def _owner(frame: FrameType) -> str:
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return type(frame.f_locals["self"]).__name__ if names[:1] == ("self",) else ""
