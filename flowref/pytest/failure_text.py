"""How a group of violations is printed in a failed test: the line of the test that was checking, and
the violations below it, without the code of flowref and without the frame of a group.
"""

from __future__ import annotations

from typing import Any

import pytest


def longrepr(item: pytest.Item, caught: pytest.ExceptionInfo[BaseException]) -> Any:
    """What pytest prints for a single exception that says everything the group says."""
    from flowref.reporting.violation_errors import FlowrefViolation, FlowrefViolations

    group = caught.value
    assert isinstance(group, FlowrefViolations)
    alone = FlowrefViolation(group.text).with_traceback(group.__traceback__)
    alone.__cause__, alone.__suppress_context__ = group.__cause__, True
    return item.repr_failure(pytest.ExceptionInfo.from_exception(alone))
