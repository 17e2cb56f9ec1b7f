"""Maps that return value, log-det and more in the columns of one tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flowref_zoo.specimens.specimen import Specimen
from flowref_zoo.specimens.spoken import BUGS, Coupled


class Packed(Coupled):
    """Value, log-det and a penalty side by side, as an integrator of all three returns them."""

    columns = "z:0-3,ladj:4"

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.packed(x, *self.onward(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.packed(z, *self.back(z))

    def packed(self, before: Any, after: Any, ladj: Any) -> Any:
        """What is returned."""
        moved = ((after - before) ** 2).sum(1)
        told = ladj.reshape(-1, 1).expand(len(after), 1)
        return torch.cat([after, told, moved.reshape(-1, 1)], 1)


def packed(defect: str = "") -> nn.Module:
    """A coupling whose log-det is the fifth column."""
    return Packed(defect=defect)


SPECIMENS = (Specimen("packed", BUGS),)
