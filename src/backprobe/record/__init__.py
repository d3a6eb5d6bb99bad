"""The recording as plain data: entries, their names, and the graph that they make."""
