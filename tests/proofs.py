"""For each sentence that ``explain`` prints about a recording: what of the recording proves it, by the sentence's code.

A proof reads entries, edges, gradients and what is known of the training, and nothing that the analysis has made of
them. ``ADVICE`` are the codes of what to write instead, ``PARTS`` those of words within sentences: neither states
anything of a recording by itself. ``OF_ERRORS`` stand in the notes on errors, where the framework's error is the proof,
and ``OF_GRAPHS`` and ``OF_TAPES`` are about a graph without a recording and about tapes of TensorFlow: other tests have
these programs.
"""

import ast
import re
from dataclasses import dataclass
from typing import Any

import torch

from backprobe.backends.useless import USELESS
from backprobe.explain.nonfinite import text as nonfinite
from backprobe.explain.text import SENTENCES
from backprobe.record.patterns import expanded

NO_GRADIENT = (
    "not_connected",
    "detached",
    "no_grad",
    "frozen",
    "backward_not_run",
    "not_float",
    "not_executed",
    "opaque",
)


def names_in(text):
    """The names of a list, also of a folded one."""
    return [name for part in re.split(r", | and \d+ more", text) if part for name in expanded(part)]


@dataclass
class Said:
    """A sentence in a report: its fields, and the finding that it belongs to, if it is one's headline or fact."""

    rec: Any
    code: str
    fields: dict
    finding: Any = None
    asked: str = ""

    @property
    def entries(self):
        return self.rec.record.entries

    @property
    def training(self):
        return self.rec.record.training

    def named(self, text):
        """The entry with this printed name; more may follow where that is in quotes."""
        quoted = re.match(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"", text.strip())
        name = ast.literal_eval(quoted[0]) if quoted else text.strip()
        return next((one for one in self.entries if one.name == name), None)

    def entry(self, field="value"):
        text = str(self.fields.get(field, ""))
        return self.named(text) if text[:1] in "'\"" else None

    def about(self):
        """The entry that the sentence, or its finding, is about."""
        found = self.entry()
        return found if found is not None or self.finding is None else self.named(self.finding.name)

    def listed(self, field="names"):
        """The entries in a list of names; those of several calls or versions are left out."""
        return [one for one in map(self.named, names_in(str(self.fields[field]))) if one is not None]

    def behind(self, *targets):
        """The positions that edges lead back to from some entries."""
        pending = [self.entries.index(one) for one in targets]
        seen = set(pending)
        while pending:
            new = {edge.at for edge in self.entries[pending.pop()].inputs} - seen
            seen |= new
            pending += new
        return seen

    def flows(self, source, target):
        return self.entries.index(source) in self.behind(target)

    def reaches_an_output(self, one):
        outputs = [self.entries[at] for at in self.rec.record.outputs]
        return self.entries.index(one) in self.behind(*outputs)


def numbers(tensor):
    if not isinstance(tensor, torch.Tensor):
        return torch.zeros(0)
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).detach().double()


def is_zero(one):
    return numbers(one.held_grad).numel() > 0 and not numbers(one.held_grad).any()


def line_has_text(said):
    """The part of the line that is quoted stands in the line, with its last word where that is one of several."""
    if said.finding.source is None:
        return True
    shown = [key for key in ("text", "call") if f"{{{key}}}" in SENTENCES.get(said.code, "")]
    words = [re.findall(r"\w+", str(said.fields.get(key, ""))) for key in shown if "`" in str(said.fields.get(key, ""))]
    return all(
        not part or part[-1] in said.finding.source.statement or part[0] in said.finding.source.statement
        for part in words
    )


def cut_off(said):
    """No edge leads from the target back to the value, and the line is as it is quoted."""
    value, target = said.about(), said.entry("target") or said.named(said.finding.name)
    apart = value is None or target is None or value is target or not said.flows(value, target)
    return apart and line_has_text(said)


def status(*wanted):
    return lambda said: said.about() is not None and str(said.about().status) in wanted


def leads_nowhere(said):
    """No edges lead from an output back to it."""
    one, named = said.about(), re.findall(r"'[^']*'", str(said.fields.get("outputs", "")))
    outputs = [each for each in map(said.named, named) if each is not None]
    return one is None or not (
        any(said.flows(one, each) for each in outputs) if outputs else said.reaches_an_output(one)
    )


