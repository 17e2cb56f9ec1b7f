"""Auditing: which pairs of target and law to check, where each one runs, and what is kept of it."""

from flowref.auditing.front import audit, check_flow
from flowref.auditing.options import AuditListener, Options

__all__ = ["AuditListener", "Options", "audit", "check_flow"]
