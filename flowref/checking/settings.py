"""Effort settings, counted in batches, never in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from flowref.model import Law
from flowref.model.budget import MEBIBYTE, SECOND, SHARE_OF_MEMORY, SHARE_OF_TIME, Budget

# Shares of a law's own effort.
PROFILES = {"quick": 0.5, "standard": 1.0, "thorough": 3.0}
# From this many operations of a round trip on, fewer batches are measured, down to this share.
HEAVY, LEAST_SHARE = 800, 0.3
# The most batches of the standard profile: none of 272 violations on 520 constructions needed more.
MOST = 7
# The share of a pair's time planned for batches: most pairs of large models should end early, and the
# rest is for reviewing violations.
PLANNED = 0.02
# The multiple of the planned work at which a law without violation is cut short.
DRAWN = 22.0


@dataclass(frozen=True)
class Settings:
    """``profile``: quick, standard or thorough; ``seed``: of everything drawn; ``data``: the file
    or object with a user's points (see `checking.data`); ``memory`` in MiB and ``seconds`` of CPU
    time: the limits of one pair; ``device``: where device laws move objects (see `Condition`).
    """

    profile: str = "standard"
    seed: int = 0
    data: str = ""
    memory: int = 2048
    seconds: float = 60.0
    device: str = ""

    @property
    def means(self) -> Budget:
        """The memory (bytes) and work (nominal nanoseconds) of a pair."""
        memory = SHARE_OF_MEMORY * MEBIBYTE * self.memory
        return Budget(memory, SHARE_OF_TIME * SECOND * self.seconds)

    @property
    def reserved(self) -> Budget:
        """The same, with most of the work reserved for reviewing violations."""
        whole = self.means
        drawn = min(whole.work, DRAWN * self.planned)
        return Budget(whole.memory, drawn, whole.work - drawn)

    @property
    def planned(self) -> float:
        """The work in nominal nanoseconds after which no further batch is measured."""
        return PLANNED * SECOND * self.seconds * PROFILES[self.profile]

    @property
    def quick(self) -> bool:
        """Whether only one state of the weights is measured, without training."""
        return self.profile == "quick"

    @property
    def thorough(self) -> bool:
        """Whether laws that take seconds are measured too."""
        return self.profile == "thorough"

    def effort(self, law: Law, operations: int = 0) -> int:
        """Return the number of batches of a law on a subject whose round trip takes ``operations``."""
        share = min(1.0, max(LEAST_SHARE, HEAVY / max(1, operations)))
        share = 1.0 if self.thorough else share
        if law.effort <= 1:
            return 1
        batches = max(2, round(law.effort * PROFILES[self.profile] * share))
        return batches if self.thorough else min(batches, MOST)
