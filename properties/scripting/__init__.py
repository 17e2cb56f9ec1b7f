"""Programs that stand without flowref: how they are written, and that they show what they should."""
