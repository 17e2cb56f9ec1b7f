"""What a library tells under a usual name and says to be something else is not held to that name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from flowref import checking
from flowref.model import Status

students: Any = pytest.importorskip("pyro.distributions").MultivariateStudentT


class Stating(students):  # type: ignore[misc]  # a class of a library without types
    """One that tells a covariance of its own, a wrong one."""

    @property
    def covariance_matrix(self) -> torch.Tensor:
        """Not what the variance says."""
        return torch.eye(2)


@pytest.mark.parametrize(("kind", "status"), [(students, "HOLDS"), (Stating, "VIOLATED")])
def test_a_matrix_that_is_no_covariance_by_its_note_is_none(kind: Any, status: str) -> None:
    """Pyro's note excuses its own matrix, and no matrix of a class that tells another."""
    scale = torch.tensor([[1.0, 0.0], [0.5, 2.0]])
    obj = kind(torch.tensor(5.0), torch.zeros(2), scale)
    assert checking.pair_verdict(obj, "density/stated[deviation]").status is Status[status]
