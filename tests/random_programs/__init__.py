"""Random programs and what their gradients are: a generator, and an oracle that shares no code with what it judges.

A program is the text of a module whose function ``f`` is probed. The interpreter runs the same text in NumPy, keeps
account of names, objects, memory and versions by the definition of what a name's gradient is, and can add a small
number to any one of the bound values. Central differences of its output are what the recorded gradients have to be.

A second oracle, of local partials, holds every named value but one still.

``python tests/random_programs 20000 [SEED] [WHAT]`` runs that many programs.
"""
