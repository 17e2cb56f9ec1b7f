"""Defects to be caught, and their healthy twins: what flowref itself is tested with."""