def lacks(said):
    """The parameter is one that got no gradient, by the training, or by its own entry."""
    if said.training is not None and any(one.name == said.finding.name for one in said.training.untrained):
        return True
    one = said.named(said.finding.name)
    return one is not None and str(one.status) in NO_GRADIENT


def not_run(said):
    one = said.about()
    return one is None or str(one.status) == "backward_not_run"


def silent(said):
    """An edge is there, and no gradient came along it."""
    one = said.about()
    return lacks(said) or (one is not None and str(one.status) == "not_connected")


def frozen(said):
    one = said.about()
    return one is not None and str(one.status) == "frozen" and not getattr(one.value, "requires_grad", False)


def all_trained(said):
    """No parameter lacks its gradient, and where all are recorded, one has another number than 0 in it."""
    training = said.training
    leaves = [one for one in said.entries if one.is_leaf and str(one.status) == "ok"]
    has_all = training.count > 0 and not training.untrained and not training.cleared
    return has_all and not (len(leaves) >= training.count and all(map(is_zero, leaves)))


def overview(said):
    there = sum("ok" in (str(one.status), *map(str, one.statuses.values())) for one in said.entries)
    return said.fields["there"] == there and said.fields["all"] >= there


def none_could(said):
    """No value is one that a gradient could have come to."""
    never = ("not_tensor", "not_executed", "not_float")
    derivatives = ("is_gradient", "no_path_of_gradient", "beside_inputs", "beside_sources")
    return all(str(one.status) in never or one.is_because(*derivatives) for one in said.entries)


def each_lacks(said):
    return all(str(one.status) != "ok" for one in said.listed())


def each_is(*wanted):
    return lambda said: all(str(one.status) in wanted for one in said.listed())


def none_reaches(said):
    return not any(said.reaches_an_output(one) for one in said.listed())


def read_none(said):
    return any(
        one.text in str(said.fields["text"]) or str(said.fields["text"]) in one.text
        for one in said.rec.record.none_reads
    )


def counted(said):
    """As many NaN and Inf as its numbers, or those of its gradient, have."""
    match = re.match(r"'(.*)' of shape|the gradient of '(.*)'|'(.*)'", " ".join(map(str, said.fields.values())))
    if match is None:
        return True
    name = next(filter(None, match.groups()), "")
    one = said.named(name)
    if one is None:
        return True
    held = one.held_grad if said.code == "gradient" else one.held
    if not isinstance(held, torch.Tensor):
        return True
    held, text = numbers(held), " ".join(map(str, said.fields.values()))
    held = held.sum(-1) if isinstance(one.held, torch.Tensor) and one.held.is_complex() else held
    nan, inf = re.search(r"([\d,]+) NaN", text), re.search(r"([\d,]+) Inf", text)
    return (nan is None or int(nan[1].replace(",", "")) == int(held.isnan().sum())) and (
        inf is None or int(inf[1].replace(",", "")) == int(held.isinf().sum())
    )


def is_finite(said):
    one = said.entry()
    return one is None or not isinstance(one.held, torch.Tensor) or bool(numbers(one.held).isfinite().all())


def is_between(said):
    one = said.entry()
    if one is None or not isinstance(one.held, torch.Tensor):
        return True
    held = numbers(one.held)
    low, high = float(said.fields["low"]), float(said.fields["high"])
    return torch.isclose(held.min(), torch.tensor(low).double(), rtol=1e-4) and torch.isclose(
        held.max(), torch.tensor(high).double(), rtol=1e-4
    )


def is_bad(said):
    """The value, or the gradient, that it is about is not finite; it is not asked of what is no longer there."""
    one = said.named(said.finding.name)
    if one is None or one.finiteness is None:
        return True
    counts = [each for each in (one.finiteness.value, one.finiteness.grad) if each is not None]
    return not counts or any(not each.is_finite for each in counts) or born_behind(said, one)


def born_behind(said, owner):
    """Is it the backward of a value, and the gradient of something that goes into it is not finite?"""
    sources = [said.entries[edge.at] for edge in owner.inputs]
    counts = [one.finiteness.grad for one in sources if one.finiteness is not None]
    hidden = owner.finiteness is not None and owner.finiteness.made
    return bool(hidden) or any(count is not None and not count.is_finite for count in counts) or not counts


