"""Reports: a value, its JSON, and the formats made from it."""

from flowref.reporting.contents import Environment, LawNote, Omitted, Problem
from flowref.reporting.report import FlowrefViolation, Report

__all__ = ["Environment", "FlowrefViolation", "LawNote", "Omitted", "Problem", "Report"]
