/** Tells pages from pictures by their content, as trainer/prediction/kinds.py does with the numbers of facts.json. */

const [PICTURE, PAGE] = ["picture", "page"];
/** What each channel adds to the brightness, in parts of 65536, as in Pillow. */
const [RED, GREEN, BLUE] = [19595, 38470, 7471];

const { abs, ceil, floor, log, max, min } = Math;

/**
 * As what an image, a grid with 3 or more channels of 0..255, is seen: how much as a `page`, 0..1, the `kind` that it is
 * more than half, `seenAs` in words, the `weights` of the maps of each kind, and the `screen`, "whole" or of facts.screens.
 * A screen, a kind or a `page` may be asked for.
 */
export function see(image, asked, facts) {
  const tellsApart = PAGE in facts.kinds;
  const page = askedWeight(asked, tellsApart) ?? pageWeight(image, facts.content);
  const weights = new Map(tellsApart ? [[PICTURE, 1 - page], [PAGE, page]].filter(([, weight]) => weight) : [[PICTURE, 1]]);
  const screen = asked.screen || screenOf(image, page, facts);
  const kind = page >= 0.5 ? PAGE : PICTURE;
  return { page, kind, seenAs: seenAs(weights, facts), weights, screen };
}

function askedWeight({ kind, page }, tellsApart) {
  if (page !== "") return page;
  return kind && tellsApart ? Number(kind === PAGE) : null;
}

function seenAs(weights, { kinds }) {
  if (!(PAGE in kinds)) return "";
  if (weights.size === 1) return kinds[[...weights.keys()][0]].seen_as;
  return `seen as ${[PAGE, PICTURE].map((kind) => `${(100 * weights.get(kind)).toFixed(0)}% ${kind}`).join(", ")}`;
}

/** How much an image is a page: 0 for a picture, 1 for a page, and in between for both. */
export function pageWeight(image, content) {
  const { width, height } = image;
  const count = max(1, floor(height / (2 * width)));
  const [rows, more] = [floor(height / count), height % count]; // the first parts have one row more
  let sum = 0;
  for (let index = 0, top = 0; index < count; index += 1) {
    const bottom = top + rows + (index < more ? 1 : 0);
    sum += drawn(greyOf(image, [top, bottom], content), content);
    top = bottom;
  }
  const [first, last] = content.drawn.map(log);
  const step = min(max((log(max(sum / count, 1e-9)) - first) / (last - first), 0), 1);
  return step * step * (3 - 2 * step);
}

/** What a person sees at a time of an image with this `pageWeight`. */
function screenOf(image, page, { screens, desktop_px, content }) {
  if (page < 0.5 || image.height <= screens.desktop * image.width) return "whole";
  return image.width >= desktop_px && textHeight(image, content) <= content.small_text ? "desktop" : "phone";
}

/** The median height of the lines of text of an image, divided by its width; 1 without text. */
export function textHeight(image, content) {
  const { values, width, height } = greyOf(image, [0, image.height], content);
  const bounds = Array.from({ length: 2 * content.strips + 1 }, (_, index) => floor((width * index) / (2 * content.strips)));
  const lines = Array.from({ length: bounds.length - 2 }, () => 0); // rows of text above, in each strip
  const heights = [];
  for (let y = 0; y <= height; y += 1) {
    const row = values.subarray(y * width, (y + 1) * width); // empty below the last one
    const edges = bounds.slice(1).map((end, index) => edgesIn(row, bounds[index], end, content.edge));
    for (let strip = 0; strip < lines.length; strip += 1) {
      if (edges[strip] + edges[strip + 1] >= content.strokes) {
        lines[strip] += 1;
      } else {
        if (lines[strip] >= max(2, content.thinnest * width)) heights.push(lines[strip]);
        lines[strip] = 0;
      }
    }
  }
  return heights.length ? median(heights) / width : 1;
}

/** How often two neighbours from `start` to `end` of a row are more than `edge` apart. */
function edgesIn(row, start, end, edge) {
  let count = 0;
  for (let x = start; x < min(end, row.length - 1); x += 1) count += abs(row[x + 1] - row[x]) > edge ? 1 : 0;
  return count;
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[ceil(middle) - 1] + sorted[floor(middle)]) / 2;
}

/** The map of a screen: the maps of its kinds, each with its weight. */
export function mixed(maps, weights) {
  const [[first, ...others], [weight, ...rest]] = [maps, [...weights.values()]];
  if (!others.length) return first;
  const values = first.values.map((value) => weight * value);
  others.forEach((other, index) => {
    for (let at = 0; at < values.length; at += 1) values[at] += rest[index] * other.values[at];
  });
  return { ...first, values };
}

/** A map with the largest value 1. */
export function peaked(map) {
  const largest = max(map.values.reduce((a, b) => max(a, b), 0), 1e-12);
  return { ...map, values: map.values.map((value) => value / largest) };
}

// === Drawn places ===

/** The smaller value of the rows and of the columns of an image. */
function drawn({ values, width, height }, content) {
  return min(drawnAlong(values, height, width, width, 1, content), drawnAlong(values, width, height, 1, width, content));
}

/**
 * The share of flat places times the share of them that end at an edge, along `lines` lines of `length` values. A line
 * is `line` values from the next, and a value `step` from the next in its line.
 */
function drawnAlong(grey, lines, length, line, step, { run_px: run, edge }) {
  if (length <= 2 * run + 1) return 0; // too narrow to have a flat place with an end
  let [flat, ends, edges] = [0, 0, 0];
  for (let index = 0; index < lines; index += 1) {
    const at = (place) => grey[index * line + place * step];
    let equal = 0; // steps in a row between equal values
    for (let place = 1; place < length - 1; place += 1) {
      equal = at(place) === at(place + 1) ? equal + 1 : 0;
      if (equal < run) continue;
      flat += 1;
      if (place + 1 + run >= length || at(place + 1) === at(place + 2)) continue;
      ends += 1;
      let [least, most] = [255, 0];
      for (let behind = place + 1; behind <= place + run; behind += 1) {
        least = min(least, at(behind));
        most = max(most, at(behind));
      }
      if (most - least > edge) edges += 1;
    }
  }
  return ((flat / (lines * (length - 1 - run))) * edges) / max(ends, 1);
}

/**
 * The brightness of some rows of an image, of one more than `most_px` pixels wide in blocks of several, whole numbers as
 * in Pillow.
 */
function greyOf({ values, width: across, channels }, [from, to], { most_px }) {
  const factor = ceil(across / most_px);
  const [width, height] = [ceil(across / factor), ceil((to - from) / factor)];
  const grey = new Uint8Array(width * height);
  for (let y = 0; y < height; y += 1) {
    const [top, bottom] = [from + y * factor, min(from + (y + 1) * factor, to)];
    for (let x = 0; x < width; x += 1) {
      const [left, right] = [x * factor, min((x + 1) * factor, across)];
      const count = (bottom - top) * (right - left);
      const parts = floor(2 ** 24 / count);
      let [red, green, blue] = [0, 0, 0];
      for (let row = top; row < bottom; row += 1) {
        for (let at = (row * across + left) * channels; at < (row * across + right) * channels; at += channels) {
          red += values[at];
          green += values[at + 1];
          blue += values[at + 2];
        }
      }
      const mean = (sum) => (count === 1 ? sum : floor(((sum + floor(count / 2)) * parts) / 2 ** 24));
      grey[y * width + x] = (mean(red) * RED + mean(green) * GREEN + mean(blue) * BLUE + 2 ** 15) >> 16;
    }
  }
  return { values: grey, width, height };
}