def became_zero(said):
    target, value = said.entry("target"), said.entry()
    return (target is None or not is_zero(target)) and (value is None or is_zero(value))


def zero_derivative(said):
    value, target = said.entry(), said.entry("target")
    return value is None or target is None or (is_zero(value) and not is_zero(target))


def states(said):
    """Each entry has the status that is said of it."""
    pairs = (("value", "state"), ("target", "other"))
    return all(
        said.entry(name) is None or _of_state(said.entry(name), str(said.fields[state])) for name, state in pairs
    )


def _of_state(one, state):
    if state.startswith("of dtype"):
        return one.dtype == state.rpartition(" ")[2]
    if state.startswith("the Python number"):
        return float(state.rpartition(" ")[2]) == one.value
    differentiated = ("ok", "not_connected", "backward_not_run", "opaque")
    return str(one.status) in (differentiated if state == "differentiated" else (state, *NO_GRADIENT))


def nothing_from_it(said):
    one = said.about()
    return one is None or not any(said.flows(one, other) for other in said.entries if other is not one)


def has_note(*codes):
    return lambda said: any(note.code in codes for note in said.rec.record.notes)


def of_training(part):
    return lambda said: bool(getattr(said.training, part))


def parameters_lost(said):
    names = {one.name for one in said.training.untrained}
    return all(name in names for name in names_in(said.fields["names"]))


def why_of_its_kind(said):
    """It stands beneath a finding of the kind that it explains, whose headline has a proof of its own."""
    return SENTENCES[said.code] == SENTENCES.get(f"{said.finding.kind}_why")


def all_zero(said):
    """No parameter that is recorded has a gradient with a number other than 0, and as many are said as are trained."""
    trained = [one for one in said.entries if one.is_leaf and one.source is None and str(one.status) == "ok"]
    return all(map(is_zero, trained)) and int(said.fields["gradients"].split()[0].replace(",", "")) > 0


def added_up(said):
    """Its own gradient is 0, and that of a value that it goes into is not."""
    one = said.about()
    return one is not None and is_zero(one) and not all(map(is_zero, consumers(said, one)))


def true_of(proof, *codes):
    return dict.fromkeys(codes, proof)


def consumers(said, one):
    at = None if one is None else said.entries.index(one)
    return [other for other in said.entries if at in {edge.at for edge in other.inputs}] if one is not None else [0, 1]


def nothing_flows(said):
    """No edges lead from these into what the finding is about."""
    target = said.named(said.finding.name) if said.finding is not None else said.about()
    return target is None or not any(said.flows(one, target) for one in said.listed() if one is not target)


def ends_at(said):
    """What it ends at leads to no output."""
    one = said.named(re.match(r"'[^']*'", said.fields["at"])[0])
    return one is None or not said.reaches_an_output(one)


def lost_on_line(said):
    """These have gradients, or they would not be beside; nothing flows from them into what the line computes."""
    at = re.match(r"'[^']*'", said.fields["at"])
    target = None if at is None else said.named(at[0])
    return target is None or not any(said.flows(one, target) for one in said.listed())


def gradient_is_there(said):
    return str(said.entry().status) == "ok"


def clean(said):
    """No output holds NaN or Inf, and no gradient that was counted."""
    outputs = [said.entries[at] for at in said.rec.record.outputs]
    counts = [one.finiteness.value for one in outputs if one.finiteness is not None]
    counts += [one.finiteness.grad for one in said.entries if one.finiteness is not None]
    return all(count is None or count.is_finite for count in counts)


def holds_its_word(said):
    """A value that is NaN or Inf is that, and a number is its number."""
    one = said.entry("value") or said.entry("name")
    if one is None or not isinstance(one.held, torch.Tensor):
        return True
    number = numbers(one.held)
    told = str(said.fields.get("number", "inf")).replace(",", "")
    try:
        wanted = torch.tensor(float(told)).double()
    except ValueError:
        return True
    if "number" not in said.fields:
        return bool(number.isinf().any())
    return bool(torch.isclose(number, wanted, rtol=1e-4, equal_nan=True).all())


def harmless(said):
    """No output holds NaN or Inf."""
    outputs = [said.entries[at] for at in said.rec.record.outputs]
    return all(
        one.finiteness is None or one.finiteness.value is None or one.finiteness.value.is_finite for one in outputs
    )


