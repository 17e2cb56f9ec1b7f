"""Intervals with bounds of rounding, what each operator makes of them, and what is shown with them on boxes."""
