"""Formats of a report for other programs, one module each: functions from a report to text."""
