"""What can be known of the structure of a map."""
