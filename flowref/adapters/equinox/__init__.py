"""Equinox: batch norms of single events with external state."""
