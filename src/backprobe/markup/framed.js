// Tells the page in the frame (this) whether the notebook is dark: what is around it has light text then.
const around = this.parentElement;
const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const tell = () => {
  pen.fillStyle = getComputedStyle(around).color;
  pen.fillRect(0, 0, 1, 1);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  this.contentWindow.postMessage(red + green + blue > 382 ? "dark" : "light", "*");
};
around.style.transition = "color 1ms"; // which makes a change of the notebook's theme an event
around.ontransitionend = tell;
tell();
