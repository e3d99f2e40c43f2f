/**
 * Computes what the demo's server computes (studio/demo/app.py), beside the page, so that it stays usable. Requests come
 * from server.js and are answered one after the other.
 */

import * as ort from "./onnxruntime/ort.wasm.bundle.min.mjs";
import { groundOf } from "./ground.js";
import { mixed, peaked, see } from "./kinds.js";
import { mirrored, prepare, reduced, restore, shrink } from "./resize.js";
import { joined, screensOf } from "./screens.js";

/** Browsers let threads share memory only for pages that two headers isolate. */
const THREADS = crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
const NETWORK = "model.onnx";
const cancelled = new Set();
let facts;
/** Name of a file -> its graph, loaded once. */
const sessions = new Map();
let turn = Promise.resolve();

/** What a user can understand; `gone` if another worker may succeed later. */
class Failure extends Error {
  constructor(message, gone = false) {
    super(message);
    this.gone = gone;
  }
}

onmessage = ({ data }) => {
  if (data.facts) {
    facts = data.facts;
    session(NETWORK).catch(() => {}); // told to those who need it
  } else if (data.cancelled) {
    cancelled.add(data.cancelled);
  } else {
    turn = turn.then(() => respond(data));
  }
};

async function respond({ id, ...request }) {
  const say = (text) => postMessage({ id, text });
  const pause = async () => {
    await new Promise((resolve) => setTimeout(resolve)); // lets a cancellation arrive
    if (cancelled.has(id)) throw new Failure("cancelled");
  };
  try {
    await pause();
    const image = await decode(request.file);
    const predicted = request.predicted ?? (await predict(image, request.asked, say, pause));
    const maps = restoreAll(predicted, image);
    const { drawing } = request;
    const value = drawing
      ? await draw(drawing, image, joined(maps, predicted.screens, image), request)
      : { map: describe(maps, predicted, image), predicted };
    postMessage({ id, value });
  } catch (error) {
    if (!(error instanceof Failure)) console.error(error);
    postMessage({ id, message: error.message, gone: Boolean(error.gone) });
  }
  cancelled.delete(id);
}

/** Decode a file to pixels as people see them: upright, and over white. */
async function decode(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  } catch {
    throw new Failure(`the file is damaged, or not ${facts.formats}: save it as PNG`);
  }
  const { width, height } = bitmap;
  if (width * height > facts.max_pixels) {
    throw new Failure(`the file has ${Math.round((width * height) / 1e6)} megapixels. The limit is ${facts.max_pixels / 1e6}. Shrink it.`);
  }
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return { values: context.getImageData(0, 0, width, height).data, width, height, channels: 4 };
}

/**
 * Predict each screen of an image alone. Returns as what the image is `seen`, the rows of the `screens`, and for each screen
 * the `predictions`, a grid of the network's output for each kind.
 */
async function predict(image, asked, say, pause) {
  say("Loading the model…");
  const seen = see(image, asked, facts);
  const screens = screensOf(image, seen.screen, facts);
  const kinds = [...seen.weights.keys()].map((kind) => facts.kinds[kind]);
  const network = await session(NETWORK);
  const runs = screens.length * kinds.reduce((sum, { flips }) => sum + (flips ? 2 : 1), 0);
  let done = 0;
  const predictions = [];
  for (const [index, rows] of screens.entries()) {
    const run = async (grid) => {
      const part = screens.length > 1 ? ` screen ${index + 1} of ${screens.length}` : "";
      say(`Predicting${part}…${done ? ` ${Math.round((100 * done) / runs)}%` : ""}`);
      await pause();
      const { output } = await network.run({ input: tensor(grid) });
      done += 1;
      return output.data;
    };
    const ofScreen = [];
    for (const kind of kinds) ofScreen.push(await predictAs(kind, prepare(image, rows, kind.image_size), run));
    predictions.push(ofScreen);
  }
  return { seen, screens, predictions };
}

