"""Programs from public threads about gradients: the address, what the thread's answer was, and what backprobe must say.

Each program is written anew, as small as its mechanism allows. It takes ``probe`` and opens a block with it, so that
it runs without backprobe as well; or it is a function of its arguments, where a framework has no blocks. A comment
``# <- here`` marks the lines that the verdict must name, those and no other. In the notes on errors the words in its
place are those of the note: ``# <- made saved``.
"""

import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path

MARK = re.compile(r"# <- (?P<words>(?:(?!for )\S+ ?)+)(?:for (?P<name>\w+))?$")
WORDS = ("made", "saved", "written", "survived", "used", "freed", "at:")
"""What marks the lines that the notes on errors name."""


@dataclass(frozen=True)
class Thread:
    """One program; ``title`` and ``answer`` are in our own words.

    ``form`` is how it is asked: ``missing`` explains the gradient ``asked`` for, or all of them; ``nonfinite`` where
    NaN and Inf were born; ``error`` reads the note on what the program raises. ``kinds`` are those of the findings.
    ``says`` are parts of what is said that hold the reason, and ``lacks`` is what backprobe does not find.
    """

    program: object
    form: str
    address: str
    title: str
    answer: str
    asked: str = ""
    kinds: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    args: tuple = field(default=(), compare=False)
    lacks: str = ""

    @property
    def name(self):
        return self.program.__name__

    @property
    def file(self):
        return Path(inspect.getsourcefile(self.program)).name

    def lines(self, word="here"):
        """The numbers of the lines that are marked with a word; a helper's are marked ``for`` the program's name."""
        source, first = inspect.getsourcelines(self.program)
        last = first + len(source)
        text = Path(inspect.getsourcefile(self.program)).read_text().splitlines()
        marks = ((at, MARK.search(line)) for at, line in enumerate(text, 1))
        return [
            at
            for at, found in marks
            if found
            and word in found["words"].split()
            and (found["name"] or self.name) == self.name
            and (found["name"] or first <= at < last)
        ]

    def marked(self, words):
        """The marked lines for those words, and for all that have a mark."""
        marks = {word: self.lines(word) for word in (*WORDS, "here")}
        return {word: lines for word, lines in marks.items() if lines or word in words}


def thread(form, threads):
    """A decorator that keeps the program with what is known about its thread."""

    def about(address, title, answer, *kinds, asked="", says=(), args=(), lacks=""):
        def add(program):
            threads.append(Thread(program, form, address, title, answer, asked, kinds, tuple(says), tuple(args), lacks))
            return program

        return add

    return about
