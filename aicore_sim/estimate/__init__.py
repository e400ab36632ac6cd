"""How long a movement takes: the fastest legal chain of calls between two memories, or one call, with an interval."""

from aicore_sim.estimate.move import Alternative, Estimate, estimate
from aicore_sim.estimate.one_call import estimate_call
from aicore_sim.estimate.request import Request

__all__ = ["Alternative", "Estimate", "Request", "estimate", "estimate_call"]
