"""How long a movement takes: the fastest legal chain of calls between two memories, or one call, with an interval."""

from aicore_sim.estimate.answer import Alternative, Estimate
from aicore_sim.estimate.move import estimate
from aicore_sim.estimate.one_call import estimate_call
from aicore_sim.estimate.request import Request

__all__ = ["Alternative", "Estimate", "Request", "estimate", "estimate_call"]
