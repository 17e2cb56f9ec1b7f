"""One call of an object as it is made and read, and what reading a call asks either way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from flowref.adapters.user.conventions import answers
from flowref.adapters.user.conventions.beside import Told
from flowref.adapters.user.conventions.call_forms import Chosen, Way, asked_name
from flowref.adapters.user.conventions.readings import Result, is_array
from flowref.model import Shape

BACK_ALONE = "inverse without log-det"


@dataclass(frozen=True)
class Spoken:
    """One call of an object as it is made and read: the function of the dialect, what its words
    are, how latents come as a list, what tells its log-det beside it, and what of it nobody judges,
    what of the size of a point nobody reads, and to which of its arguments it writes.
    """

    function: Any
    words: tuple[str, ...] = ()
    parts: tuple[Shape, ...] = ()
    log_prob: Any = None
    beside: Told | None = None
    unjudged: str = ""
    left: str = ""
    writes: str = ""


def entries_of(x: Any) -> int:
    """How many numbers one point of a batch has."""
    return math.prod(x.shape[1:])


def result_of(
    obj: Any, way: Way, out: Any, x: Any, name: str, chosen: Chosen | None = None
) -> Result:
    """What a call returned for a batch of points on the side of the data. ``name``: forward or inverse."""
    method = asked_name(obj, way)
    code = getattr(type(obj), method, None) if method else obj
    return Result(out, len(x), entries_of(x), name, chosen or {}, obj, code)


def follows(later: Any, out: Any) -> bool:
    """Whether the log-det is larger by one where the running one is."""
    moved = later[1] - out[1] - 1
    return bool((moved.abs() < 1e-4).all())


def of_several(way: Way, out: Any, x: Any) -> Spoken | None:
    """A call that gave as many tensors as it took, which make up a point, with a log-det after them
    or without one; None where it did not.
    """
    count = len(way.sizes)
    if not isinstance(out, (tuple, list)) or not all(map(is_array, out)):
        return None
    if len(out) == count + 1:
        return Spoken(way.speak(), (f"{count} tensors in, {count} out; log-det last",))
    if len(out) != count or sum(math.prod(one.shape) for one in out) != math.prod(x.shape):
        return None
    words = f"{count} tensors in, {count} out, no log-det"
    return Spoken(way.speak(answers.joined, answers.none), (words,))
