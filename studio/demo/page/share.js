/** Draws what the page shows as one picture to pass on: the images with their maps and regions, the figures, and the limits. */

import { make } from "./dom.js";
import { shareText } from "./map.js";

/** Sides in pixels of the picture. */
const [WIDTH, MARGIN, GAP, TALLEST] = [1600, 48, 32, 3000];
const [INK, SOFT, LINE, TAG] = ["#101319", "#525c68", "#d5dae0", "rgb(13 15 18 / 85%)"];
const FAMILY = 'system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
const [TITLE, BOLD, PLAIN, SMALL] = ["700 34px", "650 20px", "20px", "600 16px"].map((font) => `${font} ${FAMILY}`);
const ROW = 32;

/** A sheet of paper, which grows while things are put on it from top to bottom. */
class Sheet {
  #canvas = make("canvas", { width: WIDTH, height: 1 });
  pen = this.#canvas.getContext("2d", { willReadFrequently: true });
  #steps = [];
  y = MARGIN;

  /** Draw later, when the sheet has its height, at a height that is known now. */
  draw(step, y = this.y) {
    this.#steps.push(() => step(this.pen, y));
  }

  /** Write a text in lines of a width, below what is there. */
  write(text, { font = PLAIN, color = INK, x = MARGIN, width = WIDTH - 2 * MARGIN } = {}) {
    this.pen.font = font;
    let line = "";
    for (const word of [...text.split(" "), null]) {
      if (word === null || (line && this.pen.measureText(`${line} ${word}`).width > width)) {
        this.put(line, x, { font, color, width });
        this.y += ROW;
        line = word;
      } else {
        line = line ? `${line} ${word}` : word;
      }
    }
  }

  /** Put a text on one line, which is made narrower if it is wider. */
  put(text, x, { font = PLAIN, color = INK, align = "left", width } = {}) {
    this.draw((pen, y) => {
      Object.assign(pen, { font, fillStyle: color, textAlign: align, textBaseline: "top" });
      pen.fillText(text, x, y, width);
    });
  }

