"""Programs that change a list or dict of tensors after it has a name, and what ``explain`` says of their arguments.

Each is given ``ops``, the functions of a framework, and returns a function of ``x, w, v``. ``v`` is cut off by
``stop_gradient``; ``SAID`` has the kinds of what is found for ``w`` and for ``v``: none where it has its gradient.
"""


def appended(ops):
    def f(x, w, v):
        parts = [w * 1]
        parts.append(ops.stop_gradient(v))
        return ops.sum(ops.stack(parts) * x)

    return f


def appended_and_looped_over(ops):
    def f(x, w, v):
        parts = [w * 1]
        parts.append(ops.stop_gradient(v) * 2)
        total = 0.0
        for part in parts:
            total = total + ops.sum(part * x)
        return total

    return f


def inserted(ops):
    def f(x, w, v):
        parts = [w * 1]
        parts.insert(0, ops.stop_gradient(v) * 2)
        return ops.sum(parts[0] * x)

    return f


def popped(ops):
    def f(x, w, v):
        parts = [w * 1, ops.stop_gradient(v) * 2]
        parts.pop(0)
        return ops.sum(parts[0] * x)

    return f


def deleted(ops):
    def f(x, w, v):
        parts = [w * 1, ops.stop_gradient(v) * 2]
        del parts[0]
        return ops.sum(parts[0] * x)

    return f


def reversed_in_place(ops):
    def f(x, w, v):
        parts = [w * 1, ops.stop_gradient(v) * 2]
        parts.reverse()
        return ops.sum(parts[0] * x)

    return f


def sorted_in_place(ops):
    def f(x, w, v):
        parts = [w * 1, ops.stop_gradient(v) * 2]
        parts.sort(key=id, reverse=id(parts[0]) < id(parts[1]))
        return ops.sum(parts[0] * x)

    return f


def put_in_by_slice(ops):
    def f(x, w, v):
        parts = [w * 1]
        parts[0:0] = [ops.stop_gradient(v)]
        return ops.sum(parts[0] * x)

    return f


def item_replaced(ops):
    def f(x, w, v):
        parts = [w * 1, w * 2]
        parts[0] = ops.stop_gradient(v) * 2
        return ops.sum(parts[0] * x)

    return f


def value_replaced(ops):
    def f(x, w, v):
        parts = {"a": w * 1}
        parts["a"] = ops.stop_gradient(v) * 2
        return ops.sum(parts["a"] * x)

    return f


def updated(ops):
    def f(x, w, v):
        parts = {"a": w * 1}
        parts.update(a=ops.stop_gradient(v) * 2)
        return ops.sum(parts["a"] * x)

    return f


def inside_of_another(ops):
    def f(x, w, v):
        parts = {"a": [w * 1], "b": (x * 1,)}
        parts["a"].insert(0, ops.stop_gradient(v) * 2)
        return ops.sum(parts["a"][0] * parts["b"][0])

    return f


def changed_by_another_name(ops):
    def f(x, w, v):
        parts = [w * 1]
        same = parts
        same.insert(0, ops.stop_gradient(v) * 2)
        return ops.sum(parts[0] * x)

    return f


def changed_in_a_function(ops):
    def put(into, item):
        into.insert(0, item)

    def f(x, w, v):
        parts = [w * 1]
        put(parts, ops.stop_gradient(v) * 2)
        return ops.sum(parts[0] * x)

    return f


def reversed_and_used(ops):
    def f(x, w, v):
        parts = [v * 2, w * 1]
        parts.reverse()
        return ops.sum(ops.stop_gradient(parts[1]) * parts[0])

    return f


CUT, UNUSED = ["stop_gradient"], ["unused"]
SAID = {
    appended: ([], CUT),
    appended_and_looped_over: ([], CUT),
    reversed_and_used: ([], CUT),
    **dict.fromkeys(
        [
            inserted,
            popped,
            deleted,
            reversed_in_place,
            sorted_in_place,
            put_in_by_slice,
            item_replaced,
            value_replaced,
            updated,
            inside_of_another,
            changed_by_another_name,
            changed_in_a_function,
        ],
        (UNUSED, CUT),
    ),
}
