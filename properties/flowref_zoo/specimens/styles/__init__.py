"""Flows in the styles that people write them in, one a file, each with named defects."""
