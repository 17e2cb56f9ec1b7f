"""Reports: a value, its JSON, and the formats made from it."""

from flowref.reporting.report import Environment, FlowrefViolation, LawNote, Problem, Report

__all__ = ["Environment", "FlowrefViolation", "LawNote", "Problem", "Report"]
