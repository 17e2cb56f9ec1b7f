"""Where a softmax saturates, autograd's Jacobian has lost the determinant: it accuses nobody, and what
is wrong elsewhere is seen all the same.
"""

from __future__ import annotations

import numpy as np
import pytest

from flowref.checking import Settings, pair_verdict
from flowref.checking.judgement import VIOLATED
from flowref.checking.measurement import DOUBLE, Measurement, measure
from flowref.checking.tolerance import judge
from flowref.loading import load
from flowref.model import Batch, Condition, Status
from flowref.registry import find_law, parse_target

LAW = "map/log-det"
PARTS = "flowref_zoo.specimens.styles.transform_simplex:transform_simplex"


@pytest.mark.parametrize("point", [(140.0, 170.0, -440.0), (30.0, 70.0, -50.0), (0.0, 400.0, 1.0)])
def test_a_saturated_point_accuses_nobody(point: tuple[float, ...]) -> None:
    """The second part rounds to one, of which autograd takes the difference to one."""
    subject = load(parse_target(PARTS))
    law, batch = find_law(LAW), Batch(np.array([point]), None, 0)
    residual = measure(law, subject, batch)
    measurement = Measurement(law, subject, batch, residual, DOUBLE, 0, Condition())
    assert VIOLATED not in list(judge(measurement, replicas=32).outcome)


def test_a_part_that_is_missing_is_seen() -> None:
    """The log-det lacks the logarithm of the last part."""
    verdict = pair_verdict(
        parse_target(f"{PARTS}?defect=last-part-missing"), LAW, Settings("quick")
    )
    assert verdict.status is Status.VIOLATED
