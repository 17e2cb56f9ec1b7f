"""FlowJAX: bijections of one event each, and distributions, on equinox."""
