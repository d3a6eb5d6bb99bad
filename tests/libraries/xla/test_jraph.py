"""jraph: networks on graphs, padded and batched."""

import jax
import jax.numpy as jnp
import jraph
from in_jax import by, descending

FRAMEWORK, LIBRARIES = "JAX", ("jraph",)

GRAPH = jraph.batch(
    [
        jraph.GraphsTuple(
            nodes=jnp.array([[1.0, 0.5], [0.25, -1.0], [2.0, 1.0]]),
            edges=jnp.array([[0.1], [0.2], [-0.3]]),
            senders=jnp.array([0, 1, 2]),
            receivers=jnp.array([1, 2, 0]),
            globals=jnp.array([[1.0]]),
            n_node=jnp.array([3]),
            n_edge=jnp.array([3]),
        ),
        jraph.GraphsTuple(
            nodes=jnp.array([[-0.5, 1.5], [0.75, 0.0]]),
            edges=jnp.array([[0.4], [0.6]]),
            senders=jnp.array([0, 1]),
            receivers=jnp.array([1, 0]),
            globals=jnp.array([[2.0]]),
            n_node=jnp.array([2]),
            n_edge=jnp.array([2]),
        ),
    ]
)
PADDED = jraph.pad_with_graphs(GRAPH, n_node=8, n_edge=8, n_graph=4)
PARAMS = {"edge": jnp.array([[0.3, -0.2]] * 6), "node": jnp.array([[0.5, 0.1]] * 7), "global": jnp.array([[0.2]] * 5)}

# https://github.com/google-deepmind/jraph#quick-start


def graph_network_loss(params, nodes):
    def update_edge_fn(edge, sent, received, globals_):
        joined = jnp.concatenate([edge, sent, received, globals_], axis=1)
        return jnp.tanh(joined @ params["edge"])

    def update_node_fn(node, sent, received, globals_):
        joined = jnp.concatenate([node, sent, received, globals_], axis=1)
        return jax.nn.relu(joined @ params["node"])

    def update_global_fn(nodes, edges, globals_):
        joined = jnp.concatenate([nodes, edges, globals_], axis=1)
        return joined @ params["global"]

    net = jraph.GraphNetwork(update_edge_fn, update_node_fn, update_global_fn)
    updated = net(GRAPH._replace(nodes=nodes))
    score = updated.globals
    return jnp.sum(score**2)


# https://github.com/google-deepmind/jraph/blob/master/jraph/examples/gcn.py


def convolution_loss(weight, nodes):
    gcn = jraph.GraphConvolution(update_node_fn=lambda n: n @ weight, add_self_edges=True)
    updated = gcn(GRAPH._replace(nodes=nodes))
    hidden = updated.nodes
    pooled = jraph.segment_mean(hidden, jnp.array([0, 0, 0, 1, 1]), num_segments=2)
    return jnp.sum(pooled**2)


# https://github.com/google-deepmind/jraph (graph attention)


def attention_loss(query, nodes):
    def attention_query_fn(node_features):
        return node_features @ query

    def attention_logit_fn(sender_attr, receiver_attr, edges):
        logit = jax.nn.leaky_relu(jnp.sum(sender_attr * receiver_attr, 1, keepdims=True))
        return logit[:, 0][:, None]

    gat = jraph.GAT(attention_query_fn, attention_logit_fn, lambda n: jnp.tanh(n))
    updated = gat(GRAPH._replace(nodes=nodes))
    return jnp.sum(updated.nodes**2)


# https://jraph.readthedocs.io/en/latest/api.html (padding, and what is masked)


def padded_loss(weight, nodes):
    padded = PADDED._replace(nodes=jnp.pad(nodes, ((0, 3), (0, 0))))
    mask = jraph.get_node_padding_mask(padded)
    hidden = padded.nodes @ weight
    sent = jraph.segment_sum(hidden[padded.senders], padded.receivers, 8)
    error = jnp.where(mask[:, None], sent, 0.0)
    return jnp.sum(error**2)


# planted


def cut(weight, nodes):
    hidden = nodes @ weight
    sent = jax.lax.stop_gradient(hidden[GRAPH.senders])  # <- cut
    received = jraph.segment_sum(sent, GRAPH.receivers, 5)
    return jnp.sum(received * nodes)


def nan(weight, nodes):
    hidden = nodes @ weight
    received = jraph.segment_sum(hidden, jnp.array([0, 0, 0, 1, 1]), 3)
    count = jraph.segment_sum(jnp.ones(5), jnp.array([0, 0, 0, 1, 1]), 3)
    mean = received / count[:, None]  # <- nan
    return jnp.sum(mean**2)


# asked

NODES = GRAPH.nodes
WEIGHT = jnp.array([[0.5, -0.2], [0.1, 0.3]])


def given():
    return WEIGHT, NODES


def test_graph_network(ask):
    rec = ask.function(graph_network_loss, lambda: (PARAMS, NODES))
    ask.gradients(rec, by(graph_network_loss, PARAMS, NODES) | {"score": 2 * rec["score"].value})
    ask.names(rec, "params.edge", "nodes", "score", "updated.nodes", "updated.globals")
    said = [str(one) for one in [*rec.notes, *rec]]
    ask.that(any("update_edge_fn" in one for one in said), f"no word of update_edge_fn: {said}")
    ask.clean(rec)
    ask.works("`GraphNetwork`: what its functions are given and return, of nodes, edges and graphs")


def test_convolution(ask):
    rec = ask.function(convolution_loss, given)
    ask.gradients(rec, by(convolution_loss, *given()) | {"pooled": 2 * rec["pooled"].value})
    share = jnp.array([3.0, 3.0, 3.0, 2.0, 2.0])[:, None]
    ask.gradients(rec, {"hidden": 2 * rec["pooled"].value[jnp.array([0, 0, 0, 1, 1])] / share})
    ask.clean(rec)
    ask.works("`GraphConvolution`, segments that are summed and averaged")


def test_attention(ask):
    rec = ask.function(attention_loss, given)
    ask.gradients(rec, by(attention_loss, *given()) | {"updated.nodes": 2 * rec["updated.nodes"].value})
    ask.names(rec, "query", "nodes")
    ask.clean(rec)
    ask.works("`GAT`")


def test_padded(ask):
    rec = ask.function(padded_loss, given)
    ask.gradients(rec, by(padded_loss, *given()) | {"error": 2 * rec["error"].value})
    ask.gradients(rec, {"sent": jnp.where(rec["mask"].value[:, None], 2 * rec["sent"].value, 0.0)})
    ask.statuses(rec, {"mask": "not_float"})
    ask.clean(rec)
    ask.works("padded graphs, whose padding is masked out of the loss")


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.nan(ask.function(nan, given, nonfinite=True), nan)


def test_watch(ask):
    last = ask.watched_function(descending(graph_network_loss, PARAMS, [(NODES,)] * 20, rate=0.01))
    ask.rows(last, "params.edge", "params.node", "params.global", "updated.globals")
    ask.works("`bp.watch_function` over 20 steps")
