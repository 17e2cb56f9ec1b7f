"""Intervals with rounding bounds, their operators, and what they show on boxes."""
