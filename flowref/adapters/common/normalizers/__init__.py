"""Normalization layers of any library, recognized by calls of copies and by names."""
