"""The errors a user can meet; each says what was given, what was expected, and how to proceed."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# Messages of JAX for code that needs concrete numbers while shapes are traced, as under `jax.jit`.
TRACED = re.compile(r"static_argnums|traced array|shape-like value: \w*Tracer|concrete value")
UNTRACEABLE = (
    "so it cannot be called under jax.jit, by which its calls are traced: it asks for the numbers in an array "
    "where only its shape and dtype are known"
)


class FlowrefError(Exception):
    """Base of every error that flowref raises on purpose."""


class SpecError(FlowrefError):
    """A target spec, law name or option that cannot be understood."""


class LawError(FlowrefError):
    """A law whose declaration is invalid."""


class TargetError(FlowrefError):
    """A target that was understood but cannot be loaded."""


class DataError(FlowrefError):
    """Data that cannot be read, or that do not fit their description."""


class UnknownShape(TargetError):
    """Raised if calls work at no event shape; another dtype may have one."""


class Ambiguous(TargetError):
    """An object with two possible readings; the message names both, and the option that decides."""


class ReportError(FlowrefError):
    """A report file that cannot be read."""


class BaselineError(FlowrefError):
    """Known failures that cannot be read, or that match nothing."""


class Unsupported(FlowrefError):
    """Raised when a live object lacks an ability; the law is then not applicable, with this reason.

    ``blocked`` and ``remedy``: as in `NotJudged`; None if the caller decides.
    """

    def __init__(self, reason: str, *, blocked: bool | None = None, remedy: str = "") -> None:
        super().__init__(reason)
        self.blocked, self.remedy = blocked, remedy


class Undecidable(FlowrefError):
    """A measurement that cannot be decided, such as a solver that does not converge under noise:
    inconclusive.
    """


def one_line(error: BaseException, limit: int = 160) -> str:
    r"""An exception in one line: its class, and at most so many characters of what it says, less
    the addresses of objects, which are others in every process.

    >>> one_line(ValueError("expected 3 features,\n    got 2"))
    'ValueError: expected 3 features, got 2'
    >>> one_line(AssertionError())
    'AssertionError'

    An assertion without words says its line of code.
    """
    text = ADDRESS.sub("", " ".join(str(error).split()))
    if not text and isinstance(error, AssertionError):
        text = next(
            (frame.line or "" for frame in reversed(traceback.extract_tb(error.__traceback__))), ""
        )
    return f"{type(error).__name__}: {text[:limit]}" if text else type(error).__name__


def untraceable(error: BaseException) -> str:
    """The message for code that needs concrete numbers while JAX traces shapes; empty for other errors."""
    return UNTRACEABLE if TRACED.search(str(error)) else ""


def user_code_location(error: BaseException) -> str:
    """The innermost line of user code in a traceback, in brackets; empty if there is none."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_user_file(frame.filename)
    ]
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def running_user_line() -> str:
    """The innermost line of user code that is being executed, as ``flow.py:12``; empty if there is
    none.
    """
    frame = inspect.currentframe()
    while frame is not None and not _is_user_file(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""


@functools.cache
def _is_user_file(path: str) -> bool:
    ours, standard = str(Path(__file__).resolve().parents[1]), sysconfig.get_paths()["stdlib"]
    return "site-packages" not in path and not path.startswith(("<", ours, standard))


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint naming the closest of some names, or an empty string.

    >>> nearest("zukko", ["zuko", "nflows"])
    ' (did you mean zuko?)'
    """
    folded = {other.casefold(): other for other in names}
    close = [
        folded[key]
        for key in difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.5)
    ]
    return f" (did you mean {', '.join(close)}?)" if close else ""
