"""Auditing: the selection of pairs of target and law, their execution, and the stored results."""

from flowref.auditing.front import audit, check_flow
from flowref.auditing.options import AuditListener, Options

__all__ = ["AuditListener", "Options", "audit", "check_flow"]
