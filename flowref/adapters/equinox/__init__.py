"""Equinox: its batch norms, modules of one event whose state stands beside them."""
