"""Stand-ins as targets: loaded by name, so that whole checks run without a framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flowref.model import Condition, Subject, Target

Builder = Callable[[Condition], Subject]
TARGET = Target("user", "stand-in")


@dataclass
class Shelf:
    """What stands for `flowref.loading.load`: subjects by target, built for a condition."""

    builders: dict[Target, Builder] = field(default_factory=dict)
    loaded: list[Condition] = field(default_factory=list)

    def put(self, build: Builder, target: Target = TARGET) -> Target:
        """Let a target be built so."""
        self.builders[target] = build
        return target

    def load(
        self, target: Target, condition: Condition | None = None, like: Target | None = None
    ) -> Subject:
        """The subject of a target in a condition."""
        self.loaded.append(condition or Condition())
        return self.builders[target](condition or Condition())