def stands_in(said):
    """It took the place of a parameter that got no gradient."""
    return any(said.entries[at] is said.entry() for one in said.training.untrained for at in one.instead)


def called_at(said):
    return any(f"`{call.text}`" == said.fields["text"] for one in said.training.untrained for call in one.calls)


def is_lost(said):
    one = said.entry()
    return (
        one is None or not isinstance(one.held, torch.Tensor) or one.finiteness is None or one.finiteness.value is None
    )


PROOFS = {
    **true_of(cut_off, *(code for code in SENTENCES if code.partition(".")[0] in {
        "detach", "stop_gradient", "data", "number", "numpy", "copied", "parameter", "replaced", "assigned", "index",
        "comparison", "count", "integer", "not_float", "sample", "derivative", "differentiated", "inside", "checkpoint",
        "loaded", "unknown", "operation_dtype", "cut_in_of"} and not code.endswith("_next"))),
    **true_of(cut_off, "no_grad", "no_grad.update", "cut_before", "made_again", "other_call", "written_since"),
    **true_of(stands_in, "replaced.made", "replaced.leaf"), "called_at": called_at,
    "nothing_given.module": lacks,
    "nothing_given": lambda said: said.about().is_because("nothing_given"),
    **true_of(silent, "silent", "silent.custom", "silent.parameters"),
    **true_of(lacks, "no_grad.call", "replaced.call", "not_executed.untrained", "unused.parameter", "unused.parameters",
              "replaced.captured", "dropped", "unused.forward", "unknown.call", "unknown.parameters", "replaced.held",
              "replaced.twins", "replaced.twins_made"),
    **true_of(of_training("twins"), "twins_of", "optimizer_made"),
    **true_of(leads_nowhere, "unused", "unused.passed", "unused.held", "unused.value", "unknown.callers",
              "unknown.selection", "not_taken"),
    **true_of(frozen, "frozen", "frozen.call", "frozen_leaf"),
    **true_of(not_run, *(code for code in SENTENCES if code.startswith("backward_not_run")
                         and not code.endswith("_next"))),
    "not_executed": status("not_executed"),
    "not_executed.module": lambda said: str(getattr(said.entry("module"), "status", "not_executed")) == "not_executed",
    **true_of(status("ok"), "none_behind", "present", "present_partly", "present_but", "present_not_on_tape"),
    **true_of(status("opaque"), "opaque", "overwritten"),
    **true_of(status("not_tensor"), "not_tensor"),
    **true_of(status(*NO_GRADIENT, "not_tensor"), "missing", "missing_because", "limited"),
    "made_leaf": lambda said: not said.about().inputs,
    "zero_derivative": zero_derivative, "hooked": lambda said: is_zero(said.about()), "became_zero": became_zero,
    "zero_behind_stops": lambda said: is_zero(said.about()),
    "all_zero": all_zero, "zero_for": lambda said: all(map(is_zero, said.listed())),
    **true_of(added_up, "added_up", "added_up.parts", "may_cancel"),
    "contribution": lambda said: not is_zero(said.entry("target")),
    "value_is_zero": lambda said: not numbers(said.entry("target").held).any(),
    **true_of(of_training("cleared"), "cleared", "cleared_of"),
    **true_of(of_training("unregistered"), "in_no_optimizer", "not_held", "not_held.inside", "not_held.tensor",
              "not_held.computed", "constants", "constants.several"),
    **true_of(of_training("dropped"), "dropped_beside"),
    **true_of(lambda said: said.training.count == 0, "frozen.all", "none_trained"),
    **true_of(all_trained, "trained", "trained_one"),
    "untrained": lambda said: said.fields["lost"] == len(said.training.untrained) > 0,
    "frozen_parameters": lambda said: said.fields["count"] == said.training.frozen,
    "overview": overview, "overview.none": none_could, **true_of(parameters_lost, "parameters_lost", "parameter_lost"),
    "parameters_untrained": lambda said: said.training is not None,
    **true_of(why_of_its_kind, *(code for code in SENTENCES if code.endswith("_why"))),
    "values_lost": each_lacks, "lost": lambda said: said.fields["count"] > 0,
    **true_of(none_reaches, "not_used", "not_seen_used"),
    "combined": lambda said: all(
        str(said.rec[name.strip("'")].status) == "not_connected" for name in names_in(said.fields["others"])
    ),
    **true_of(each_is("not_tensor"), "not_tensors"),
    **true_of(each_is("not_executed"), "never_computed", "no_call_seen"),
    **true_of(lambda said: all("float" not in str(one.dtype) for one in said.listed()), "no_floats"),
    "own_grad": lambda said: not said.about().is_leaf, "states": states, "nothing_from_it": nothing_from_it,
    **true_of(has_note("raised", "raised_at", "interrupted", "rebound"), "raised", "ends_here", "incomplete"),
    **true_of(has_note("caught", "caught_at"), "raised.caught"),
    **true_of(has_note("dataset_loop"), "line_by_line"),
    **true_of(has_note("cut_short_at"), "raised.cut_short"),
    "also_into": lambda said: len(consumers(said, said.entry())) > 1,
    "ends_at": ends_at, "shape_only": nothing_flows, "from_frozen": lambda said: said.about() is not None,
    "own_rule": line_has_text, "conditional": line_has_text,
    "unnamed_output": lambda said: bool(said.rec.record.outputs),
    "hidden_to": lambda said: said.entry() is None, "inside_module": lambda said: said.finding.source is not None,
    "as_another": lambda said: said.entry() is None or str(said.entry().status) != "ok",
    "only_derivative": each_lacks, "cut_in_graph": each_lacks, "not_asked": each_lacks, "model_states": none_reaches,
    **true_of(lost_on_line, "lost_beside", "lost_detached", "lost_derivative"),
    "sampled": lambda said: all(map(is_zero, said.listed())),
    "aliases": lambda said: {*names_in(said.fields["names"])} <= {*said.rec[said.asked].aliases},
    "not_finite": lambda said: said.fields["count"] == int((~said.rec[said.asked].grad.isfinite()).sum()),
    "none_read": lambda said: bool(said.rec.record.none_reads),
    **true_of(gradient_is_there, "none_read_there", "none_read_later"),
    **true_of(of_training("untrained"), "held_by", "held_by.one", "others_reached"),
    "useless": has_note(*USELESS),
    **true_of(lambda said: any(note.fields.get("part") == said.fields["part"] for note in said.rec.record.notes),
              "in_part", "in_loss"),
    "zero_once.several": has_note(*USELESS),
    "zero_once": lambda said: has_note(*USELESS)(said) or is_zero(said.rec[said.fields["gradients"].split("'")[1]]),
    **true_of(lambda said: all(is_zero(one) for one in said.entries if not one.inputs), "zero_here", "zero_here.one"),
    **true_of(lambda said: any(map(is_zero, said.entries)), "zero_everywhere", "zero_everywhere.exactly",
              "zero_kept", "zero_trained"),
    **{code: has_note(note) for code in SENTENCES for note in (code.removeprefix("useless.").partition(".")[0],)
       if note in USELESS and not code.endswith("_next")},
    "of_all": lambda said: {*map(str, said.rec[said.asked].statuses.values())} == {"ok"},
    "of_some": lambda said: "ok" in map(str, said.rec[said.asked].statuses.values()),
    "of_none": lambda said: "ok" not in map(str, said.rec[said.asked].statuses.values()),
    **true_of(read_none, *(code for code in SENTENCES if code.startswith("none_read.") and not code.endswith("_next"))),
}  # fmt: skip
"""By the code of a sentence of ``explain``: what proves it."""


