"""Programs that write through views more than anything else, which a draw of all statements alike rarely does."""

from collections.abc import Callable

from random_programs.expressions import INDEXES
from random_programs.statements import HEADER, Statements, block


def generate_views(below: Callable[[int], int]) -> str:
    main = Views(below)
    for kind, name in [((3, True), "x"), ((3, False), "z")]:
        main.add(kind, name)
    body = main.statements(4 + below(6))
    return "\n\n".join([HEADER, block("def f(x, z)", [*body, f"return {main.output()}"])]) + "\n"


class Views(Statements):
    """Draws views that are written, and what is written and read before and after."""

    def statements(self, count: int) -> list[str]:
        body: list[str] = []
        while len(body) < count:
            choices = [self.written_view, self.written_view, self.assignment, self.view, self.write, self.alias]
            if self.depth < 1:
                choices += [self.repeat, self.branch]
            body += self.pick(choices)() or self.assignment()
        return body

    def written_view(self) -> list[str]:
        """A view, at times of what has no name, with or without a reader, and then a write through it."""
        whole, part = self.pick([(3, 2), (3, 2), (3, 3), (2, 2), (3, 0), (2, 0)])
        owners = self.known(whole, False)
        owner = self.pick(owners) if owners and not self.chance(12) else self.fresh(whole, 1)
        value = f"{owner}[{self.pick(INDEXES[whole, part])}]"
        target = self.target((part, False))
        reader = self.assignment() if self.chance(2) else []
        write = self.written(target, part) if self.chance(2) else f"{target} {self.change(part)}"
        return [f"{target} = {value}", *reader, write]
