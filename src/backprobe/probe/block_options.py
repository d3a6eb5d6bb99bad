"""The options of ``probe`` that a block does not accept, and the code to write instead."""

from __future__ import annotations

from backprobe.errors import BadOption
from backprobe.probe.request import Request, typed_as
from backprobe.record.brief import kind


def refuse_options_of_block(probe: Request, is_run_backward: bool, takes_partials: bool = False) -> None:
    """Raise BadOption for an option that a block does not accept, because its code runs as written (in PyTorch
    including backward), and for an ``of`` that is not a name.
    """
    options = probe.options
    target = "" if probe.target is None else typed_as(probe.target) + ", "
    taken = {
        "strategy": (options.strategy != "edges", f"with bp.probe({target[:-2]}) as rec:"),
        "partials": (
            bool(options.partials) and not takes_partials,
            "rec = bp.probe(f, partials=True)(x), with the block in a function f",
        ),
        "wrt": (probe.wrt is not None, "rec = bp.probe(f, wrt=...)(x), with the block in a function f"),
    }
    why = "the program runs as it is written; the block only observes it"
    if not is_run_backward:
        why = "the program runs forward and backward itself; the block only observes it"
        taken |= {
            "of": (probe.of is not None, "loss.backward() in the block says of what"),
            "wrt": (probe.wrt is not None, "x.requires_grad_() before the block"),
            "cotangent": (probe.cotangent is not None, "y.backward(cotangent) in the block"),
        }
    taken["session"] = (probe.session is not None, "rec = bp.probe(tensor, session=session)(feed_dict)")
    for option, (is_given, instead) in taken.items():
        if is_given:
            raise BadOption(
                f"{option} is not available in blocks",
                asked=f"with bp.probe({target}{option}=...)",
                why=why,
                next=instead,
            )
    for one in probe.asked:
        if not (one.of is None or isinstance(one.of, str)):
            raise BadOption(
                "of is the name of a variable in a block",
                asked=f"with bp.probe({target}of={probe.of!r})",
                found=kind(one.of),
                why="a block returns nothing: it leaves variables behind",
                next='of="loss", with loss = ... in the block',
            )