/** Predict the map of a prepared grid (H, W, 3) as one kind of facts.kinds: `run` is the network, to which it is handed. */
async function predictAs({ file, flips }, grid, run) {
  const maps = [await run(grid)];
  if (flips) maps.push(await run(mirrored(grid)));
  const values = new Float32Array(maps.length * grid.width * grid.height);
  maps.forEach((map, index) => values.set(map, index * map.length));
  const finish = await session(file);
  const { output } = await finish.run({ input: tensor(grid), maps: tensor({ ...grid, values, channels: 1 }) });
  return { ...grid, values: output.data, channels: 1 };
}

/** The maps of an image's screens at their own sizes, grids of 0..1. Of several, each has the largest value 1. */
function restoreAll({ seen, screens, predictions }, { width }) {
  return predictions.map((ofScreen, index) => {
    const [top, bottom] = screens[index];
    const map = mixed(ofScreen.map((each) => restore(each, { width, height: bottom - top })), seen.weights);
    return screens.length > 1 ? peaked(map) : map;
  });
}

/** A grid, or several of one size in a row, as the runtime takes them. */
function tensor({ values, width, height, channels }) {
  return new ort.Tensor("float32", values, [values.length / (width * height * channels), height, width, channels]);
}

/** A graph, loaded once. */
function session(name) {
  if (!sessions.has(name)) sessions.set(name, load(name));
  return sessions.get(name);
}

async function load(name) {
  let model;
  try {
    const response = await fetch(name);
    if (!response.ok) throw new Error(`status ${response.status}`);
    model = await response.arrayBuffer();
  } catch ({ message }) {
    throw new Failure(`The model could not be loaded (${message}). Check your connection, then try again.`, true);
  }
  ort.env.wasm.numThreads = THREADS;
  try {
    return await ort.InferenceSession.create(model, { executionProviders: ["wasm"] });
  } catch ({ message }) {
    const advice = "Use a current version of Chrome, Edge, Firefox or Safari: the model needs WebAssembly with SIMD.";
    throw new Failure(`This browser cannot run the model (${message}). ${advice}`, true);
  }
}

/** The maps of the screens for the page. */
function describe(maps, { seen, screens }, image) {
  const size = reduced(maps[0], maps.length, facts.max_map_px);
  const values = new Float32Array(maps.length * size.width * size.height);
  maps.forEach((map, index) => values.set(shrink(map, size).values, index * size.width * size.height));
  const { page, kind, seenAs } = seen;
  const sizes = { ...size, imageWidth: image.width, imageHeight: image.height };
  return { values, ...sizes, windows: screens, page, kind, seenAs };
}

// === PNGs ===

/** Draw the map in grey (`map.png`), or over its image (`overlay.png`) as trainer/prediction/heat.py does. */
async function draw(drawing, { values: pixels, width, height }, { values: map }, look) {
  const image = new ImageData(width, height); // its values are rounded
  const levels = facts.heat.map(drawing === "map.png" ? (_, level) => [0, 0, level, level, level] : overlay(look.opacity));
  for (let at = 0; at < pixels.length; at += 4) {
    const [grey, own, ...color] = levels[Math.round(255 * map[at / 4])];
    const sum = grey * (pixels[at] + pixels[at + 1] + pixels[at + 2]);
    for (let channel = 0; channel < 3; channel += 1) {
      image.data[at + channel] = sum + own * pixels[at + channel] + color[channel];
    }
    image.data[at + 3] = 255;
  }
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d", { willReadFrequently: true }).putImageData(image, 0, 0);
  return canvas.convertToBlob();
}

/**
 * The function of a colour and its level: how much of each pixel's sum and of its own colour stays, and what is added to
 * red, green and blue.
 */
function overlay(opacity) {
  const { sum, own, level: grey } = groundOf(facts, opacity);
  return (color, level) => {
    const alpha = opacity * facts.strengths[level];
    const kept = 1 - alpha;
    const rgb = [1, 3, 5].map((from) => alpha * parseInt(color.slice(from, from + 2), 16) + kept * grey);
    return [kept * sum, kept * own, ...rgb];
  };
}
