"""Defects to be caught and their healthy twins; found by walking this package."""
