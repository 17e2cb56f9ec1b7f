"""A state is loaded with the versions of its modules, as from a file."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.checking import Settings
from flowref.model import Status


class Versioned(nn.Module):
    """A shift that was saved otherwise in its first version."""

    _version = 2
    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor([0.5, 2.0]))

    def forward(self, x: Any) -> Any:
        """There."""
        return x + self.shift, torch.zeros_like(x[:, 0])

    def inverse(self, z: Any) -> Any:
        """Back."""
        return z - self.shift, torch.zeros_like(z[:, 0])

    def _load_from_state_dict(self, state: Any, prefix: str, versions: Any, *rest: Any) -> None:
        if versions.get("version", 1) < 2:
            state[prefix + "shift"] = -state.pop(prefix + "offset")
        super()._load_from_state_dict(state, prefix, versions, *rest)


@pytest.mark.parametrize("law", ["same/saved[reload]", "same/saved[restore]"])
def test_versions_are_kept(law: str) -> None:
    """Without them a module takes the state for an old one."""
    assert check(Versioned(), law, Settings("quick")).status is Status.HOLDS
