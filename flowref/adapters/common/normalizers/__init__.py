"""Layers that normalize, of any library: what calls of copies show of them, and what names say."""
