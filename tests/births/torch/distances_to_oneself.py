# from: https://github.com/pytorch/pytorch/issues/2421
# ask: explain --nonfinite PROGRAM:loss_of points='[[0.0, 1.0], [2.0, 3.0], [1.0, 1.0]]'
# birth: backward
# name: squares
# operands: 0.0
def loss_of(points):
    gaps = points[:, None] - points[None]
    squares = gaps.square().sum(-1)
    distances = squares.sqrt()  # <- here
    return (1 / (1 + distances)).sum()
