// Numbers, counts and times in words.

export function rounded(number, digits = 4) {
  if (number === null || number === undefined) return "–";
  if (Number.isNaN(number)) return "NaN";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1e6) return grouped(number);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    const [digit, exponent] = number.toExponential(digits - 1).split("e");
    return `${+digit}e${+exponent}`.replace(/-/g, "−");
  }
  return String(+number.toPrecision(digits)).replace("-", "−");
}

export const grouped = (number) => number.toLocaleString("en").replace("-", "−");

export const plural = (count, word) => `${grouped(count)} ${word}${count === 1 ? "" : "s"}`;

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

export const powerOf = (base, exponent) => `${base}${[...String(exponent)].map((sign) => RAISED[sign]).join("")}`;

export function ago(seconds) {
  if (seconds < 2) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

export const stepsOf = (first, last) => (first === last ? `step ${grouped(first)}` : `steps ${grouped(first)} to ${grouped(last)}`);
