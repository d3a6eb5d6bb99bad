# from: own
# ask: check PROGRAM:f x=1.0 --backend jax
# exit: 1
# says: f: 1 derivative is wrong \(3 calls checked
# says: with respect to its input `u` is wrong \(relative error 3233%\)
# says: it is 33.3333 times what it should be
# never: written by hand
# The transpose of a multiplication by 3 multiplies by 3.
from jax.custom_derivatives import linear_call


def f(x):
    u = x * 2
    y = linear_call(lambda r, v: v * 3, lambda r, c: c * 100, (), u)  # <- here
    return y * y
