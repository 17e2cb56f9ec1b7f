"""Reports: a value, its JSON, and the formats made from it."""

from flowref.model import Problem
from flowref.reporting.contents import Environment, LawNote, Omitted
from flowref.reporting.report import FlowrefViolation, Report

__all__ = ["Environment", "FlowrefViolation", "LawNote", "Omitted", "Problem", "Report"]
