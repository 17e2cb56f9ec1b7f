"""What a target was recognized as; reported so that readers can correct it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flowref.model.component import Shape


class Method(NamedTuple):
    """A function of the user's that a call of a target runs: its file relative to the repository, line and
    name. ``owner``: the class of the object or part that it is called on; empty for the entry.
    """

    call: str
    owner: str
    path: str
    line: int
    name: str


@dataclass(frozen=True)
class Recognized:
    """What a target was recognized as, and why.

    ``kind``: "bijection with inverse", "density without sampler", ...;
    ``conventions``: unusual calling conventions, a short phrase each ("inverse: backward()");
    ``hints``: what to declare so that more is tested, a sentence each ("it has reverse(z): say
        ?inverse=reverse");
    ``why``: the reasons, ``conflicts``: where the spec overrides the target, a sentence each;
    ``event_source``: the source of ``event_shape``; empty if the target states it;
    ``data``: the user's data at which it is measured, and how they look to it, a phrase each;
    ``path``, ``line``: its source relative to the audited repository; empty and 0 if outside;
    ``methods``: functions of the user's code, in the order of calls;
    ``framework``: the backend.
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
    framework: str = "torch"

    @property
    def event(self) -> str:
        """The event shape and its source; empty if the target states it.

        >>> Recognized("bijection", (4,), "inferred; ?event= sets another").event
        'event shape (4,): inferred; ?event= sets another'
        """
        return f"event shape {self.event_shape}: {self.event_source}" if self.event_source else ""
