"""What `test_claims` stands on: cases that are drawn, bounds of rounding, and defects to reject."""
