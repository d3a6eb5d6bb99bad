"""What is asked of models of PyTorch whose modules have several paths."""

from several_paths import unprinted_of


def ask_paths(ask, model, step, wanted):
    """Each path, written down from how the library is used, is the one printed of its module or parameter, and listed.

    ``step`` runs the model forward and backward.
    """
    wrong = unprinted_of(model, step, wanted)
    for path in wanted:
        ask.that(path not in wrong, f"{path} is not printed, but {wrong.get(path)}")
