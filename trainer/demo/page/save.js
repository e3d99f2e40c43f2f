/** Files that the user takes along. */

/** Have the browser save `blob` under the name of a picture with another ending. */
export function save(blob, name, ending) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name.replace(/\.[^.]*$/, "")}_${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** One entry for each region on each picture; `pictures` are {slot, name, regions, measures}, pixels are the picture's. */
export function entries(pictures) {
  return pictures.flatMap(({ slot, name, regions, measures }) =>
    regions.map((region, index) => {
      const { share, area, ratio, peak, peakAt, rank } = measures[index];
      const { x, y, width, height } = region;
      const place = { x, y, width, height };
      return { picture: slot, file: name, region: region.name, ...place, share, area, ratio, peak, peak_x: peakAt.x, peak_y: peakAt.y, rank };
    }),
  );
}

export function toJson(pictures) {
  return new Blob([`${JSON.stringify(entries(pictures), null, 2)}\n`], { type: "application/json" });
}

export function toCsv(pictures) {
  const rows = entries(pictures);
  const quote = (value) => (typeof value === "string" ? `"${value.replaceAll('"', '""')}"` : value);
  const lines = [Object.keys(rows[0]), ...rows.map((row) => Object.values(row).map(quote))];
  return new Blob([lines.map((line) => `${line.join(",")}\n`).join("")], { type: "text/csv" });
}
