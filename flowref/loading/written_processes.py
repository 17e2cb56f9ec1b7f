"""Calls of noise processes as text, for the programs that reproduce a violation."""

from __future__ import annotations

from flowref.adapters.user.processes.process_code import process_code

__all__ = ["process_code"]