def at_place(held, place):
    """The number at a place like `` at [1, 4]``; None where there is no such number."""
    index = tuple(ast.literal_eval(place.removeprefix(" at "))) if place else ()
    shape = () if not isinstance(held, torch.Tensor) else tuple(held.shape)
    fits = isinstance(held, torch.Tensor) and len(index) == len(shape)
    return numbers(held[index]) if fits and all(at < size for at, size in zip(index, shape, strict=True)) else None


def first_gradient(said):
    """The gradient is not finite at that place, and is what is said."""
    one = said.named(repr(said.fields["wrt"]))
    found = None if one is None else at_place(one.held_grad, said.fields["at"])
    return found is None or not bool(found.isfinite().all())


def factors(said):
    """The two numbers give one that is not finite, and a gradient of the entry or of what it reads is not."""
    derivative, came = (float(said.fields[name].replace("−", "-")) for name in ("derivative", "came"))
    product = torch.tensor(derivative, dtype=torch.float16) * torch.tensor(came)
    return not bool(product.half().isfinite()) and any(map(is_bad_anywhere, said.entries))


def first_place(said):
    """Where the part is all of the line, its value is not finite at that place."""
    one = said.named(repr(said.finding.name))
    is_whole = one is not None and one.source is not None and one.source.expression == said.fields["text"]
    found = at_place(one.held, said.fields["at"]) if is_whole else None
    return found is None or not bool(found.isfinite().all())


