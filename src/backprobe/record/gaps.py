"""Reasons why a name has no row in one step of a run."""

from __future__ import annotations

from enum import Enum


class GapCode(Enum):
    """One reason; its value is stored in a run on disk."""

    NOT_CALLED = "not_called"
    NO_GRAD = "no_grad"
    OTHER_THREAD = "other_thread"
    UNHEARD = "unheard"
    NOT_RETURNED = "not_returned"
    NO_TENSOR = "no_tensor"
    PARTIAL = "partial"
    UNREADABLE = "unreadable"
    NOT_BOUND = "not_bound"
    OTHER_FORWARD = "other_forward"
    NO_GRADIENT = "no_gradient"
    WRITTEN = "written"
    EMPTY_GRADIENT = "empty_gradient"
    COMPUTED = "computed"
    NOT_OPTIMIZED = "not_optimized"
    NOT_STEPPED = "not_stepped"
    REMOVED = "removed"
    # Reasons for steps that are missing as a whole.
    NO_BACKWARD = "no_backward"
    OPEN = "open"
    SKIPPED = "skipped"
    SKIPPED_NAN = "skipped_nan"
    NOT_WRITTEN = "not_written"
    CUT_SHORT = "cut_short"

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


MEANINGS = {
    GapCode.NOT_CALLED: "no call of it was seen",
    GapCode.NO_GRAD: "it was called without recording gradients only, as under torch.no_grad()",
    GapCode.OTHER_THREAD: "it was called in other threads only, which are not watched",
    GapCode.UNHEARD: "no call of it was seen, and its parameters have gradients: its forward() or its parameters were "
    "used directly, or its code was compiled before it was watched",
    GapCode.NOT_RETURNED: "it was called, and did not return this tensor",
    GapCode.NO_TENSOR: "it was called, and returned no tensor and no container of tensors: None, or an object of "
    "another class, which is not opened",
    GapCode.PARTIAL: "each process had only its part of it, which was not reduced yet (a DTensor that is Partial)",
    GapCode.UNREADABLE: "it was there, and its numbers could not be read: a meta tensor, a tensor whose memory was "
    "freed, or one of a class of its own",
    GapCode.NOT_BOUND: "the forward ran, and bound it to no floating-point tensor",
    GapCode.OTHER_FORWARD: "its module was called, and another forward ran in place of its own, as within bp.probe",
    GapCode.NO_GRADIENT: "it had a value, and no gradient came back to it",
    GapCode.WRITTEN: "it is a view whose memory was written to before backward(): the gradient goes around it",
    GapCode.EMPTY_GRADIENT: "its .grad was None as the optimizer stepped, or at run.step()",
    GapCode.COMPUTED: "it is no leaf, since the program computed it: backward() sets the .grad of leaves only",
    GapCode.NOT_OPTIMIZED: "no watched optimizer has it",
    GapCode.NOT_STEPPED: "its optimizer did not step",
    GapCode.REMOVED: "it was no longer a part of the model",
    GapCode.NO_BACKWARD: "backward() did not run through the model",
    GapCode.OPEN: "no optimizer had ended it as the watch did, and backward() ran far more often than in others",
    GapCode.SKIPPED: "the GradScaler skipped the step, since it found Inf or NaN in gradients",
    GapCode.SKIPPED_NAN: "the GradScaler skipped the step, and the forward had NaN already: no scale of the loss makes "
    "that",
    GapCode.NOT_WRITTEN: "nothing of them is in the run: start_step= left them out, or nothing in them was measured",
    GapCode.CUT_SHORT: "the run was not closed: the training was killed, still runs, or could no longer be written",
}
