"""Auditing: which pairs of target and law to check, where each one runs, and what is kept of it."""

from flowref.auditing.running import Listener, Options, audit, check_flow

__all__ = ["Listener", "Options", "audit", "check_flow"]
