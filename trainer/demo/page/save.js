/** Files that the user downloads. */

/** Let the browser save `blob` under the name of an image with another ending. */
export function save(blob, name, ending) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name.replace(/\.[^.]*$/, "")}_${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** One entry for each region of each image {slot, name, regions, measures}, in pixels of that image. */
export function entries(images) {
  return images.flatMap(({ slot, name, regions, measures }) =>
    regions.map((region, index) => {
      const { share, area, ratio, peak, peakAt, rank } = measures[index];
      const { x, y, width, height } = region;
      const place = { x, y, width, height };
      return { picture: slot, file: name, region: region.name, ...place, share, area, ratio, peak, peak_x: peakAt.x, peak_y: peakAt.y, rank };
    }),
  );
}

export function toJson(images) {
  return new Blob([`${JSON.stringify(entries(images), null, 2)}\n`], { type: "application/json" });
}

export function toCsv(images) {
  const rows = entries(images);
  const quote = (value) => (typeof value === "string" ? `"${value.replaceAll('"', '""')}"` : value);
  const lines = [Object.keys(rows[0]), ...rows.map((row) => Object.values(row).map(quote))];
  return new Blob([lines.map((line) => `${line.join(",")}\n`).join("")], { type: "text/csv" });
}
