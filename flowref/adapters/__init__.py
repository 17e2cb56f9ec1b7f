"""One folder per audited library, found by walking this package; common/ is what several share."""
