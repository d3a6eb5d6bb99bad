// A field in bins of steps: what a row shows of the names that it stands for, bin by bin.

const KIND = /^nonfinite /;

export class Grid {
  #ends;
  #medians = new Map();
  #signed;

  constructor(found, field, stride) {
    Object.assign(this, found, { field, stride });
    this.count = found.first.length;
    this.least ??= found.greatest;
    this.kinds = Object.keys(found).filter((key) => KIND.test(key)).map((key) => key.replace(KIND, ""));
    this.placeOf = new Map(found.names.map((name, at) => [name, at]));
    this.rows = new Map();
  }

  row(row) {
    // Planes of one row: least, greatest, and by kind in how many steps of each bin something is not finite.
    if (!this.rows.has(row.asks)) this.rows.set(row.asks, this.#joined(row));
    return this.rows.get(row.asks);
  }

  placesOf(row) {
    const asked = this.placeOf.get(row.asks);
    if (asked !== undefined) return [asked];
    return row.stands.map((name) => this.placeOf.get(name)).filter((place) => place !== undefined);
  }

  plane(name, place) {
    return this[name].subarray(place * this.count, (place + 1) * this.count);
  }

  #joined(row) {
    const places = this.placesOf(row);
    const least = new Float32Array(this.count).fill(NaN);
    const greatest = new Float32Array(this.count).fill(NaN);
    const nonfinite = {};
    for (const place of places) {
      const [low, high] = [this.plane("least", place), this.plane("greatest", place)];
      for (let at = 0; at < this.count; at++) {
        if (!(least[at] <= low[at])) least[at] = Number.isNaN(low[at]) ? least[at] : low[at];
        if (!(greatest[at] >= high[at])) greatest[at] = Number.isNaN(high[at]) ? greatest[at] : high[at];
      }
      for (const kind of this.kinds) {
        const counts = this.plane(`nonfinite ${kind}`, place);
        counts.forEach((count, at) => {
          if (count) (nonfinite[kind] ??= new Uint32Array(this.count))[at] = Math.max(nonfinite[kind]?.[at] ?? 0, count);
        });
      }
    }
    return { places, least, greatest, nonfinite };
  }

  #median(place) {
    // The median over the bins of what is greatest in each, of those that have a number that is not zero.
    if (!this.#medians.has(place)) {
      const known = this.plane("greatest", place).filter((one) => Number.isFinite(one) && one !== 0).map(Math.abs).sort();
      this.#medians.set(place, known.length ? known[known.length >> 1] : NaN);
    }
    return this.#medians.get(place);
  }

  changes(row) {
    // By how many powers of ten each bin is from the name's own median: of all names of a row, the greatest such change.
    return this.#extreme(row, (place) => {
      const median = this.#median(place);
      const plane = this.plane("greatest", place);
      return (at) => Math.log10(Math.abs(plane[at]) / median);
    });
  }

  ratios(row, other) {
    // By how many powers of ten each bin is above that of the same steps in the other run.
    const across = Int32Array.from(this.first, (first, at) => other.binAt((first + this.last[at]) / 2));
    return this.#extreme(row, (place) => {
      const partner = other.placeOf.get(this.names[place]);
      if (partner === undefined) return () => NaN;
      const [own, theirs] = [this.plane("greatest", place), other.plane("greatest", partner)];
      return (at) => (across[at] < 0 ? NaN : Math.log10(Math.abs(own[at] / theirs[across[at]])));
    });
  }

  strongest(row) {
    // Of each bin what is farthest from 0.
    const { least, greatest } = this.row(row);
    return greatest.map((one, at) => (Math.abs(least[at]) > Math.abs(one) ? least[at] : one));
  }

  #extreme(row, of) {
    const found = new Float32Array(this.count).fill(NaN);
    for (const place of this.row(row).places) {
      const value = of(place);
      for (let at = 0; at < this.count; at++) {
        const one = value(at);
        if (Number.isFinite(one) && !(Math.abs(found[at]) >= Math.abs(one))) found[at] = one;
      }
    }
    return found;
  }

  binAt(step) {
    // The bin that has this step; -1 where none has.
    let low = 0;
    let high = this.count - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (step < this.first[middle]) high = middle - 1;
      else if (step >= this.last[middle] + this.stride) low = middle + 1;
      else return middle;
    }
    return -1;
  }

  get isSigned() {
    this.#signed ??= /\.(sum|mean|min|max)$/.test(this.field) && this.least.some((one) => one < 0);
    return this.#signed;
  }

  get range() {
    // Powers of ten between which nearly all of it lies.
    if (!this.#ends) {
      const sizes = this.greatest.filter((one) => Number.isFinite(one) && one !== 0).map(Math.abs).sort();
      const at = (part) => Math.log10(sizes[Math.min(sizes.length - 1, Math.floor(part * sizes.length))]);
      const ends = sizes.length ? [Math.floor(at(0.02)), Math.ceil(at(0.999))] : [-3, 0];
      this.#ends = [ends[0], Math.max(ends[0] + 1, ends[1])];
    }
    return this.#ends;
  }
}
