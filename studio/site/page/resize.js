/**
 * Resizes images, and maps back, as trainer/prediction/predictor.py does with trainer/network/preprocess.py.
 *
 * A grid {values, width, height, channels} has its values row by row, those of a pixel beside each other.
 */

const PADDING = 126;
/** The parameter of TensorFlow 1's bicubic kernel, and the steps from a pixel to the next in its table. */
const SHARPNESS = -0.75;
const STEPS = 1024;

const { ceil, floor, fround, max, min } = Math;

/** Round half to even, as Python and NumPy do. */
export function rint(value) {
  const rounded = Math.round(value);
  return Math.abs(value % 1) === 0.5 && rounded % 2 ? rounded - 1 : rounded;
}

// === To the network and back ===

/** Fit the rows [top, bottom] of an image, a grid with 3 or more channels, into the network's input: a grid (H, W, 3). */
export function prepare(image, [top, bottom], [frameHeight, frameWidth]) {
  const line = image.width * image.channels;
  const part = { ...image, values: image.values.subarray(top * line, bottom * line), height: bottom - top };
  const size = scaled(part, min(frameHeight / part.height, frameWidth / part.width));
  const fitted = resize(part, size, { top: 0, left: 0, ...size });
  const frame = new Float32Array(frameHeight * frameWidth * 3).fill(PADDING);
  const [down, across] = [floor((frameHeight - size.height) / 2), floor((frameWidth - size.width) / 2)];
  for (let y = 0; y < size.height; y += 1) {
    for (let x = 0; x < size.width; x += 1) {
      for (let channel = 0; channel < 3; channel += 1) {
        const value = fitted.values[(y * size.width + x) * image.channels + channel];
        frame[((y + down) * frameWidth + x + across) * 3 + channel] = min(max(value, 0), 255);
      }
    }
  }
  return { values: frame, width: frameWidth, height: frameHeight, channels: 3 };
}

/** The mirror image of a grid. */
export function mirrored({ values, width, height, channels }) {
  const turned = new Float32Array(values.length);
  for (let pixel = 0; pixel < width * height; pixel += 1) {
    const from = (pixel + width - 1 - 2 * (pixel % width)) * channels;
    for (let channel = 0; channel < channels; channel += 1) turned[pixel * channels + channel] = values[from + channel];
  }
  return { values: turned, width, height, channels };
}

/** Bring the prediction of a screen to the screen's size {width, height}: a grid of 0..1. */
export function restore(prediction, size) {
  const restored = resizeBack(prediction, size);
  for (let at = 0; at < restored.values.length; at += 1) restored.values[at] = min(max(restored.values[at], 0), 1);
  return restored;
}

/** The size of the reduced map of each of `count` screens: a longer side of `most` values, or of several the square of that. */
export function reduced({ width, height }, count, most) {
  return scaled({ width, height }, min(1, most / (count === 1 ? max(width, height) : Math.sqrt(count * width * height))));
}

/** Average parts of a map, so that it has a smaller size. */
export function shrink(map, size) {
  return sumColumns(sumRows(map, blocks(map.height, size.height)), blocks(map.width, size.width));
}

/** The pixels of a line of `length` that each of `n` values averages: those whose middle is in it, as Pillow's BOX has them. */
function blocks(length, n) {
  const scale = length / n;
  return Array.from({ length: n }, (_, index) => {
    const centre = (index + 0.5) * scale;
    const [first, end] = [max(0, floor(centre - 0.5 * scale + 0.5)), min(length, floor(centre + 0.5 * scale + 0.5))];
    const isInside = (place) => (place - centre + 0.5) * (1 / scale) > -0.5 && (place - centre + 0.5) * (1 / scale) <= 0.5;
    const places = Int32Array.from({ length: end - first }, (_, tap) => first + tap).filter(isInside);
    return { places, weights: new Float64Array(places.length).fill(1 / places.length) };
  });
}

/** Resize a prediction until both sides cover the size, and keep its centre. */
function resizeBack(prediction, size) {
  const whole = scaled(prediction, max(size.height / prediction.height, size.width / prediction.width));
  const [top, left] = [floor((whole.height - size.height) / 2), floor((whole.width - size.width) / 2)];
  return resize(prediction, whole, { top, left, ...size });
}

function scaled({ width, height }, ratio) {
  return { width: max(1, rint(width * ratio)), height: max(1, rint(height * ratio)) };
}

// === TensorFlow 1's resizing with aligned corners ===

/** Resize a grid to the size `whole`, and keep a part {top, left, width, height} of it. */
function resize(grid, whole, { top, left, width, height }) {
  const isSame = whole.width === grid.width && whole.height === grid.height;
  const shrinks = !isSame && whole.width <= grid.width && whole.height <= grid.height;
  const taps = shrinks ? averaging : bicubic;
  const lines = sumRows(grid, taps(grid.height, whole.height).slice(top, top + height));
  return sumColumns(lines, taps(grid.width, whole.width).slice(left, left + width));
}

/** The pixels of a line of `length` that each of `n` values averages, wholly or in part. */
function averaging(length, n) {
  const step = n > 1 ? fround(fround(length - 1) / fround(n - 1)) : length;
  return Array.from({ length: n }, (_, index) => {
    const [from, to] = [fround(index * step), fround((index + 1) * step)];
    const [first, end] = [floor(from), min(ceil(to), length)];
    const covered = new Float64Array(end - first).fill(1);
    covered[0] -= from - first;
    covered[covered.length - 1] -= end - to; // beyond the border the last pixel goes on
    return { places: Int32Array.from(covered, (_, tap) => first + tap), weights: covered.map((part) => part / step) };
  });
}

/** The four pixels of a line of `length` from which each of `n` values is interpolated. */
function bicubic(length, n) {
  const step = n > 1 ? fround(fround(length - 1) / fround(n - 1)) : 0;
  const near = (x) => ((SHARPNESS + 2) * x - (SHARPNESS + 3)) * x * x + 1;
  const far = (x) => ((SHARPNESS * x - 5 * SHARPNESS) * x + 8 * SHARPNESS) * x - 4 * SHARPNESS;
  return Array.from({ length: n }, (_, index) => {
    const at = fround(index * step);
    const first = floor(at);
    const x = rint((at - first) * STEPS) / STEPS;
    const weights = Float64Array.of(far(x + 1), near(x), near(1 - x), far(2 - x)).map(fround);
    return { places: Int32Array.from(weights, (_, tap) => min(max(first - 1 + tap, 0), length - 1)), weights };
  });
}

function sumRows({ values, width, channels }, taps) {
  const line = width * channels;
  const sums = new Float32Array(taps.length * line);
  taps.forEach(({ places, weights }, row) => {
    for (let tap = 0; tap < places.length; tap += 1) {
      const [from, to, weight] = [places[tap] * line, row * line, weights[tap]];
      for (let at = 0; at < line; at += 1) sums[to + at] += weight * values[from + at];
    }
  });
  return { values: sums, width, height: taps.length, channels };
}

function sumColumns({ values, width, height, channels }, taps) {
  const sums = new Float32Array(height * taps.length * channels);
  let to = 0;
  for (let y = 0; y < height; y += 1) {
    for (const { places, weights } of taps) {
      for (let channel = 0; channel < channels; channel += 1, to += 1) {
        let sum = 0;
        for (let tap = 0; tap < places.length; tap += 1) {
          sum += weights[tap] * values[(y * width + places[tap]) * channels + channel];
        }
        sums[to] = sum;
      }
    }
  }
  return { values: sums, width: taps.length, height, channels };
}
