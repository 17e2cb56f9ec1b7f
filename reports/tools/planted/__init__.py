"""Mutations planted in flowref's own code, all in one tree, each behind a number."""