STARTS, WORDS = ("born", "came_", "written_", "started"), ("written_out", "written_before")
BIRTHS = [code for code in nonfinite.SENTENCES if code.startswith(STARTS) and code not in WORDS]
NUMBERS = {
    **true_of(is_bad, *BIRTHS, "propagated", "propagated_to", "apart", "output_unexplained", "gradient_unexplained"),
    "healed": lambda said: True if said.finding is None else is_healed(said),
    **true_of(counted, "holds", "gradient"),
    "is_finite": is_finite,
    "is_between": is_between,
    "is_number": holds_its_word,
    "mask": holds_its_word,
    "not_known": is_lost,
    "clean": clean,
    "late": lambda said: all(one.finiteness is None for one in said.entries),
    **true_of(harmless, "harmless", "harmless_healed", "overflow_healed"),
    "begins_at": lambda said: not clean(said) or any(map(is_bad_anywhere, said.entries)),
    "of_shape": lambda said: said.entry() is None or str(said.entry().shape) == str(said.fields["shape"]),
    "heard": is_bad,
    "beyond": is_bad,
    "first_gradient": first_gradient,
    "first_place": first_place,
    **true_of(factors, "factors", "factors_zero"),
    "scaled": lambda said: bool(said.rec.record.scales),
    "optimizer": lambda said: bool(said.rec.record.updates),
    "written_before": lambda said: bool(said.rec.record.updates),
    **true_of(lambda said: bool(said.rec.record.buffers), "buffer_held"),
    **true_of(
        is_bad,
        "spoils",
        "made",
        "made_unknown",
        "received",
        "part",
        "begins",
        "begins_again",
        "masked",
        "diverging",
        "repeated",
        "held_before",
        "first_used",
        "spread_to",
        "inputs_unseen",
        "not_recorded",
        "carried",
        "left",
        "no_line",
        "no_gradient",
    ),
}
"""The same of the sentences about NaN and Inf."""


def is_bad_anywhere(one):
    held = [each for each in (one.held, one.held_grad) if isinstance(each, torch.Tensor)]
    return any(not bool(numbers(each).isfinite().all()) for each in held)


def is_healed(said):
    one = said.named(said.finding.name)
    return one is None or one.finiteness is None or one.finiteness.value is None or one.finiteness.value.is_finite


def rows(one):
    """The value with a unit in each column: channels of images are units."""
    value = numbers(one.value)
    return value.transpose(0, 1).flatten(1).T if value.ndim > 3 else value.reshape(-1, value.shape[-1])


def dead(said):
    """No number is negative, and as large a share is 0 as is said; of single units, so many are 0 in every row."""
    value = rows(said.about())
    zero = value == 0
    share = re.search(r"is dead: a share of (\S+) of what it returns is 0", said.finding.headline)
    if share is not None:
        return bool((value >= 0).all()) and abs(float(zero.double().mean()) - float(share[1])) < 1e-3
    count, units = map(int, re.match(r"(\d+) of (\d+) units", said.finding.headline).groups())
    return value.shape[1] == units and count <= int(zero.all(0).sum()) and bool((value >= 0).all())


def saturated(said):
    """More than half of its numbers lie next to the ends of what tanh, or sigmoid, gives."""
    value = numbers(said.about().value)
    ends = [(value - end).abs() < 1e-6 for end in (-1, 0, 1)]
    return float((ends[0] | ends[1] | ends[2]).double().mean()) > 0.5


def zero_gradient(said):
    """All of it is 0, and where others are named that it comes from, one of these is not."""
    named = [fact for fact in said.finding.facts if fact.startswith("it comes from the gradient of ")]
    given = [said.named(each) for fact in named for each in re.findall(r"'[^']*'", fact)]
    return is_zero(said.about()) and (not given or any(not is_zero(one) for one in given if one is not None))


