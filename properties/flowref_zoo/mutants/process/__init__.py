"""Mutants of processes that take data to noise."""
