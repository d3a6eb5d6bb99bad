"""Every program of the suite, by the files that have them."""

from passes import learning, machinery, plain, science, second_order, transforms

FILES = (plain, second_order, science, learning, machinery, transforms)
PROGRAMS = [one for file in FILES for one in file.program.programs]
