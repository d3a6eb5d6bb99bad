"""Healthy trainings in JAX, of which nothing is useless: bodies of programs, below what they share."""

HEAD = """\
import jax
import jax.numpy as jnp
import optax

k = jax.random.split(jax.random.key(0), 12)
N = jax.random.normal


def keys(i):
    return jax.random.split(jax.random.key(100 + i), 6)


def layers(key, *sizes):
    own = jax.random.split(key, len(sizes))
    return [{"w": N(one, (a, b)) / a**0.5, "b": jnp.zeros(b)} for one, a, b in zip(own, sizes, sizes[1:])]


def run(made, x):
    for one in made[:-1]:
        x = jax.nn.relu(x @ one["w"] + one["b"])
    return x @ made[-1]["w"] + made[-1]["b"]


def numbers(i):
    a, b, *_ = keys(i)
    x = N(a, (16, 4))
    return x, x.sum(-1, keepdims=True) + N(b, (16, 1))


def classes(i):
    a, b, *_ = keys(i)
    return N(a, (16, 4)), jax.random.randint(b, (16,), 0, 3)


def train(f, p, batch):
    tx = optax.adam(1e-2)
    state = tx.init(p)

    @jax.jit
    def step(p, state, *given):
        g = jax.grad(f)(p, *given)
        updates, state = tx.update(g, state, p)
        return optax.apply_updates(p, updates), state

    for i in range(4):
        p, state = step(p, state, *batch(i))


"""

