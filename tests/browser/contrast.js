// The texts of a page whose contrast with what is behind them is too low, each with its contrast.
(texts) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const numbers = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const over = (color, behind) => {
    const [under, [r, g, b, a]] = [numbers(behind), numbers(color)];
    return `rgb(${[r, g, b].map((each, at) => (each * a + under[at] * (255 - a)) / 255).join()})`;
  };
  const light = (color) =>
    numbers(color)
      .slice(0, 3)
      .map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
      .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const isWithin = (inner, outer) =>
    inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top && inner.bottom <= outer.bottom;
  // What lies behind a text, from the front: the shapes of a picture that it stands on, and the colours around it.
  const layers = (node) => {
    const shapes = [...(node.closest("svg")?.querySelectorAll("polygon, path[fill]") ?? [])].reverse();
    const around = shapes
      .filter((shape) => isWithin(node.getBoundingClientRect(), shape.getBoundingClientRect()))
      .map((shape) => getComputedStyle(shape).fill)
      .filter((fill) => fill !== "none");
    for (; node; node = node.parentElement) around.push(getComputedStyle(node).backgroundColor);
    return around.slice(0, around.findIndex((color) => numbers(color)[3] === 255) + 1).reverse();
  };
  const behind = (node) => layers(node).reduce((under, color) => over(color, under));
  const ink = (node) => getComputedStyle(node)[node.closest("svg") ? "fill" : "color"];
  return [...document.querySelectorAll(texts)]
    .filter((node) => node.checkVisibility() && node.textContent.trim())
    .map((node) => {
      const [one, other] = [light(over(ink(node), behind(node))), light(behind(node))].sort((a, b) => b - a);
      return [node.textContent, (one + 0.05) / (other + 0.05)];
    })
    .filter(([, contrast]) => contrast < 4.5);
};
