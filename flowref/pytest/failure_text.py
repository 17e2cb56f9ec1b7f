"""A group of violations as printed by a failed test: the line of the test that checked and the
violations, without flowref's frames and the frame of an exception group.
"""

from __future__ import annotations

from typing import Any

import pytest


def longrepr(item: pytest.Item, caught: pytest.ExceptionInfo[BaseException]) -> Any:
    """Return pytest's representation of a single exception with the text of the group."""
    from flowref.reporting.violation_errors import FlowrefViolation, FlowrefViolations

    group = caught.value
    assert isinstance(group, FlowrefViolations)
    alone = FlowrefViolation(group.text).with_traceback(group.__traceback__)
    alone.__cause__, alone.__suppress_context__ = group.__cause__, True
    return item.repr_failure(pytest.ExceptionInfo.from_exception(alone))
