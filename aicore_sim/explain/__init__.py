"""One call of a movement API, performed on its own, and where every element of it lands."""

from aicore_sim.explain.element_map import FILL, UNDEFINED, UNTOUCHED, ElementMap, Side, explain
from aicore_sim.explain.forms import known_structs

__all__ = ["FILL", "UNDEFINED", "UNTOUCHED", "ElementMap", "Side", "explain", "known_structs"]
