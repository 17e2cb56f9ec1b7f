"""Images: squeezes, levels and preprocessing."""
