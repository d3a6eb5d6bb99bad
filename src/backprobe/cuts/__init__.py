"""Finds cuts: places where the source uses a value, but the graph has no edge from that value."""
