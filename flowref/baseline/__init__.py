"""Known failures: their files, their matching with an audit, and their status."""
