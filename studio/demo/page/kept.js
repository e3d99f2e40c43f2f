/** Keeps the regions of a tab while its page is loaded again: names and places, and no image. */

const NAME = "regions";

export function keep(regions) {
  try {
    sessionStorage.setItem(NAME, JSON.stringify(regions.kept));
  } catch {
    // A browser that stores nothing keeps nothing.
  }
}

/** Restore what was kept. */
export function restore(regions) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(NAME));
    if (kept) regions.restore(kept);
  } catch {
    // as above
  }
}
