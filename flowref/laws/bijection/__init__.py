"""Maps, their inverses and their log-dets."""
