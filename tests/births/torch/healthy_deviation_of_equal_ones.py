# from: https://github.com/pytorch/pytorch/issues/4320
# ask: explain --nonfinite PROGRAM:loss_of x='[1.0, 1.0, 1.0]'
# birth: healthy
def loss_of(x):
    spread = x.std()
    return spread + x.square().sum()