def zero_partial(said):
    """One of its local partials is 0 everywhere."""
    return any(not numbers(partial).any() for partial in said.rec[said.finding.name].partials.values())


def large(said):
    """The rms of the largest is what is said."""
    size = float(re.search(r"rms (\S+) at ", said.finding.headline)[1])
    rms = float(numbers(said.about().held_grad).square().mean().sqrt())
    return abs(rms - size) <= 0.01 * size and size > 1e4


NORMS = re.compile(r"\d+ layers, from ('.*') to '.*'; norms of the gradient there: (\S+), (\S+)")


def changes(said):
    """The norms at its ends are as they are said, and the first is the smaller, or larger, by the word."""
    match = next(filter(None, map(NORMS.match, said.finding.facts)))
    first, last = float(match[2]), float(match[3])
    one = said.named(match[1])
    own = None if one is None or one.axes else float(numbers(one.held_grad).norm())
    is_right = first < last if said.finding.kind == "vanishing" else first > last
    return is_right and (own is None or abs(own - first) <= 0.01 * first)


def underflow(said):
    """Half of the numbers that are not 0 are subnormal, or all were flushed to 0."""
    one = said.about()
    held = numbers(one.held_grad).abs()
    small = held[held > 0] < torch.finfo(getattr(torch, one.dtype)).smallest_normal
    return not len(small) or float(small.double().mean()) > 0.5


def without_a_gradient(said):
    """Each parameter that is named got none, by the training or by its own entry."""
    names = names_in(said.finding.facts[0].partition(": ")[2])
    lost = (
        {one.name for one in said.training.untrained} | {*said.training.cleared}
        if said.training
        else {one.name for one in said.entries if str(one.status) == "not_connected"}
    )
    return bool(names) and lost.issuperset(names)


HEALTH = {
    "missing": without_a_gradient,
    "never_called": without_a_gradient,
    "dead": dead,
    "dead_units": dead,
    "large_gradients": large,
    "saturated": saturated,
    "zero_gradient": zero_gradient,
    "zero_derivative": zero_partial,
    "vanishing": changes,
    "exploding": changes,
    "underflow": underflow,
}
"""By the kind of a finding of ``health``."""

ADVICE = frozenset({
    "unfreeze", "not_flat", "look", "look_whole", "later_unseen",
    "see_rule", "without_cut", "see_partials", "none_read_recorded", "none_read_item", "none_read_item_retained",
    "none_read_wait", "write_of_module", "write_of_modules", "write_in_modules", "write_of_update", "write_of_carried",
    "detach_kept", "write_in_call", "write_unseen", "write_unknown", "write_flag", "write_of_view", "write",
    "view_written_next.item", "frozen_variables", "frozen_drawn", "frozen_leaves", "rename_reads", "rename_others",
    "rename_if", "give_function", "by_module_name", "notebook_again", "notebook_del", "see_names", "no_lines",
    "see_inside", "see_lines",
    "see_operation", "name_first", "see_kept", "see_which", "see_divisor", "see_negative", "see_more",
    "tried_instead", "smaller_steps", "lower_scale", "double_where", "instead", "stands_for", "stands_for_input",
    "or_else",
    "reset_statistics", "rounded_softmax", "rounded_sigmoid", "sum_of_others", "inverse_of_sigmoid", "root_of_rounded",
    "cancelled_exp", "cancelled_exp_at_zero", "rounded_tanh", "rounded_product", "overflowing_exp", "clipped_exp",
    "root_of_exp", "root_of_square", "zero_log_zero", "root_at_zero", "power_at_zero", "divided_by_root",
    "norm_at_zero", "one_element", "logit_at_one", "lgamma_at_zero", "inverse_at_one", "angle_of_zero", "log_of_zero",
    "rounded_below_zero", "division_by_zero", "exp_overflows", "masked_row", "no_target", "left_out",
    "remedy_unjudged",
    *(code for code in SENTENCES if code.partition(".")[0] == "rename"),
})  # fmt: skip

