"""Projects of others, in which the plugin runs."""
