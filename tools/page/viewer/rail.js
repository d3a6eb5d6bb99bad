// The time line: where alerts begin, and the steps that lack something.

import { html, useLayoutEffect, useRef } from "../vendor/preact.js";
import { token } from "./colours.js";
import { plural } from "./words.js";

const HEIGHT = 18;
const NEAR = 8; // pixels

export function Rail({ width, side, range, alerts, gaps, chosen, theme, onAlert, onGap }) {
  const canvas = useRef(null);
  const inside = alerts.filter(({ step }) => step >= range[0] && step < range[1]);
  const at = (step) => ((step - range[0]) / (range[1] - range[0])) * width;
  useLayoutEffect(() => {
    const ratio = devicePixelRatio;
    const { current } = canvas;
    if (!current) return;
    Object.assign(current, { width: Math.max(1, width * ratio), height: HEIGHT * ratio });
    const pen = current.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = token("--gap");
    for (const gap of gaps) {
      for (const [first, last] of gap.steps) pen.fillRect(at(first), HEIGHT - 5, Math.max(2, at(last + 1) - at(first)), 4);
    }
    for (const alert of inside) {
      const x = Math.max(5, Math.min(width - 5, at(alert.step + 0.5)));
      pen.fillStyle = token(alert === chosen ? "--ink" : "--mark");
      pen.beginPath();
      pen.moveTo(x - 5, 1);
      pen.lineTo(x + 5, 1);
      pen.lineTo(x, 11);
      pen.fill();
    }
  }, [width, range[0], range[1], alerts, gaps, chosen, theme]);
  const click = (event) => {
    const x = event.offsetX;
    const near = inside.map((alert) => [Math.abs(at(alert.step + 0.5) - x), alert]).sort((a, b) => a[0] - b[0])[0];
    if (near && near[0] <= NEAR) return onAlert(near[1]);
    const step = range[0] + (x / width) * (range[1] - range[0]);
    const gap = gaps.find((one) => one.steps.some(([first, last]) => step >= first - 1 && step <= last + 2));
    return gap && onGap(gap);
  };
  if (!alerts.length && !gaps.length) return null;
  const words = `${plural(alerts.length, "alert")} and ${plural(gaps.length, "gap")} over the steps; the list beside has them`;
  return html`<div class="rail">
    <span class="of-rail" style=${{ width: `${side}px` }}>alerts and gaps</span>
    <canvas ref=${canvas} role="img" aria-label=${words} style=${{ width: `${width}px`, height: `${HEIGHT}px` }} onclick=${click}></canvas>
  </div>`;
}
