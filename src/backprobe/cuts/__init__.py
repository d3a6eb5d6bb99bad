"""Cuts: the source uses a value, and the graph has no edge from it."""
