"""What laws of several families share."""
