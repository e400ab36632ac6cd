"""Hazards of a run: races, stale caches, undefined reads, broken synchronisation."""
