/** Draws saliency maps on canvases, by the rules of trainer/render.py. */

const INK = [24, 24, 27];
const HALO = 0.7;

/** The colours and levels that the server draws with, too. */
export class Painter {
  #heat;
  #levels;
  #lines;

  /** `heat` has 256 colours as #rrggbb, `levels` the percentages that contours enclose, `lines` their colours. */
  constructor({ heat, levels, lines }) {
    this.#heat = heat.map(rgb);
    this.#levels = levels;
    this.#lines = lines;
  }

  /** The CSS gradient of the colours. */
  get gradient() {
    const stops = this.#heat.filter((_, index) => index % 15 === 0);
    return `linear-gradient(90deg, ${stops.map((stop) => `rgb(${stop})`).join(", ")})`;
  }

  /** Heat colours, the more opaque the larger the value: the root lets weak values be seen. */
  overlay(canvas, map) {
    const alpha = Array.from({ length: 256 }, (_, level) => 255 * Math.sqrt(level / 255));
    this.#heatmap(canvas, map, (level) => alpha[level]);
  }

  /** Heat colours alone. */
  map(canvas, map) {
    this.#heatmap(canvas, map, () => 255);
  }

  /** Lines around the places that hold 25, 50 and 75% of the attention. */
  contour(canvas, map) {
    draw(canvas, map, (pixels) => {
      const found = thresholds(map, this.#levels).map((threshold, index) => [threshold, this.#lines[index]]);
      // The one that encloses least lies on top.
      for (const [threshold, color] of found.sort(([a], [b]) => a - b)) drawLine(pixels, map, threshold, color);
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

/**
 * Where map `b` has a larger share than `a` in orange, where a smaller one in blue, on the canvas of `b`; the largest
 * difference is opaque.
 */
export function paintDifference(canvas, a, b) {
  draw(canvas, b, (pixels, { values, width, height }) => {
    const differences = new Float32Array(values.length);
    const scale = { a: (a.width * a.height) / a.total, b: (width * height) / b.total };
    let largest = 1e-12;
    for (let y = 0; y < height; y += 1) {
      const row = Math.floor(((y + 0.5) * a.height) / height) * a.width;
      for (let x = 0; x < width; x += 1) {
        const other = a.values[row + Math.floor(((x + 0.5) * a.width) / width)];
        const difference = values[y * width + x] * scale.b - other * scale.a;
        differences[y * width + x] = difference;
        largest = Math.max(largest, Math.abs(difference));
      }
    }
    const [more, less] = ["--more", "--less"].map((name) => rgb(getComputedStyle(canvas).getPropertyValue(name)));
    differences.forEach((difference, index) => {
      pixels.set(difference > 0 ? more : less, 4 * index);
      pixels[4 * index + 3] = 235 * Math.sqrt(Math.abs(difference) / largest);
    });
  });
}

/** For each percentage: the value so that all of at least this value hold so much of the map's sum. */
function thresholds({ values, total }, levels) {
  const sorted = values.slice().sort().reverse();
  const found = [];
  let sum = 0;
  for (const value of sorted) {
    sum += value;
    while (found.length < levels.length && sum >= (levels[found.length] / 100) * total) found.push(value);
  }
  return [...found, ...Array(levels.length - found.length).fill(sorted.at(-1))];
}

function draw(canvas, map, fill) {
  [canvas.width, canvas.height] = [map.width, map.height];
  const image = new ImageData(map.width, map.height);
  fill(image.data, map);
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** A smooth line where the map has the value `threshold`, with a dark rim that lets it be seen on any picture. */
function drawLine(pixels, { values, width, height }, threshold, color) {
  const linePx = Math.max(1.5, Math.min(width, height) / 220);
  for (let y = 1; y < height - 1; y += 1) {
    for (let x = 1; x < width - 1; x += 1) {
      const at = y * width + x;
      const slope = Math.hypot(values[at + 1] - values[at - 1], values[at + width] - values[at - width]) / 2;
      const distance = slope > 0 ? Math.abs(values[at] - threshold) / slope : Infinity;
      const rim = HALO * Math.min(Math.max(linePx + 0.5 - distance, 0), 1);
      if (!rim) continue;
      const core = Math.min(Math.max(linePx / 2 + 0.5 - distance, 0), 1);
      pixels.set(color.map((value, part) => value * core + INK[part] * (1 - core)), 4 * at);
      pixels[4 * at + 3] = 255 * Math.max(core, rim);
    }
  }
}

function rgb(hex) {
  const number = parseInt(hex.trim().slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}
