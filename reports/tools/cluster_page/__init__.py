"""How the page on clusters is measured, drawn and told."""
