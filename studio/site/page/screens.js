/** Cuts a long page into screens, as trainer/prediction/screens.py does with the numbers of facts.json. */

import { rint } from "./resize.js";

/**
 * The rows [top, bottom] of each screen of an image {width, height}: all rows of one that is not cut. `screen` is empty
 * to decide by the size, "whole", or a kind of facts.screens.
 */
export function screensOf({ width, height }, screen, facts) {
  const count = screen === "whole" ? 1 : countScreens({ width, height }, screen, facts);
  const edges = Array.from({ length: count + 1 }, (_, index) => rint((height * index) / count));
  return edges.slice(1).map((bottom, index) => [edges[index], bottom]);
}

/** The map that is shown of an image {width, height}: each row is of the first of its `screens` that has it. */
export function joined(maps, screens, { width, height }) {
  const values = new Float32Array(width * height);
  let shown = 0;
  for (const [index, [top, bottom]] of screens.entries()) {
    values.set(maps[index].values.subarray((shown - top) * width), shown * width);
    shown = bottom;
  }
  return { values, width, height, channels: 1 };
}

function countScreens({ width, height }, kind, { screens, tall, one_screen, narrowest_px, desktop_px }) {
  if (width < narrowest_px || height <= (kind ? tall : one_screen) * width) return 1;
  const [across, down] = screens[kind || (width >= desktop_px ? "desktop" : "phone")];
  return Math.max(1, rint(((height / width) * across) / down));
}