  /** The sheet as a PNG. */
  async toBlob() {
    this.#canvas.height = this.y + MARGIN;
    this.pen.fillStyle = "#fff";
    this.pen.fillRect(0, 0, WIDTH, this.#canvas.height);
    for (const step of this.#steps) step();
    return new Promise((resolve) => this.#canvas.toBlob(resolve));
  }
}

/**
 * Draw one or two `images` {slot, caption, stage, size, regions, measures, ground} beside each other, where `stage` is the
 * element that shows one, and `ground`, if there is one, what the image becomes below its map. The first of the `rows` of a
 * table are its headings. A `legend` has `colors`, and what the first and the last one mean. `colors` are those of the regions, and `texts` say what was seen, by whom, and what it is not.
 */
export async function drawSheet({ title, images, rows, legend, colors, texts }) {
  const sheet = new Sheet();
  sheet.write(title, { font: TITLE });
  sheet.y += GAP / 2;
  const column = (WIDTH - 2 * MARGIN - GAP * (images.length - 1)) / images.length;
  const top = sheet.y;
  const ends = images.map((image, index) => {
    sheet.y = top;
    const x = MARGIN + index * (column + GAP);
    sheet.write(image.caption, { font: BOLD, x, width: column });
    const scale = Math.min(column / image.size.width, TALLEST / image.size.height);
    sheet.draw((pen, y) => drawImage(pen, image, colors, { x, y, scale }));
    sheet.y += Math.ceil(image.size.height * scale);
    return sheet.y;
  });
  sheet.y = Math.max(...ends) + GAP;
  if (legend) drawLegend(sheet, legend);
  if (rows.length > 1) drawTable(sheet, rows, colors);
  for (const text of texts) sheet.write(text, { color: SOFT });
  return sheet.toBlob();
}

/** Draw an image and its map as its stage shows them, and the regions. */
function drawImage(pen, { stage, size, regions, measures, ground }, colors, { x: left, y: top, scale }) {
  const [width, height] = [size.width, size.height].map((side) => Math.max(1, Math.round(side * scale)));
  const [image, map] = [stage.querySelector("img"), stage.querySelector("canvas")];
  pen.save();
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  pen.imageSmoothingQuality = "high";
  if (!image.classList.contains("blank")) pen.drawImage(image, left, top, width, height);
  if (ground) {
    const area = pen.getImageData(left, top, width, height); // WebKit has no filter of a canvas
    sink(area.data, ground);
    pen.putImageData(area, left, top);
  }
  pen.globalAlpha = Number(map.style.opacity);
  if (!map.hidden) pen.drawImage(map, left, top, width, height);
  pen.globalAlpha = 1;
  for (const mark of stage.querySelectorAll(".screens i")) {
    const y = top + (parseFloat(mark.style.top) / 100) * height;
    pen.fillStyle = "#06588c";
    if (y > top) pen.fillRect(left, y, width, 2);
    drawTag(pen, mark.textContent, left + width, y + 4, left, left + width);
  }
  regions.forEach((region, index) => {
    const [x, y] = [left + region.x * scale, top + region.y * scale];
    for (const [color, wide] of [["#000", 6], [colors[index % colors.length], 3]]) {
      Object.assign(pen, { strokeStyle: color, lineWidth: wide });
      pen.strokeRect(x, y, region.width * scale, region.height * scale);
    }
  });
  regions.forEach((region, index) => { // above all boxes
    const [x, y] = [left + region.x * scale, top + region.y * scale];
    const text = `${region.name} · ${shareText(measures[index])}`;
    const below = Math.min(y + region.height * scale + 6, top + height - 30);
    drawTag(pen, text, x, y - top > 34 ? y - 32 : below, left, left + width);
  });
  pen.restore();
  Object.assign(pen, { strokeStyle: LINE, lineWidth: 1 });
  pen.strokeRect(left, top, width, height);
}

/** Make pixels, red, green, blue and alpha, the ground of a heat. */
function sink(pixels, { sum, own, level }) {
  for (let at = 0; at < pixels.length; at += 4) {
    const grey = sum * (pixels[at] + pixels[at + 1] + pixels[at + 2]) + level;
    for (let channel = at; channel < at + 3; channel += 1) pixels[channel] = grey + own * pixels[channel];
  }
}

/** Draw a label that stays between two sides. */
function drawTag(pen, text, x, y, left, right) {
  pen.font = SMALL;
  const width = pen.measureText(text).width + 16;
  const start = Math.max(left, Math.min(x, right - width));
  pen.fillStyle = TAG;
  pen.fillRect(start, y, width, 26);
  Object.assign(pen, { fillStyle: "#fff", textAlign: "left", textBaseline: "middle" });
  pen.fillText(text, start + 8, y + 14);
}

function drawLegend(sheet, { colors, low, high }) {
  sheet.pen.font = PLAIN;
  const [start, length] = [Math.round(MARGIN + sheet.pen.measureText(low).width + 12), 256];
  sheet.put(low, MARGIN, { color: SOFT });
  sheet.put(high, start + length + 12, { color: SOFT });
  sheet.draw((pen, y) => {
    colors.forEach((color, index) => {
      for (const fill of ["#999", color]) { // a map is over grey
        pen.fillStyle = fill;
        pen.fillRect(start + (index * length) / colors.length, y + 3, length / colors.length, 16);
      }
    });
  });
  sheet.y += ROW + GAP / 2;
}

/** Draw the table of regions: names on the left, each with its colour, and figures on the right of their columns. */
function drawTable(sheet, rows, colors) {
  const { pen } = sheet;
  pen.font = PLAIN;
  const widths = rows[0].map((_, index) => Math.max(...rows.map((row) => pen.measureText(row[index]).width)) + GAP);
  rows.forEach(([name, ...figures], index) => {
    const style = index ? {} : { font: SMALL, color: SOFT };
    if (index) {
      sheet.draw((pen, y) => {
        Object.assign(pen, { fillStyle: colors[(index - 1) % colors.length], strokeStyle: INK, lineWidth: 1 });
        pen.fillRect(MARGIN, y + 3, 14, 14);
        pen.strokeRect(MARGIN, y + 3, 14, 14);
      });
    }
    sheet.put(name, MARGIN + 24, style);
    let right = MARGIN + 24 + widths[0];
    figures.forEach((figure, column) => {
      right += widths[column + 1];
      sheet.put(figure, right, { ...style, align: "right" });
    });
    sheet.y += ROW;
  });
  sheet.y += GAP / 2;
}
