// The chain rule along a path from a value to the output: which paths there are, and the product along one.

export class Chains {
  constructor(recording) {
    this.recording = recording;
    this.counts = new Map(); // how many paths lead from each value to an output
    for (const at of [...recording.order].reverse()) {
      if (!recording.values.has(at)) continue;
      const own = recording.outputSet.has(at) ? 1n : 0n;
      this.counts.set(
        at,
        this.edges(at).reduce((sum, edge) => sum + (this.counts.get(edge.to) ?? 0n), own),
      );
    }
  }

  edges(at) {
    return this.recording.onward.get(at).filter((edge) => edge.carries);
  }

  // The edges by which a path may go on, that along which most flows back first.
  #options(at) {
    const onward = this.edges(at).filter((edge) => this.counts.get(edge.to) > 0n);
    const size = (edge) => (Number.isFinite(Number(edge.rms ?? NaN)) ? Number(edge.rms) : -1);
    return onward.sort((a, b) => size(b) - size(a) || a.to - b.to);
  }

  // The path from a value by the choices that were made, else by the first option each time.
  path(at, choices) {
    const steps = [];
    while (!this.recording.outputSet.has(at)) {
      const options = this.#options(at);
      if (!options.length) return null;
      const edge = options.find((one) => one.to === choices.get(at)) ?? options[0];
      steps.push({ edge, options });
      at = edge.to;
    }
    return { steps, end: at, seed: this.recording.values.get(at).number };
  }
}

// The product of the numbers along a path; null where one of them is a tensor, or was not recorded.
export function product({ steps, seed }) {
  const numbers = [seed, ...steps.map(({ edge }) => edge.number)];
  return numbers.some((one) => one === null || one === undefined)
    ? null
    : numbers.reduce((all, one) => all * Number(one), 1);
}
