"""The scorecard: its page, its plots, and how a browser shows it."""
