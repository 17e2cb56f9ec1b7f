"""How hard to look: effort is counted in batches, never in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from flowref.model import Law
from flowref.model.budget import MEBIBYTE, SECOND, SHARE_OF_MEMORY, SHARE_OF_TIME, Means

# Shares of a law's own effort.
PROFILES = {"quick": 0.5, "standard": 1.0, "thorough": 3.0}
# From this many operations on, as iterative inverses and solvers take them, fewer batches are
# measured, down to a share.
HEAVY, LEAST_SHARE = 800, 0.3
# The most batches of the standard profile: on 520 constructions, of 272 violations none was found
# later.
MOST = 7
# The share of the time of a pair that is planned for drawing batches: most pairs of large models
# should end early, and the rest is for what turns out to be conspicuous.
PLANNED = 0.02
# So many times that, one law may take until it is cut short, if nothing is conspicuous.
DRAWN = 22.0


@dataclass(frozen=True)
class Settings:
    """How hard to look. ``profile``: quick, standard or thorough; ``seed``: of everything that is
    drawn; ``data``: what holds points of a user's, at which laws are measured as well (see
    `checking.data`); ``memory`` and ``seconds``: what one pair may take, in MiB and of processor
    time; ``device``: where laws of devices move objects, by name (see `Condition`).
    """

    profile: str = "standard"
    seed: int = 0
    data: str = ""
    memory: int = 2048
    seconds: float = 60.0
    device: str = ""

    @property
    def means(self) -> Means:
        """What a pair may ask for in all."""
        memory = SHARE_OF_MEMORY * MEBIBYTE * self.memory
        return Means(memory, SHARE_OF_TIME * SECOND * self.seconds)

    @property
    def reserved(self) -> Means:
        """The same, most of it for what turns out to be conspicuous."""
        whole = self.means
        drawn = min(whole.work, DRAWN * self.planned)
        return Means(whole.memory, drawn, whole.work - drawn)

    @property
    def planned(self) -> float:
        """The nominal nanoseconds of work after which no further batch is measured."""
        return PLANNED * SECOND * self.seconds * PROFILES[self.profile]

    @property
    def quick(self) -> bool:
        """Whether one state of the weights is measured, and no training."""
        return self.profile == "quick"

    @property
    def thorough(self) -> bool:
        """Whether what takes seconds is measured as well."""
        return self.profile == "thorough"

    def effort(self, law: Law, operations: int = 0) -> int:
        """Batches to measure for a law on a subject of which a round trip takes so many operations."""
        share = min(1.0, max(LEAST_SHARE, HEAVY / max(1, operations)))
        share = 1.0 if self.thorough else share
        if law.effort <= 1:
            return 1
        batches = max(2, round(law.effort * PROFILES[self.profile] * share))
        return batches if self.thorough else min(batches, MOST)
