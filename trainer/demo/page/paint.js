/** Draws saliency maps on canvases, as trainer/heat.py and trainer/prediction/render.py draw them. */

/** Draws with the colours and levels of the server. */
export class Painter {
  #heat;
  #change;
  #opacity;
  #levels;
  #lines;
  #ink;
  #halo;

  /**
   * `heat` and `change` are lists of 256 colours #rrggbb, `opacity` is that of the largest difference, `levels` are the
   * percentages that contours enclose, `lines` their colours; each line has a rim of colour `ink` and opacity `halo`.
   */
  constructor({ heat, change, opacity, levels, lines, ink, halo }) {
    this.#heat = heat.map(rgb);
    this.#change = change.map(rgb);
    this.#opacity = opacity;
    this.#levels = levels;
    this.#lines = lines;
    this.#ink = ink;
    this.#halo = halo;
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

  /** Draw lines that enclose the percentages of the attention. */
  contour(canvas, map) {
    draw(canvas, map, (pixels) => {
      const lines = thresholds(map, this.#levels).map((threshold, index) => [threshold, this.#lines[index]]);
      // The line that encloses least is drawn last, on top.
      for (const [threshold, color] of lines.sort(([a], [b]) => a - b)) this.#drawLine(pixels, map, threshold, color);
    });
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

  /** Draw an antialiased line where the map has the value `threshold`; its dark rim makes it visible on any image. */
  #drawLine(pixels, { values, width, height }, threshold, color) {
    const linePx = Math.max(1.5, Math.min(width, height) / 220);
    for (let y = 1; y < height - 1; y += 1) {
      for (let x = 1; x < width - 1; x += 1) {
        const at = y * width + x;
        const slope = Math.hypot(values[at + 1] - values[at - 1], values[at + width] - values[at - width]) / 2;
        const distance = slope > 0 ? Math.abs(values[at] - threshold) / slope : Infinity;
        const rim = this.#halo * Math.min(Math.max(linePx + 0.5 - distance, 0), 1);
        if (!rim) continue;
        const core = Math.min(Math.max(linePx / 2 + 0.5 - distance, 0), 1);
        pixels.set(color.map((value, part) => value * core + this.#ink[part] * (1 - core)), 4 * at);
        pixels[4 * at + 3] = 255 * Math.max(core, rim);
      }
    }
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

/** For each percentage: the value for which the cells of at least this value hold this percentage of the map's sum. */
function thresholds({ values, total }, levels) {
  const sorted = values.slice().sort().reverse();
  const results = [];
  let sum = 0;
  for (const value of sorted) {
    sum += value;
    while (results.length < levels.length && sum >= (levels[results.length] / 100) * total) results.push(value);
  }
  return [...results, ...Array(levels.length - results.length).fill(sorted.at(-1))];
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
