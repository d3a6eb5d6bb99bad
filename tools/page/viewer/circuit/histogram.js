// The histogram of a tensor, and its statistics in words.

import { drawn, element, plural, rounded } from "./elements.js";

const WIDTH = 280;
const HEIGHT = 64;

export function chart(statistics, what) {
  if (!statistics) return null;
  const { bars, least, greatest, read, size } = statistics;
  const parts = [words(statistics)];
  if (bars) {
    const most = Math.max(...bars);
    const width = WIDTH / bars.length;
    const rectangles = bars.map((count, at) => {
      const height = count ? Math.max(1, (count / most) * HEIGHT) : 0;
      return drawn("rect", { x: at * width, y: HEIGHT - height, width: Math.max(1, width - 1), height });
    });
    const sampled = read < size ? `, ${read.toLocaleString("en")} of ${plural(size, "element")}` : "";
    const spoken = `Histogram of the ${what} from ${rounded(least)} to ${rounded(greatest)}${sampled}`;
    const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
    parts.unshift(
      drawn(
        "svg",
        { class: "chart", viewBox, preserveAspectRatio: "none", role: "img", "aria-label": spoken },
        rectangles,
      ),
      element(
        "div",
        { class: "ends", "aria-hidden": "true" },
        element("span", {}, rounded(least)),
        element("span", {}, rounded(greatest)),
      ),
    );
  }
  return element("div", { class: "statistics" }, parts);
}

function words({ size, rms, largest, nonfinite, read, median, zeros, least, greatest }) {
  const about = read < size ? ` (of ${read.toLocaleString("en")} read)` : "";
  const facts = least !== undefined && least === greatest ? [[`all equal${about}`, rounded(least)]] : [];
  facts.push(["rms", rounded(rms)], ["largest magnitude", rounded(largest)], ["elements", size.toLocaleString("en")]);
  if (nonfinite) facts.push(["not finite", nonfinite.toLocaleString("en")]);
  if (median !== undefined) facts.push([`median${about}`, rounded(median)]);
  if (zeros) facts.push([`zeros${about}`, zeros.toLocaleString("en")]);
  return element(
    "dl",
    {},
    facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}
