"""Flows as users write them, each with named defects."""
