"""What nflows and the copies of it that other libraries bundle share; classes are known by name."""
