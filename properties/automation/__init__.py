"""The files by which other programs run flowref: workflows, the action, the hook."""
