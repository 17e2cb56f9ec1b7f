"""What the four founding documents say, as subjects; the true and the wrong."""
