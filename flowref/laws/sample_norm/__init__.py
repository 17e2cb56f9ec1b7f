"""Laws of what normalizes each sample by itself: instance, group and layer normalization."""
