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

function countScreens({ width, height }, kind, { screens, tall, one_screen, narrowest_px, desktop_px }) {
  if (width < narrowest_px || height <= (kind ? tall : one_screen) * width) return 1;
  const [across, down] = screens[kind || (width >= desktop_px ? "desktop" : "phone")];
  return Math.max(1, rint(((height / width) * across) / down));
}
