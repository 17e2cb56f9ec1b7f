"""Mutants of sample norm."""