HEALTHY = {
    "mlp ce": """
        train(lambda p, x, y: optax.softmax_cross_entropy_with_integer_labels(run(p, x), y).mean(),
            layers(k[0], 4, 8, 3), classes)
        """,
    "zero init head": """
        p = layers(k[0], 4, 8, 3); p[-1]['w'] = jnp.zeros((8, 3))
        train(lambda p, x, y: optax.softmax_cross_entropy_with_integer_labels(run(p, x), y).mean(), p,
            classes)
        """,
    "zero init all probs": """
        p = layers(k[0], 4, 8, 3); p[-1]['w'] = jnp.zeros((8, 3))
        def f(p, x, y):
            q = jnp.clip(jax.nn.softmax(run(p, x)), 1e-6, 1.0)
            return -jnp.mean(jnp.log(q[jnp.arange(16), y]))
        train(f, p, classes)
        """,
    "lora": """
        p = {'a': N(k[0], (4, 2)), 'b': jnp.zeros((2, 1))}
        W = N(k[1], (4, 1))
        train(lambda p, x, y: jnp.mean((x @ W + x @ p['a'] @ p['b'] - y) ** 2), p, numbers)
        """,
    "rezero": """
        p = {'m': layers(k[0], 4, 8, 4), 'alpha': jnp.zeros(()), 'h': layers(k[1], 4, 1)}
        train(lambda p, x, y: jnp.mean((run(p['h'], x + p['alpha'] * run(p['m'], x)) - y) ** 2), p, numbers)
        """,
    "dead units": """
        p = layers(k[0], 4, 8, 1); p[0]['b'] = p[0]['b'].at[:5].set(-100.)
        train(lambda p, x, y: jnp.mean((run(p, x) - y) ** 2), p, numbers)
        """,
    "dropout": """
        def f(p, x, y, key):
            h = jax.nn.relu(x @ p[0]['w'] + p[0]['b'])
            m = jax.random.bernoulli(key, 0.5, h.shape)
            h = jnp.where(m, h / 0.5, 0)
            return jnp.mean((h @ p[1]['w'] + p[1]['b'] - y) ** 2)
        train(f, layers(k[0], 4, 8, 1), lambda i: (*numbers(i), keys(i)[3]))
        """,
    "target net": """
        t = layers(k[1], 4, 8, 3)
        def f(p, x, a):
            q = run(p, x)[jnp.arange(16), a]
            tgt = jax.lax.stop_gradient(1.0 + 0.9 * run(t, x).max(-1))
            return jnp.mean((q - tgt) ** 2)
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "kernel mean": """
        x0 = N(k[1], (16,))
        def f(p, x, y):
            z = x @ p['w']
            d = z[:, None] - z[None, :]
            return jnp.exp(-d ** 2 / p['s'] ** 2).mean()
        train(f, {'w': N(k[0], (4,)), 's': jnp.ones(())}, numbers)
        """,
    "kernel T": """
        def f(p, x, y):
            z = x @ p['w']
            d = z - z.T
            return jnp.exp(-d ** 2).mean()
        train(f, {'w': N(k[0], (4, 1))}, numbers)
        """,
    "kernel vmap": """
        def kern(a, b, s): return jnp.exp(-(a - b) ** 2 / s)
        def f(p, x, y):
            z = x @ p['w']
            K = jax.vmap(lambda a: jax.vmap(lambda b: kern(a, b, p['s']))(z))(z)
            return K.mean()
        train(f, {'w': N(k[0], (4,)), 's': jnp.ones(())}, numbers)
        """,
    "rbf vmap centers": """
        c = jnp.linspace(-1, 1, 16)
        def f(p, x, y):
            z = x @ p['w']
            phi = jax.vmap(lambda a: jnp.exp(-(a - c) ** 2))(z)
            return (phi * 0.1).sum()
        train(f, {'w': N(k[0], (4, 1))}, numbers)
        """,
    "pairwise dist": """
        def f(p, x, y):
            z = x @ p['w']
            d = ((z[:, None, :] - z[None]) ** 2).sum(-1)
            return jnp.log1p(d).mean()
        train(f, {'w': N(k[0], (4, 2))}, numbers)
        """,
    "expand dims asked": """
        def f(p, x, y):
            z = x @ p['w']
            return jnp.abs(jnp.expand_dims(z, 1) - y[:, 0]).mean()
        train(f, {'w': N(k[0], (4,))}, numbers)
        """,
    "keepdims asked": """
        def f(p, x, y):
            z = x @ p['w']
            m = z.mean(-1, keepdims=True)
            return jnp.abs(m - y[:, 0]).mean()
        train(f, {'w': N(k[0], (4, 8))}, numbers)
        """,
    "bias row": """
        def f(p, x, y):
            z = x @ p['w']
            return jnp.abs(z + p['b']).mean()
        train(f, {'w': N(k[0], (4, 1)), 'b': jnp.ones(8)}, numbers)
        """,
    "scan rnn": """
        def f(p, x, y):
            def cell(h, t):
                h = jnp.tanh(h @ p['u'] + t[:, None] * p['v'])
                return h, None
            h, _ = jax.lax.scan(cell, jnp.zeros((16, 8)), x.T)
            return jnp.mean((h @ p['o'] - y) ** 2)
        train(f, {'u': N(k[0], (8, 8)) * .3, 'v': N(k[1], (8,)), 'o': N(k[2], (8, 1))}, numbers)
        """,
    "vmap mlp": """
        def f(p, x, y):
            pred = jax.vmap(lambda a: run(p, a))(x)
            return jnp.mean((pred - y) ** 2)
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "remat": """
        def f(p, x, y):
            h = jax.checkpoint(lambda q, a: jax.nn.gelu(a @ q['w'] + q['b']))(p[0], x)
            return jnp.mean((h @ p[1]['w'] + p[1]['b'] - y) ** 2)
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "bf16": """
        p = jax.tree.map(lambda a: a.astype(jnp.bfloat16), layers(k[0], 4, 8, 3))
        train(lambda p, x, y: optax.softmax_cross_entropy_with_integer_labels(run(p,
            x.astype(jnp.bfloat16)), y).mean(), p, classes)
        """,
    "x64": """
        jax.config.update('jax_enable_x64', True)
        train(lambda p, x, y: optax.softmax_cross_entropy_with_integer_labels(run(p, x), y).mean(),
            layers(k[0], 4, 8, 3), classes)
        """,
    "attention": """
        def f(p, x, y):
            h = x[..., None] * p['e']
            q, kk, v = h @ p['q'], h @ p['k'], h @ p['v']
            a = jax.nn.softmax(q @ kk.swapaxes(-1, -2) / 8 ** .5)
            o = (a @ v).mean(1) @ p['o']
            return optax.softmax_cross_entropy_with_integer_labels(o, y).mean()
        train(f, {'e': N(k[5], (8,)), 'q': N(k[0], (8, 8)), 'k': N(k[1], (8, 8)), 'v': N(k[2], (8, 8)),
            'o': N(k[3], (8, 3))}, classes)
        """,
    "attention two": """
        def att(q, kk, v): return jax.nn.softmax(q @ kk.T / 2) @ v
        def f(p, x, y):
            h = att(x @ p['q'], x @ p['k'], x @ p['v'])
            h = att(h @ p['q'], h @ p['k'], h @ p['v'])
            return jnp.mean((h @ p['o'] - y) ** 2)
        train(f, {'q': N(k[0], (4, 4)), 'k': N(k[1], (4, 4)), 'v': N(k[2], (4, 4)), 'o': N(k[3], (4, 1))},
            numbers)
        """,
    "infonce": """
        def f(p, x, y):
            a, b = x @ p['a'], (x + .1) @ p['b']
            a, b = (z / jnp.linalg.norm(z, axis=-1, keepdims=True) for z in (a, b))
            s = a @ b.T / .1
            t = jnp.arange(16)
            return (optax.softmax_cross_entropy_with_integer_labels(s,
                t) + optax.softmax_cross_entropy_with_integer_labels(s.T, t)).mean()
        train(f, {'a': N(k[0], (4, 8)), 'b': N(k[1], (4, 8))}, numbers)
        """,
    "distill": """
        t = layers(k[1], 4, 8, 3)
        def f(p, x, y):
            q = jax.nn.softmax(run(t, x) / 2)
            return optax.softmax_cross_entropy(run(p, x) / 2, q).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "gumbel": """
        def f(p, x, y, key):
            g = jax.random.gumbel(key, (16, 3))
            z = jax.nn.softmax((run(p['e'], x) + g) / .5)
            return jnp.mean((run(p['d'], z) - x) ** 2)
        train(f, {'e': layers(k[0], 4, 8, 3), 'd': layers(k[1], 3, 8, 4)}, lambda i: (*classes(i),
            keys(i)[3]))
        """,
    "straight through": """
        def f(p, x, y):
            z = jax.nn.softmax(run(p['e'], x))
            hard = jax.nn.one_hot(z.argmax(-1), 3)
            z = z + jax.lax.stop_gradient(hard - z)
            return jnp.mean((run(p['d'], z) - x) ** 2)
        train(f, {'e': layers(k[0], 4, 8, 3), 'd': layers(k[1], 3, 8, 4)}, classes)
        """,
    "sinkhorn": """
        def f(p, x, y):
            s = (x @ p['a']) @ (x @ p['b']).T
            for _ in range(4):
                s = jax.nn.log_softmax(s, axis=0)
                s = jax.nn.log_softmax(s, axis=1)
            return -(jnp.diag(s)).mean()
        train(f, {'a': N(k[0], (4, 8)), 'b': N(k[1], (4, 8))}, numbers)
        """,
    "kl two": """
        def f(p, x, y):
            lp, lq = jax.nn.log_softmax(run(p['a'], x)), jax.nn.log_softmax(run(p['b'], x))
            return (jnp.exp(lp) * (lp
                - lq)).sum(-1).mean() + optax.softmax_cross_entropy_with_integer_labels(lp, y).mean()
        train(f, {'a': layers(k[0], 4, 8, 3), 'b': layers(k[1], 4, 8, 3)}, classes)
        """,
    "mdn": """
        def f(p, x, y):
            o = run(p, x)
            lw, mu, ls = jnp.split(o, 3, -1)
            lw = jax.nn.log_softmax(lw)
            lp = -0.5 * ((y - mu) / jnp.exp(ls)) ** 2 - ls
            return -jax.nn.logsumexp(lw + lp, axis=-1).mean()
        train(f, layers(k[0], 4, 8, 9), numbers)
        """,
    "moe": """
        def f(p, x, y):
            w = jax.nn.softmax(x @ p['g'])
            o = jnp.stack([run(e, x) for e in p['e']], 1)
            return jnp.mean(((w[..., None] * o).sum(1) - y) ** 2)
        train(f, {'g': N(k[0], (4, 3)), 'e': [layers(kk, 4, 8, 1) for kk in k[1:4]]}, numbers)
        """,
    "vae": """
        def f(p, x, y, key):
            mu, ls = jnp.split(run(p['e'], x), 2, -1)
            z = mu + jnp.exp(ls) * N(key, mu.shape)
            kl = 0.5 * (mu ** 2 + jnp.exp(2 * ls) - 2 * ls - 1).sum(-1)
            return (((run(p['d'], z) - x) ** 2).sum(-1) + kl).mean()
        train(f, {'e': layers(k[0], 4, 8, 4), 'd': layers(k[1], 2, 8, 4)}, lambda i: (*numbers(i),
            keys(i)[3]))
        """,
    "layernorm": """
        def ln(x, g, b): return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1,
            keepdims=True) + 1e-5) * g + b
        def f(p, x, y):
            return jnp.mean((run(p['h'], ln(x @ p['w'] + p['c'], p['g'], p['b'])) - y) ** 2)
        train(f, {'w': N(k[0], (4, 8)), 'c': jnp.zeros(8), 'g': jnp.ones(8), 'b': jnp.zeros(8),
            'h': layers(k[1], 8, 1)}, numbers)
        """,
    "batchnorm bias": """
        def bn(x): return (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5)
        def f(p, x, y):
            return jnp.mean((run(p['h'], bn(x @ p['w'] + p['c'])) - y) ** 2)
        train(f, {'w': N(k[0], (4, 8)), 'c': jnp.zeros(8), 'h': layers(k[1], 8, 1)}, numbers)
        """,
    "key bias": """
        def f(p, x, y):
            q, kk, v = x @ p['q'], x @ p['k'] + p['kb'], x @ p['v']
            h = jax.nn.softmax(q @ kk.T) @ v
            return jnp.mean((h @ p['o'] - y) ** 2)
        train(f, {'q': N(k[0], (4, 4)), 'k': N(k[1], (4, 4)), 'kb': jnp.ones(4), 'v': N(k[2], (4, 4)),
            'o': N(k[3], (4, 1))}, numbers)
        """,
    "softmax bias": """
        def f(p, x, y):
            w = jax.nn.softmax(x @ p['w'] + p['b'], axis=0)
            return jnp.mean(((w * y).sum(0) - 1) ** 2)
        train(f, {'w': N(k[0], (4, 1)), 'b': jnp.ones(())}, numbers)
        """,
    "contrast bias": """
        def f(p, x, y):
            s = x @ p['w'] + p['b']
            return jax.nn.softplus(-(s[:8] - s[8:])).mean()
        train(f, {'w': N(k[0], (4, 1)), 'b': jnp.ones(())}, numbers)
        """,
    "hinge": """
        def f(p, x, y):
            s = run(p, x)[:, 0]
            t = jnp.sign(y[:, 0])
            return jax.nn.relu(1 - t * s).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "prelu": """
        def f(p, x, y):
            h = jnp.abs(x) @ jnp.abs(p['w'])
            h = jnp.where(h > 0, h, p['a'] * h)
            return jnp.mean((h - y) ** 2)
        train(f, {'w': N(k[0], (4, 1)), 'a': jnp.array(.25)}, numbers)
        """,
    "embedding": """
        def f(p, x, y):
            e = p['e'][(x[:, 0] > 0).astype(int)]
            return jnp.mean((e @ p['w'] - y) ** 2)
        train(f, {'e': N(k[0], (50, 8)), 'w': N(k[1], (8, 1))}, numbers)
        """,
    "masked": """
        def f(p, x, y):
            m = (jnp.arange(16) < 10).astype(jnp.float32)
            l = (run(p, x)[:, 0] - y[:, 0]) ** 2
            return (l * m).sum() / m.sum()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "maml": """
        def inner(p, x, y): return jnp.mean((run(p, x) - y) ** 2)
        def f(p, x, y):
            g = jax.grad(inner)(p, x, y)
            q = jax.tree.map(lambda a, b: a - .1 * b, p, g)
            return inner(q, x, y)
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "pinn": """
        def u(p, t): return run(p, t[None])[0]
        def f(p, x, y):
            t = jnp.abs(x[:, 0])
            du = jax.vmap(jax.grad(u, 1), (None, 0))(p, t)
            return jnp.mean((du + jax.vmap(u, (None, 0))(p, t)) ** 2) + (u(p, jnp.zeros(())) - 1) ** 2
        q = layers(k[0], 1, 8, 1)
        def run(layers, x):
            for l in layers[:-1]: x = jnp.tanh(x @ l['w'] + l['b'])
            return x @ layers[-1]['w'] + layers[-1]['b']
        train(f, q, numbers)
        """,
    "gp": """
        def f(p, x, y):
            d = ((x[:, None] - x[None]) ** 2).sum(-1)
            K = jnp.exp(p['v']) * jnp.exp(-d / jnp.exp(p['l'])) + jnp.exp(p['n']) * jnp.eye(16)
            L = jnp.linalg.cholesky(K)
            a = jax.scipy.linalg.solve_triangular(L, y[:, 0], lower=True)
            return 0.5 * a @ a + jnp.log(jnp.diag(L)).sum()
        train(f, {'v': jnp.zeros(()), 'l': jnp.zeros(()), 'n': jnp.zeros(())}, numbers)
        """,
    "gan": """
        G, D = layers(k[0], 4, 8, 4), layers(k[1], 4, 8, 1)
        def d_loss(d, g, x): return (jax.nn.softplus(-run(d, x)) + jax.nn.softplus(run(d, run(g,
            x)))).mean()
        def g_loss(g, d, x): return jax.nn.softplus(-run(d, run(g, x))).mean()
        for i in range(4):
            x = numbers(i)[0]
            D = jax.tree.map(lambda a, b: a - .1 * b, D, jax.jit(jax.grad(d_loss))(D, G, x))
            G = jax.tree.map(lambda a, b: a - .1 * b, G, jax.jit(jax.grad(g_loss))(G, D, x))
        """,
    "gan zero d": """
        G, D = layers(k[0], 4, 8, 4), layers(k[1], 4, 8, 1)
        D[-1]['w'] = jnp.zeros((8, 1))
        def d_loss(d, g, x): return (jax.nn.softplus(-run(d, x)) + jax.nn.softplus(run(d, run(g,
            x)))).mean()
        def g_loss(g, d, x): return jax.nn.softplus(-run(d, run(g, x))).mean()
        for i in range(4):
            x = numbers(i)[0]
            D = jax.tree.map(lambda a, b: a - .1 * b, D, jax.jit(jax.grad(d_loss))(D, G, x))
            G = jax.tree.map(lambda a, b: a - .1 * b, G, jax.jit(jax.grad(g_loss))(G, D, x))
        """,
    "crf": """
        def f(p, x, y):
            e = x[:, :, None] @ p['w'][None]
            y = (x > 0).astype(int)
            score = jnp.take_along_axis(e, y[..., None], -1).sum((1, 2)) + p['t'][y[:, :-1], y[:,
                1:]].sum(1)
            a = e[:, 0]
            for t in range(1, 4): a = jax.nn.logsumexp(a[:, :, None] + p['t'], axis=1) + e[:, t]
            return (jax.nn.logsumexp(a, axis=-1) - score).mean()
        train(f, {'w': N(k[0], (1, 2)), 't': N(k[1], (2, 2))}, numbers)
        """,
    "spline sort": """
        def f(p, x, y):
            z = jnp.sort(x @ p['w'], axis=0)
            q = jnp.sort(y, axis=0)
            return jnp.abs(z - q).mean()
        train(f, {'w': N(k[0], (4, 1))}, numbers)
        """,
    "flow": """
        def f(p, x, y):
            a, b = x[:, :2], x[:, 2:]
            s, t = jnp.split(run(p, a), 2, -1)
            z = b * jnp.exp(jnp.tanh(s)) + t
            return (0.5 * (z ** 2).sum(-1) - jnp.tanh(s).sum(-1)).mean()
        train(f, layers(k[0], 2, 8, 4), numbers)
        """,
    "ppo": """
        def f(p, x, a, key):
            lp = jax.nn.log_softmax(run(p['pi'], x)); v = run(p['v'], x)[:, 0]
            adv = N(key, (16,)); old = jax.lax.stop_gradient(lp)
            r = jnp.exp(jnp.take_along_axis(lp - old, a[:, None], 1)[:, 0])
            pg = -jnp.minimum(r * adv, jnp.clip(r, .8, 1.2) * adv).mean()
            return pg + .5 * ((v - adv) ** 2).mean() - .01 * -(jnp.exp(lp) * lp).sum(-1).mean()
        train(f, {'pi': layers(k[0], 4, 8, 3), 'v': layers(k[1], 4, 8, 1)}, lambda i: (*classes(i),
            keys(i)[4]))
        """,
    "focal": """
        def f(p, x, y):
            q = jax.nn.softmax(run(p, x)); t = jax.nn.one_hot(y, 3)
            return -(t * (1 - q) ** 2 * jnp.log(q + 1e-8)).sum(-1).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "annealed kl": """
        def f(p, x, y, beta):
            z = run(p['e'], x)
            return ((run(p['d'], z) - x) ** 2).mean() + beta * (z ** 2).mean()
        train(f, {'e': layers(k[0], 4, 8, 2), 'd': layers(k[1], 2, 8, 4)}, lambda i: (*numbers(i), i / 10))
        """,
    "accumulate": """
        p = layers(k[0], 4, 8, 3); p[-1]['w'] = jnp.zeros((8, 3))
        loss = lambda p, x, y: optax.softmax_cross_entropy_with_integer_labels(run(p, x), y).mean()
        for step in range(2):
            acc = None
            for i in range(3):
                g = jax.grad(loss)(p, *classes(i))
                acc = g if acc is None else jax.tree.map(jnp.add, acc, g)
            p = jax.tree.map(lambda a, b: a - .1 * b, p, acc)
        """,
    "lora accumulate": """
        p = {'a': N(k[0], (4, 2)), 'b': jnp.zeros((2, 1))}
        W = N(k[1], (4, 1))
        loss = lambda p, x, y: jnp.mean((x @ W + x @ p['a'] @ p['b'] - y) ** 2)
        for i in range(4): g = jax.grad(loss)(p, *numbers(i))
        """,
    "mse scalar": """
        def f(p, x, y): return jnp.mean((x[:, 0] * p['w'] + p['b'] - y[:, 0]) ** 2)
        train(f, {'w': jnp.zeros(()), 'b': jnp.zeros(())}, numbers)
        """,
    "mmd outside": """
        def f(p, x, y):
            a, b = x @ p['w'], y[:, 0]
            kk = lambda u, v: jnp.exp(-(u[:, None] - v) ** 2).mean()
            return kk(a, a) - 2 * kk(a, b) + kk(b, b)
        train(f, {'w': N(k[0], (4,))}, numbers)
        """,
    "ranking": """
        def f(p, x, y):
            s = run(p, x)
            return jax.nn.softplus(-(s - s.reshape(1, -1)) * jnp.sign(y - y.T)).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "quantiles": """
        tau = jnp.arange(1, 9) / 9
        def f(p, x, y):
            q = run(p, x)
            e = y - q
            return jnp.maximum(tau * e, (tau - 1) * e).mean()
        train(f, layers(k[0], 4, 8, 8), numbers)
        """,
    "quantiles16": """
        tau = jnp.arange(1, 17) / 17
        def f(p, x, y):
            q = run(p, x)
            e = y - q
            return jnp.maximum(tau * e, (tau - 1) * e).mean()
        train(f, layers(k[0], 4, 8, 16), numbers)
        """,
    "fourier": """
        fr = jnp.arange(16.)
        def f(p, x, y):
            t = x @ p['w']
            z = jnp.sin(t * fr)
            return ((z @ p['o'] - y) ** 2).mean()
        train(f, {'w': N(k[0], (4, 1)), 'o': N(k[1], (16, 1))}, numbers)
        """,
    "rbf centers args": """
        c = N(k[3], (16,))
        def f(p, x, y):
            z = x @ p['w']
            return (jnp.exp(-(z - p['c']) ** 2) @ p['o'] - y[:, 0]).mean() ** 2
        train(f, {'w': N(k[0], (4, 1)), 'c': c, 'o': N(k[1], (16,))}, numbers)
        """,
    "cosine matrix": """
        def f(p, x, y):
            z = x @ p['w']
            n = jnp.linalg.norm(z, axis=-1, keepdims=True)
            return ((z @ z.T) / (n * n.T)).mean()
        train(f, {'w': N(k[0], (4, 8))}, numbers)
        """,
    "outer norms": """
        def f(p, x, y):
            z = x @ p['w']
            n = jnp.linalg.norm(z, axis=-1)
            return jnp.abs(jnp.outer(n, n) - jnp.add.outer(n, n)).mean()
        train(f, {'w': N(k[0], (4, 8))}, numbers)
        """,
    "sq dist trick": """
        def f(p, x, y):
            z = x @ p['w']
            s = (z ** 2).sum(1, keepdims=True)
            d = s + s.T - 2 * z @ z.T
            return jnp.exp(-d).mean()
        train(f, {'w': N(k[0], (4, 8))}, numbers)
        """,
    "sq dist trick2": """
        def f(p, x, y):
            z = x @ p['w']
            s = (z ** 2).sum(1)
            d = s[:, None] + s - 2 * z @ z.T
            return jnp.exp(-d).mean()
        train(f, {'w': N(k[0], (4, 8))}, numbers)
        """,
    "reshape asked": """
        def f(p, x, y):
            z = (x @ p['w']).reshape(-1, 1)
            return jnp.abs(z - y[:, 0]).mean()
        train(f, {'w': N(k[0], (4,))}, numbers)
        """,
    "positions": """
        pos = jnp.arange(4.)
        def f(p, x, y):
            h = x * p['s'] + pos * p['a']
            return jnp.mean((h @ p['o'] - y) ** 2)
        train(f, {'s': jnp.ones(4), 'a': jnp.ones(()), 'o': N(k[0], (4, 1))}, numbers)
        """,
    "attn pool one": """
        def f(p, x, y):
            h = jnp.tanh(x[:, :, None] * p['e'])
            a = jax.nn.softmax(h @ p['q'], axis=1)
            return jnp.mean(((a * h).sum(1) @ p['o'] - y) ** 2)
        train(f, {'e': N(k[0], (8,)), 'q': N(k[1], (8, 1)), 'o': N(k[2], (8, 1))}, numbers)
        """,
    "policy entropy": """
        def f(p, x, a):
            lp = jax.nn.log_softmax(run(p, x)); q = jnp.exp(lp)
            return (q * lp).sum(-1).mean() - lp[jnp.arange(16), a].mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "dueling": """
        def f(p, x, a):
            v, adv = run(p['v'], x), run(p['a'], x)
            q = v + adv - adv.mean(-1, keepdims=True)
            return ((q[jnp.arange(16), a] - 1) ** 2).mean()
        train(f, {'v': layers(k[0], 4, 8, 1), 'a': layers(k[1], 4, 8, 3)}, classes)
        """,
    "wgan gp": """
        G = layers(k[1], 4, 8, 4)
        def f(d, x, key):
            fake = jax.lax.stop_gradient(run(G, x)); e = jax.random.uniform(key, (16, 1))
            m = e * x + (1 - e) * fake
            g = jax.vmap(jax.grad(lambda a: run(d, a)[0]))(m)
            return run(d, fake).mean() - run(d, x).mean() + 10 * ((jnp.linalg.norm(g,
                axis=-1) - 1) ** 2).mean()
        train(f, layers(k[0], 4, 8, 1), lambda i: (numbers(i)[0], keys(i)[3]))
        """,
    "siren scalar": """
        def f(p, x, y): return jnp.mean((jnp.sin(30 * x @ p['w']) * p['a'] - y) ** 2)
        train(f, {'w': N(k[0], (4, 1)), 'a': jnp.ones(())}, numbers)
        """,
    "learned temp": """
        def f(p, x, y):
            return optax.softmax_cross_entropy_with_integer_labels(run(p['m'],
                x) * jnp.exp(jnp.clip(p['t'], -5, 5)), y).mean()
        train(f, {'m': layers(k[0], 4, 8, 3), 't': jnp.zeros(())}, classes)
        """,
    "top k moe": """
        def f(p, x, y):
            g = x @ p['g']; v, i = jax.lax.top_k(g, 1)
            w = jax.nn.softmax(jnp.where(g >= v, g, -jnp.inf))
            o = jnp.stack([run(e, x) for e in p['e']], 1)
            aux = (jax.nn.softmax(g).mean(0) ** 2).sum()
            return jnp.mean(((w[..., None] * o).sum(1) - y) ** 2) + .1 * aux
        train(f, {'g': N(k[0], (4, 3)), 'e': [layers(kk, 4, 8, 1) for kk in k[1:4]]}, numbers)
        """,
    "weight norm": """
        def f(p, x, y):
            w = p['v'] / jnp.linalg.norm(p['v'], axis=0) * p['g']
            return jnp.mean((x @ w - y) ** 2)
        train(f, {'v': N(k[0], (4, 1)), 'g': jnp.ones(1)}, numbers)
        """,
    "simplex params": """
        def f(p, x, y):
            w = jax.nn.softmax(p['l'])
            return jnp.mean((x @ w - y[:, 0]) ** 2) - 0.01 * (w * jnp.log(w)).sum()
        train(f, {'l': jnp.zeros(4)}, numbers)
        """,
    "hmm probs": """
        def f(p, x, y):
            T = jax.nn.softmax(p['T'], -1); E = jax.nn.softmax(p['E'], -1)
            o = (x[:, 0] > 0).astype(int)
            def s(a, t):
                a = (a @ T) * E[:, t]; c = a.sum()
                return a / c, jnp.log(c)
            _, l = jax.lax.scan(s, jax.nn.softmax(p['pi']), o)
            return -l.mean()
        train(f, {'T': N(k[0], (3, 3)), 'E': N(k[1], (3, 2)), 'pi': jnp.zeros(3)}, numbers)
        """,
    "label smooth mix": """
        def f(p, x, y):
            t = jax.nn.one_hot(y, 3) * .9 + .1 / 3
            return optax.softmax_cross_entropy(run(p, x), t).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "huber 1d": """
        def f(p, x, y): return optax.huber_loss(run(p, x)[:, 0], y[:, 0]).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "schedule where": """
        def f(p, x, y, i):
            l = jnp.mean((x @ p['a'] - y) ** 2); m = jnp.mean((x @ p['b'] - y) ** 2)
            return jnp.where(i < 100, l, l + m)
        train(f, {'a': N(k[0], (4, 1)), 'b': N(k[1], (4, 1))}, lambda i: (*numbers(i), i))
        """,
    "max of two": """
        def f(p, x, y):
            l = jnp.mean((x @ p['a'] - y) ** 2); m = 100 + jnp.mean((x @ p['b'] - y) ** 2)
            return jnp.maximum(l, m)
        train(f, {'a': N(k[0], (4, 1)), 'b': N(k[1], (4, 1))}, numbers)
        """,
    "clip ok": """
        def f(p, x, y):
            s = jnp.clip(p['s'], -3, 2)
            return (((run(p['m'], x) - y) / jnp.exp(s)) ** 2 + s).mean()
        train(f, {'m': layers(k[0], 4, 1), 's': jnp.array(0.)}, numbers)
        """,
    "antisym": """
        def f(p, x, y):
            z = x @ p['w']
            a = z[:, :4] * z[:, 4:] - z[:, 4:] * z[:, :4] * .5
            return jnp.mean((a.sum(-1, keepdims=True) - y) ** 2)
        train(f, {'w': N(k[0], (4, 8))}, numbers)
        """,
    "residual gauge": """
        def f(p, x, y):
            h = x + p['t'] - (x + p['t']).mean(0)
            return jnp.mean((run(p['m'], h) - y) ** 2)
        train(f, {'t': jnp.ones(4), 'm': layers(k[0], 4, 8, 1)}, numbers)
        """,
    "bf16 softmax": """
        def f(p, x, y):
            o = jax.nn.log_softmax(run(p, x.astype(jnp.bfloat16)).astype(jnp.float32))
            return -o[jnp.arange(16), y].mean()
        train(f, jax.tree.map(lambda a: a.astype(jnp.bfloat16), layers(k[0], 4, 8, 3)), classes)
        """,
    "f16 attn": """
        def f(p, x, y):
            h = (x[..., None] * p['e'])
            a = jax.nn.softmax(h @ h.swapaxes(-1, -2)); a = a @ a
            return ((a @ h).mean((1, 2)).astype(jnp.float32) - y[:, 0]).__pow__(2).mean()
        train(f, {'e': N(k[0], (8,)).astype(jnp.float16)}, lambda i: (numbers(i)[0].astype(jnp.float16),
            numbers(i)[1]))
        """,
    "markov power": """
        def f(p, x, y):
            T = jax.nn.softmax(p['T'], -1); q = jax.nn.softmax(run(p['m'], x))
            for _ in range(3): q = q @ T
            return -jnp.log(q[jnp.arange(16), y]).mean()
        train(f, {'T': N(k[0], (3, 3)), 'm': layers(k[1], 4, 8, 3)}, classes)
        """,
    "mil conv": """
        def f(p, x, y):
            h = jax.lax.conv_general_dilated(x.reshape(16, 1, 2, 2), p['c'], (1, 1), 'SAME')
            h = jax.nn.relu(h).max((2, 3))
            return jnp.mean((h @ p['o'] - y) ** 2)
        train(f, {'c': N(k[0], (4, 1, 2, 2)), 'o': N(k[1], (4, 1))}, numbers)
        """,
    "ensemble vmap": """
        ps = jax.vmap(lambda kk: {'w': N(kk, (4, 1))})(k[:3])
        def f(ps, x, y):
            o = jax.vmap(lambda p: x @ p['w'])(ps)
            return ((o - y) ** 2).mean()
        train(f, ps, numbers)
        """,
    "ensemble16": """
        ps = jax.vmap(lambda kk: {'w': N(kk, (4,))})(jax.random.split(k[0], 16))
        def f(ps, x, y):
            o = jax.vmap(lambda p: x @ p['w'])(ps)
            return ((o - y[:, 0]) ** 2).mean()
        train(f, ps, numbers)
        """,
    # steps that look as if they changed nothing; half of them rebuilt from examples of Optax
    "accumulated by MultiSteps": """
        # https://optax.readthedocs.io/en/latest/_collections/examples/gradient_accumulation.html
        tx, p = optax.MultiSteps(optax.sgd(0.1), every_k_schedule=4), layers(k[0], 4, 8, 1)
        state = tx.init(p)
        for i in range(6):
            g = jax.grad(lambda p, x, y: ((run(p, x) - y) ** 2).mean())(p, *numbers(i))
            updates, state = tx.update(g, state, p)
            p = optax.apply_updates(p, updates)
        """,
    "a warm-up of a thousand steps": """
        # https://optax.readthedocs.io/en/latest/api/optimizer_schedules.html
        rate = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 50_000, 100_000)
        tx, p = optax.adamw(rate), jax.tree.map(lambda one: one + 3.0, layers(k[0], 4, 8, 1))
        state = tx.init(p)
        for i in range(6):
            g = jax.grad(lambda p, x, y: ((run(p, x) - y) ** 2).mean())(p, *numbers(i))
            updates, state = tx.update(g, state, p)
            p = optax.apply_updates(p, updates)
        """,
    "a part without steps": """
        # https://github.com/google-deepmind/optax/issues/159
        p = {'body': layers(k[0], 4, 8, 8), 'head': layers(k[1], 8, 1)}
        tx = optax.multi_transform({'on': optax.adam(1e-2), 'off': optax.set_to_zero()}, {'body': 'off', 'head': 'on'})
        state = tx.init(p)
        for i in range(5):
            g = jax.grad(lambda p, x, y: ((run(p['head'], run(p['body'], x)) - y) ** 2).mean())(p, *numbers(i))
            updates, state = tx.update(g, state, p)
            p = optax.apply_updates(p, updates)
        """,
    "applied if finite": """
        # https://optax.readthedocs.io/en/latest/api/transformations.html
        tx, p = optax.apply_if_finite(optax.sgd(0.1), 5), layers(k[0], 4, 8, 1)
        state = tx.init(p)
        for i in range(5):
            x, y = numbers(i)
            g = jax.grad(lambda p, x, y: ((run(p, x) - y) ** 2).mean())(p, x, y)
            if i < 2: g = jax.tree.map(lambda one: one * jnp.inf, g)
            updates, state = tx.update(g, state, p)
            p = optax.apply_updates(p, updates)
        """,
    "slow and fast weights": """
        # https://optax.readthedocs.io/en/latest/_collections/examples/lookahead_mnist.html
        tx = optax.lookahead(optax.sgd(0.05), sync_period=2, slow_step_size=0.5)
        p = optax.LookaheadParams.init_synced(layers(k[0], 4, 8, 1))
        state = tx.init(p)
        for i in range(6):
            g = jax.grad(lambda p, x, y: ((run(p, x) - y) ** 2).mean())(p.fast, *numbers(i))
            updates, state = tx.update(g, state, p)
            p = optax.apply_updates(p, updates)
        """,
    "projected onto a box": """
        # https://optax.readthedocs.io/en/latest/api/projections.html
        p = jnp.ones((4, 1))
        for i in range(5):
            g = jax.grad(lambda p, x, y: ((x @ p - 9 * y) ** 2).mean())(p, *numbers(i))
            p = optax.projections.projection_hypercube(p - 0.05 * g)
        """,
    "clipped to positive numbers": """
        p = jnp.zeros(4)
        for i in range(5):
            g = jax.grad(lambda p, x, y: ((x @ p) * x[:, 0]).mean() + 10 * p.sum())(p, *numbers(i))
            p = jnp.maximum(p - 1e-3 * g, 0.0)
        """,
    "float32 weights of bfloat16 numbers": """
        # https://github.com/google-deepmind/jmp
        master = jax.tree.map(lambda one: one + 1.0, layers(k[0], 4, 8, 1))
        for i in range(6):
            half = jax.tree.map(lambda one: one.astype(jnp.bfloat16), master)
            g = jax.grad(lambda p, x, y: ((run(p, x.astype(jnp.bfloat16)) - y) ** 2).mean())(half, *numbers(i))
            master = jax.tree.map(lambda a, b: a - 1e-5 * b.astype(jnp.float32), master, g)
        """,
    "compensated sums in bfloat16": """
        # https://arxiv.org/abs/2010.06192
        p = jax.tree.map(lambda one: (one + 1.0).astype(jnp.bfloat16), layers(k[0], 4, 1))
        lost = jax.tree.map(jnp.zeros_like, p)
        for i in range(6):
            g = jax.grad(lambda p, x, y: ((run(p, x.astype(jnp.bfloat16)) - y) ** 2).mean())(p, *numbers(i))
            more = jax.tree.map(lambda b, c: -1e-4 * b - c, g, lost)
            new = jax.tree.map(lambda a, b: a + b, p, more)
            lost = jax.tree.map(lambda n, a, b: (n - a) - b, new, p, more)
            p = new
        """,
    "accumulated by hand": """
        p = layers(k[0], 4, 8, 1)
        total = jax.tree.map(jnp.zeros_like, p)
        for i in range(8):
            g = jax.grad(lambda p, x, y: ((run(p, x) - y) ** 2).mean())(p, *numbers(i))
            total = jax.tree.map(jnp.add, total, g)
            if i % 4 == 3:
                p = jax.tree.map(lambda a, b: a - 0.1 * b / 4, p, total)
                total = jax.tree.map(jnp.zeros_like, p)
        """,
    "two networks in turn": """
        make, judge = layers(k[0], 2, 8, 4), layers(k[1], 4, 8, 1)
        def of_judge(judge, make, x, z): return run(judge, run(make, z)).mean() - run(judge, x).mean()
        def of_make(make, judge, z): return -run(judge, run(make, z)).mean()
        for i in range(8):
            x, z = numbers(i)[0], N(keys(i)[2], (16, 2))
            g = jax.grad(of_judge)(judge, make, x, z)
            judge = jax.tree.map(lambda a, b: jnp.clip(a - 1e-2 * b, -0.5, 0.5), judge, g)
            if i % 4 == 3:
                make = jax.tree.map(lambda a, b: a - 1e-2 * b, make, jax.grad(of_make)(make, judge, z))
        """,
    # scores that are picked and are no log-probabilities
    "preds of a normalised network": """
        # https://docs.jax.dev/en/latest/notebooks/neural_network_and_data_loading.html
        def f(p, x, y):
            logits = run(p, x)
            preds = logits - jax.nn.logsumexp(logits, 1, keepdims=True)
            return -jnp.mean(preds * jax.nn.one_hot(y, 3))
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "q of the action": """
        # https://github.com/google-deepmind/rlax/blob/master/examples/simple_dqn.py
        def f(p, x, y):
            def one(s, a):
                q = run(p, s)
                return (1.0 + 0.9 * jax.lax.stop_gradient(q.max()) - q[a]) ** 2
            return jax.vmap(one)(x, y).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "surrogate of a policy": """
        # https://github.com/luchris429/purejaxrl/blob/main/purejaxrl/ppo.py
        old = layers(k[2], 4, 8, 3)
        def f(p, x, y):
            chosen = jax.nn.log_softmax(run(p, x))[jnp.arange(16), y]
            before = jax.nn.log_softmax(run(old, x))[jnp.arange(16), y]
            ratio, gain = jnp.exp(chosen - before), x[:, 0] - x[:, 0].mean()
            return -jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "margin between classes": """
        # https://jaxopt.github.io/stable/auto_examples/deep_learning/index.html
        def f(p, x, y):
            s = run(p, x)
            right = s[jnp.arange(16), y]
            return (jnp.max(s + 1 - jax.nn.one_hot(y, 3), -1) - right).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "logit loss of an attack": """
        # https://github.com/ZhengyuZhao/Targeted-Transfer
        net, (x, y) = layers(k[0], 4, 8, 3), classes(0)
        at = x
        for i in range(4):
            g = jax.grad(lambda at: -run(net, at)[jnp.arange(16), y].mean())(at)
            at = jnp.clip(at - 0.01 * jnp.sign(g), x - 0.1, x + 0.1)
        """,
    "scores of a judge of classes": """
        judge = layers(k[1], 4, 8, 3)
        def f(p, x, y):
            made = jnp.tanh(run(p, jnp.concatenate([x[:, :2], jax.nn.one_hot(y, 3)], 1)))
            return -run(judge, made)[jnp.arange(16), y].mean()
        train(f, layers(k[0], 5, 8, 4), classes)
        """,
    "energies": """
        def f(p, x, y):
            s = run(p, x)
            return -s[jnp.arange(16), y].mean() + jax.nn.logsumexp(s, -1).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "probabilities, then logarithms": """
        def f(p, x, y):
            return -jnp.log(jax.nn.softmax(run(p, x))[jnp.arange(16), y]).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "scores that are pulled to 1": """
        def f(p, x, y):
            picked = (run(p, x) * jax.nn.one_hot(y, 3)).sum(-1)
            return ((1 - picked) ** 2).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "a maximum of each row": """
        def f(p, x, y):
            return -run(p, x).max(-1).mean() + (run(p, x) ** 2).mean()
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    "tokens with weights": """
        # https://github.com/google/flax/blob/main/examples/lm1b/train.py
        def f(p, x, y):
            logits = run(p, x.reshape(4, 4, 4)); targets = jax.nn.one_hot(y.reshape(4, 4), 3)
            weights = (y.reshape(4, 4) > 0).astype(jnp.float32)
            each = -jnp.sum(targets * jax.nn.log_softmax(logits), axis=-1)
            return (each * weights).sum() / (weights.sum() + 1e-6)
        train(f, layers(k[0], 4, 8, 3), classes)
        """,
    # results that nothing uses, on purpose
    "printed within": """
        # https://docs.jax.dev/en/latest/debugging/print_breakpoint.html
        def f(p, x, y):
            loss = ((run(p, x) - y) ** 2).mean()
            jax.debug.print("{}", loss + 1)
            jax.debug.callback(lambda one: None, jnp.abs(loss))
            return loss
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "shapes that are looked at": """
        # https://docs.kidger.site/equinox/api/pretty-printing/
        import equinox as eqx
        def f(p, x, y):
            out = run(p, x)
            eqx.tree_pformat(out); jax.tree.map(jnp.shape, p); jax.eval_shape(jnp.tanh, out)
            return ((out - y) ** 2).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "a module that counts": """
        # https://flax.readthedocs.io/en/latest/nnx_basics.html
        from flax import nnx
        class Net(nnx.Module):
            def __init__(self, rngs):
                self.a, self.seen = nnx.Linear(4, 1, rngs=rngs), nnx.Variable(jnp.zeros(()))
            def __call__(self, x):
                out = self.a(x)
                self.seen.set_value(self.seen.get_value() + 1)
                return out
        net = Net(nnx.Rngs(0))
        for i in range(3):
            g = nnx.grad(lambda net, x, y: ((net(x) - y) ** 2).mean())(net, *numbers(i))
        """,
    "a module that is called to be made": """
        # https://flax.readthedocs.io/en/latest/guides/flax_fundamentals/flax_basics.html
        import flax.linen as nn
        class Net(nn.Module):
            @nn.compact
            def __call__(self, x):
                h = nn.Dense(4)(x)
                self.sow("intermediates", "h", h)
                nn.Dense(2, name="other")(h)
                return nn.Dense(1)(h)
        net = Net()
        p = net.init(k[0], jnp.ones((1, 4)))
        p = {"params": {name: one for name, one in p["params"].items()}}
        def f(p, x, y):
            out, _ = net.apply(p, x, mutable=["intermediates"])
            return ((out - y) ** 2).mean() + 1e-3 * sum((one ** 2).sum() for one in jax.tree.leaves(p))
        train(f, p, numbers)
        """,
    "checked to be finite": """
        # https://docs.jax.dev/en/latest/debugging/checkify_guide.html
        from jax.experimental import checkify
        def f(p, x, y):
            out = run(p, x)
            checkify.check(jnp.isfinite(out).all(), "not finite")
            return ((out - y) ** 2).mean()
        def checked(p, x, y):
            err, loss = checkify.checkify(f)(p, x, y)
            return loss
        train(checked, layers(k[0], 4, 8, 1), numbers)
        """,
    "statistics that a function keeps": """
        seen = []
        def keep(one):
            seen.append(one.shape)
            return one * 2
        def f(p, x, y):
            out = run(p, x)
            keep(out)
            [keep(out) for _ in range(2)]
            return ((out - y) ** 2).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "a value beside the loss": """
        # https://docs.jax.dev/en/latest/_autosummary/jax.value_and_grad.html
        def f(p, x, y):
            out = run(p, x)
            _ = jnp.abs(out).max()
            error, unused = jnp.square(out - y), jnp.abs(out - y)
            return error.mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "a constraint that passes on": """
        # https://docs.jax.dev/en/latest/_autosummary/jax.lax.stop_gradient.html
        def f(p, x, y):
            out = run(p, x)
            jax.lax.stop_gradient(out); jnp.asarray(out); jnp.reshape(out, (16, 1)); out.shape; out.astype(out.dtype)
            return ((out - y) ** 2).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "a text of what is done": """
        def f(p, x, y):
            "The mean of squares."
            out = run(p, x)
            x.mean()
            jnp.argmax(out, -1)
            return ((out - y) ** 2).mean()
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "a loop for its list": """
        def f(p, x, y):
            h, kept = x, []
            for one in p[:-1]:
                h = jax.nn.relu(h @ one["w"] + one["b"])
                kept.append(h.mean())
            return ((h @ p[-1]["w"] + p[-1]["b"] - y) ** 2).mean() + 0.0 * sum(kept)
        train(f, layers(k[0], 4, 8, 1), numbers)
        """,
    "two terms that pull on a scale in bfloat16": """
        def f(p, x, y):
            sigma = jnp.exp(p['raw'])
            x, y = x.astype(jnp.bfloat16), y.astype(jnp.bfloat16)
            return (((x @ p['w'] - y) / sigma) ** 2 / 2 + jnp.log(sigma)).mean()
        train(f, {'w': N(k[0], (4, 1)).astype(jnp.bfloat16), 'raw': jnp.zeros((), jnp.bfloat16)}, numbers)
        """,
}
"""By what they are about."""
