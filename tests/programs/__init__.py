"""Programs written once for every framework, and what a recording of each says, by the section of the docs."""

from programs import bindings, calls, containers, dtypes, operators, outputs, passages, selections, statuses

SECTIONS = (bindings, calls, containers, passages, statuses, outputs, selections, operators, dtypes)
PROGRAMS = [program for section in SECTIONS for program in section.program.programs]
