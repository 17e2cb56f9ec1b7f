"""At which steps a check is due."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# The share of the training's own time that checks may take (what is done at every step takes another 0.3 %), and
# the part of an interval by which one must grow before it is said.
SHARE, GROWN = 0.007, 1.5


@dataclass
class Pace:
    """Each ``every`` steps, or as seldom as keeps checks within a share of the time of the steps between.

    Preparation, which happens once, is `paid` and not counted.
    """

    every: int
    clock: Callable[[], float] = time.perf_counter
    due_at: int = 0
    spacing: int = 0
    _checked_at: int = 0
    _since: float = 0.0
    _costs: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.due_at = self.spacing = self.every
        self._since = self.clock()

    def finish(self, step: int, cost: float) -> str:
        """Note a check at a step, and plan the next; the sentence that says that checks are rarer now, or nothing."""
        now = self.clock()
        taken = max(1, step - self._checked_at)
        of_step = max(now - self._since - cost, 1e-9) / taken
        self._costs = [*self._costs[-3:], cost]
        # What else the machine does makes single checks slower, and none faster.
        mean = min(self._costs)
        needed = max(self.every, math.ceil(mean / (SHARE * of_step)))
        said = ""
        if needed > GROWN * self.every:
            said = (
                f"a check takes as long as {mean / of_step:.1f} steps, so one is made every {needed} steps in "
                f"place of {self.every}, within one per cent of the time"
            )
        self.spacing = max(needed, self.every)
        self._checked_at, self._since, self.due_at = step, now, step + self.spacing
        return said

    def paid(self, step: int) -> None:
        """Begin to count anew at a step, after what happens once."""
        self._checked_at, self._since = step, self.clock()
        self.due_at = step + self.spacing
