"""How the cost of an audit grows: what is measured, by whom, and how it is drawn."""
