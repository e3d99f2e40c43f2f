/** Draws saliency maps on canvases, as trainer/heat.py draws them. */

/** Draws with the colours of the server. */
export class Painter {
  #heat;
  #change;
  #opacity;

  /** `heat` and `change` are lists of 256 colours #rrggbb, `opacity` is that of the largest difference. */
  constructor({ heat, change, opacity }) {
    this.#heat = heat.map(rgb);
    this.#change = change.map(rgb);
    this.#opacity = opacity;
  }

  /** The colour maps as CSS gradients. */
  get gradients() {
    const gradient = (colors) => {
      const stops = colors.filter((_, index) => index % 15 === 0);
      return `linear-gradient(90deg, ${stops.map((stop) => `rgb(${stop})`).join(", ")})`;
    };
    return { heat: gradient(this.#heat), change: gradient(this.#change) };
  }

  /** Draw heat colours over the image in its own colours; the opacity grows in proportion to the values. */
  heat(canvas, map) {
    this.#heatmap(canvas, map, (level) => level);
  }

  /** Draw heat colours over the dimmed image; the square root makes small values visible. */
  focus(canvas, map) {
    const alpha = Array.from({ length: 256 }, (_, level) => 255 * Math.sqrt(level / 255));
    this.#heatmap(canvas, map, (level) => alpha[level]);
  }

  /** Draw opaque heat colours. */
  map(canvas, map) {
    this.#heatmap(canvas, map, () => 255);
  }

  /**
   * Draw where map `b` has a larger and where a smaller share than `a`; larger differences are more opaque. The canvas
   * lies over the image of `b`.
   */
  difference(canvas, a, b) {
    const differences = differencesOf(a, b);
    const largest = differences.reduce((max, value) => Math.max(max, Math.abs(value)), 1e-12);
    draw(canvas, b, (pixels) => {
      differences.forEach((difference, index) => {
        const part = difference / largest;
        pixels.set(this.#change[Math.round(127.5 + 127.5 * part)], 4 * index);
        pixels[4 * index + 3] = Math.round(255 * this.#opacity * Math.sqrt(Math.abs(part)));
      });
    });
  }

  #heatmap(canvas, map, alpha) {
    draw(canvas, map, (pixels, { values }) => {
      for (let index = 0; index < values.length; index += 1) {
        const level = Math.round(255 * values[index]);
        pixels.set(this.#heat[level], 4 * index);
        pixels[4 * index + 3] = alpha(level);
      }
    });
  }
}

/** `b` minus `a`, each divided by its mean, on the grid of `b`. */
function differencesOf(a, b) {
  const differences = new Float32Array(b.values.length);
  const [scaleA, scaleB] = [a, b].map((map) => 1 / Math.max(map.total / (map.width * map.height), 1e-12));
  for (let y = 0; y < b.height; y += 1) {
    const row = Math.floor(((y + 0.5) * a.height) / b.height) * a.width;
    for (let x = 0; x < b.width; x += 1) {
      const other = a.values[row + Math.floor(((x + 0.5) * a.width) / b.width)];
      differences[y * b.width + x] = b.values[y * b.width + x] * scaleB - other * scaleA;
    }
  }
  return differences;
}

function draw(canvas, map, fill) {
  [canvas.width, canvas.height] = [map.width, map.height];
  const image = new ImageData(map.width, map.height);
  fill(image.data, map);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function rgb(hex) {
  const number = parseInt(hex.trim().slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}
