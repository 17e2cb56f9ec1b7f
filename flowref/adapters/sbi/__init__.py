"""The adapter of sbi."""
