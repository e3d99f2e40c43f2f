/** Measures regions on the map of one screen as trainer/prediction/regions.py does. */

/** As in regions.py. */
const [PEAK_LEVEL, PEAK_RADIUS] = [0.9, 0.05];

/** The map of one screen, of a whole image or of a part of a long page, and its summed-area table. */
export class ScreenMap {
  #imageWidth;
  #sums;

  /** `values` are row by row of a grid `width` x `height`, which covers the rows [top, bottom] of an image. */
  constructor(values, width, height, [top, bottom], imageWidth) {
    Object.assign(this, { values, width, height, top, bottom });
    this.#imageWidth = imageWidth;
    const stride = width + 1;
    const sums = new Float64Array(stride * (height + 1));
    for (let y = 0; y < height; y += 1) {
      let row = 0;
      for (let x = 0; x < width; x += 1) {
        row += values[y * width + x];
        sums[(y + 1) * stride + x + 1] = sums[y * stride + x + 1] + row;
      }
    }
    this.#sums = sums;
    this.total = sums.at(-1);
    this.mean = this.total / (width * height);
    /** The largest `value`, and the image pixel {x, y} where it is. */
    this.peak = this.#peak(0, 0, width, height);
  }

  /** How many rows of a region, in pixels of the image, are on this screen; below 0 if it is elsewhere. */
  rowsOf(region) {
    return Math.min(region.y + region.height, this.bottom) - Math.max(region.y, this.top);
  }

  /** Measure the part of a region {x, y, width, height}, in pixels of the image, that is on this screen. */
  measure(region) {
    const [across, down] = [this.width / this.#imageWidth, this.height / (this.bottom - this.top)];
    const [left, right] = [region.x * across, (region.x + region.width) * across];
    const [y, end] = [Math.max(region.y, this.top), Math.min(region.y + region.height, this.bottom)];
    const [top, bottom] = [(y - this.top) * down, (end - this.top) * down];
    const sum = this.#sum(right, bottom) - this.#sum(left, bottom) - this.#sum(right, top) + this.#sum(left, top);
    const area = (region.width * (end - y)) / (this.#imageWidth * (this.bottom - this.top));
    const share = this.total > 0 ? sum / this.total : area; // a map that is 0 everywhere counts as evenly spread
    const { value, at } = this.#peak(left, top, right, bottom);
    const largest = this.peak.value;
    return { share, area, ratio: share / area, peak: largest > 0 ? value / largest : 0, peakAt: at };
  }

  /** The sum left of x and above y. The sum is bilinear within a cell, so a part of a cell counts by its area. */
  #sum(x, y) {
    const [left, top] = [Math.min(Math.floor(x), this.width - 1), Math.min(Math.floor(y), this.height - 1)];
    const [part, below] = [x - left, y - top];
    const at = top * (this.width + 1) + left;
    const next = at + this.width + 1;
    const sums = this.#sums;
    const upper = sums[at] * (1 - part) + sums[at + 1] * part;
    const lower = sums[next] * (1 - part) + sums[next + 1] * part;
    return upper * (1 - below) + lower * below;
  }

  #peak(left, top, right, bottom) {
    const first = [Math.min(Math.round(left), this.width - 1), Math.min(Math.round(top), this.height - 1)];
    const last = [Math.max(Math.round(right), first[0] + 1), Math.max(Math.round(bottom), first[1] + 1)];
    let value = -1;
    let cell = first;
    for (let y = first[1]; y < last[1]; y += 1) {
      for (let x = first[0]; x < last[0]; x += 1) {
        if (this.values[y * this.width + x] > value) {
          value = this.values[y * this.width + x];
          cell = [x, y];
        }
      }
    }
    const centre = this.#centre(cell, value, first, last);
    const pixel = (index, cells, pixels) => Math.floor(((index + 0.5) * pixels) / cells);
    const x = pixel(centre[0], this.width, this.#imageWidth);
    const y = this.top + pixel(centre[1], this.height, this.bottom - this.top);
    return { value, at: { x, y } };
  }

  /** The mean place of the cells that are about as high as the highest, as `peak_of` of regions.py has it. */
  #centre(highest, value, first, last) {
    const radius = Math.max(1, Math.round(PEAK_RADIUS * Math.max(last[0] - first[0], last[1] - first[1])));
    const start = highest.map((index, axis) => Math.max(first[axis], index - radius));
    const end = highest.map((index, axis) => Math.min(last[axis], index + radius + 1));
    let total = 0;
    const sum = [0, 0];
    for (let y = start[1]; y < end[1]; y += 1) {
      for (let x = start[0]; x < end[0]; x += 1) {
        const weight = Math.max(0, this.values[y * this.width + x] - PEAK_LEVEL * value);
        total += weight;
        sum[0] += weight * x;
        sum[1] += weight * y;
      }
    }
    if (total === 0) return highest;
    const [x, y] = sum.map((each) => each / total);
    const there = this.values[Math.floor(y + 0.5) * this.width + Math.floor(x + 0.5)];
    return there >= PEAK_LEVEL * value ? [x, y] : highest;
  }
}
