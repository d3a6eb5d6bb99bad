# from: https://github.com/pytorch/pytorch/issues/2421
# ask: explain --nonfinite PROGRAM:loss_of w='[[0.0, 0.0], [3.0, 4.0]]'
# birth: healthy
def loss_of(w):
    lengths = w.norm(dim=1)
    return lengths.sum()