PARTS = frozenset({
    "none_read_norm", "none_read_made", "none_read_by.cleared", "none_read_by.retained_late", "none_read_by.limited",
    "switched_at", "backward_at", "made_in", "hooks", "cut_beside", "unseen_run", "callers", "not_selected_on",
    "hidden_of", "hidden_cut", "lost_beside_more", "assigned_between", "about_outputs", "replaced_values",
    "gradient_of", "gradients_of", "when", "when.1", "when.call", "cancelled", "cancelled.zero",
    "why_unknown", "reached_by_all", "reached_by_some", "reached_by_one",
    *(code for code in SENTENCES if code.partition(".")[0] in ("meant", "taken")),
    "what_is_recorded", "is_born", "is_born_of_inf", "module", "model", "zero_zero", "zero_inf", "inf_minus_inf",
    "inf_inf", "by_zero", "by_nearly_zero", "remainder", "zero_to_negative", "fractional_power", "negative_root", "at",
    "below", "outside", "infinite_row", "infinite_terms", "too_few", "determinant_zero", "determinant_below",
    "not_definite", "singular", "all_ignored", "overflow", "overflow_of", "overflow_by_scale", "scale_not_finite",
    "written_out", "pole", "pole_nan", "pole_undefined", "pole_of_result", "exponent_of_negative", "pole_zero",
    "zero_gradient_nan", "zero_gradient_inf", "zero_gradient_part", "zero_gradient", "infinite_gradient",
    "derivative_bad", "derivative_zero", "of_operation", "of_element", "heard_in",
    "no_numbers", "one_number", "numbers_from", "some_numbers", "value_there", "result_there", "came_there",
    "eigenvalue", "matrix_determinant", "pivot", "equal_values",
    "freed_before",
    "finite_gradient", "unknown_number", "unseen_line", "and_more", "by_op", "unread", "births_unjudged", "failed",
})  # fmt: skip

OF_ERRORS = frozenset(
    {
        "rebound",
        "rebound.since",
        "rebound.hidden",
        "rebound.local",
        "rebound_raised",
        "rebound_defined",
        "rebound_there",
        "in_place",
        "freed",
        "freed_itself",
        "no_history",
        "not_scalar",
        "no_rule",
        "not_in_graph",
        "leaf_written",
        "leaf_view_written",
        "view_written",
        "view_written.hook",
        "no_history_in_backward",
        "inference",
        "integer_leaf",
        "saved_for",
        "written_unseen",
        "by_module",
        "all_none",
        "unconnected",
        "none_requires",
        *(code for code in SENTENCES if code.startswith("grad_none.") and not code.endswith("_next")),
    }
)

OF_GRAPHS = frozenset(
    {
        "made_leaf.loss",
        "frozen.leaf",
        "not_retained",
        "made_again.view",
        "shared",
        "loss_without",
        "tensor_without",
        "loss_leaf",
        "saved_by",
        "same_memory",
        "own_pass",
        "other_operation",
        "made_of_other",
        "computed_by",
        "loss_leads_to",
        "path_unseen",
        "path_filled",
        "path",
        "no_path",
        "graph_freed",
        "python_nodes",
        "unused.tensor",
    }
)

OF_EXPERIMENTS = frozenset(
    {
        "bridged",
        "bridged.several",
        "moved",
        "used_last",
        "flat_everywhere",
        "stays",
        "left_framework",
        "discrete",
        "same_numbers",
        "new_numbers",
        "nudged",
        "cured",
        "cured_here",
        "cured_equal",
        "cured_changed",
        "cured_script",
        "cured_script_kind",
        "cured_script_here",
        "losses_equal",
        "losses_changed",
        "history_ends",
    }
)
"""What another run has shown: programs are in ``tests/test_experiments.py`` and ``tests/test_script_ends.py``."""

OF_TAPES = frozenset(
    {
        "outside_tape",
        "watched_late",
        "watched_after",
        "constant_target",
        "not_watched",
        "not_watched.variable",
        "not_watched.rebound",
        "not_watched.not_trainable",
        "asked_for_nothing",
        "no_derivative",
        "zero_derivative.operation",
        "own_gradient",
        "own_gradient.zero",
        "own_gradient.inside",
        "graph_cut",
        "graph_cut.by_hand",
        "tape_stopped",
        "none_in_graph",
        "none_held",
        "none_given",
        "none_for",
        "zeros_for",
        "asked_for",
        "same_of",
        "own_tape",
        "no_way",
    }
)
