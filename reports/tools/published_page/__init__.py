"""What `reports/published.md` consists of."""
