"""What a target was recognized as: said on its line, so that a reader can correct it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flowref.model.component import Shape


class Method(NamedTuple):
    """A function of a user's that a call of a target runs: in which file, from the root of the
    repository, at which line, and by what name. ``owner``: the class of the object, or part, that it
    is called on; empty of what is called first of all.
    """

    call: str
    owner: str
    path: str
    line: int
    name: str


@dataclass(frozen=True)
class Recognized:
    """What was taken for what, and why.

    ``kind``: "bijection with inverse", "density without sampler", ... ``conventions``: how it
    speaks, where that is not the usual way, a short phrase each ("inverse: backward()"). ``hints``:
    what a user can say to have more of it judged, a sentence each ("it has reverse(z): say
    ?inverse=reverse"). ``why``: what decided, ``conflicts``: where the spec overrides what the
    target says itself, a sentence each. ``event_source``: who told ``event_shape``; empty where the
    target did, by an attribute or by its construction. ``data``: which of a user's data it was
    measured at, and what they look like to it, a phrase each. ``path`` and ``line``: where its source
    stands, from the root of the repository that was audited; empty and 0 where it is another's.
    ``methods``: of a user's code, in the order in which they are called.
    """

    kind: str
    event_shape: Shape = ()
    event_source: str = ""
    conventions: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    path: str = ""
    line: int = 0
    methods: tuple[Method, ...] = ()

    @property
    def event(self) -> str:
        """The event shape and where it is from; empty where the target states it.

        >>> Recognized("bijection", (4,), "inferred; ?event= sets another").event
        'event shape (4,): inferred; ?event= sets another'
        """
        return f"event shape {self.event_shape}: {self.event_source}" if self.event_source else ""
