"""The schedule of checks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

# The share of the training's own time that checks may take (each step costs another 0.3 %), and the
# growth of an interval that is reported.
SHARE, GROWN = 0.007, 1.5


@dataclass
class Pace:
    """A check every ``every`` steps, or less often to stay within a share of the time of the steps
    between.

    Preparation, which happens once, goes to `paid` and is not counted.
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
        """Record a check at a step that took ``cost`` seconds, and plan the next; returns a
        sentence if checks have become rarer, or "".
        """
        now = self.clock()
        taken = max(1, step - self._checked_at)
        of_step = max(now - self._since - cost, 1e-9) / taken
        self._costs = [*self._costs[-3:], cost]
        # The minimum, since load on the machine only slows checks down.
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
        """Restart the clock at a step, after work that happens once."""
        self._checked_at, self._since = step, self.clock()
        self.due_at = step + self.spacing
