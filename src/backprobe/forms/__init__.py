"""The forms of a program that a probe runs: a function, a model, a notebook cell."""
