"""FlowJAX: bijections of single events, and distributions, on equinox."""
