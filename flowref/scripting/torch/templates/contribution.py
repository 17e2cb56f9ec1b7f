"""Stochastic and surjective layers: their likelihood contributions."""

from __future__ import annotations

from flowref.scripting.template import Template

MASS = """
torch.manual_seed(1)
latents, proposal = torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(0.0, 1.5)
x = proposal.sample((100000, $sizes))
with torch.no_grad():
    z, contribution = push(x)
log_q = latents.log_prob(z).flatten(1).sum(1)$orders
log_r = proposal.log_prob(x).flatten(1).sum(1)
weights = (log_q + contribution.reshape(-1) - log_r).exp()
mass, error = weights.mean().item(), weights.std().item() / len(weights) ** 0.5
# The law: the mean of e^V q(z) is a density of x for any density q of z: its mass is 1.
print("mass:", mass, " standard error:", error)
wrong = abs(mass - 1) > max(0.01, 5 * error)
"""

TEMPLATES = {"density/mass[contribution]": (Template(MASS, which="push"),)}
