"""The pages of the tutorial, run as they are read."""
