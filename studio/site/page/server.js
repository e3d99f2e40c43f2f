/**
 * Answers in this browser what the demo's server answers: a site without a server has this module in place of
 * studio/demo/page/server.js, and worker.js computes.
 */

/** An error with a message for the user; `gone` if the same may succeed later. */
export class Failure extends Error {
  constructor(message, gone = false) {
    super(message);
    this.gone = gone;
  }
}

/** File -> what was predicted of it, by screen: a download needs no second prediction. */
const predicted = new WeakMap();
const waiting = new Map();
/** The page's policy accepts addresses of scripts from such an object alone. */
const policy = globalThis.trustedTypes?.createPolicy("worker", { createScriptURL: (address) => address });
let facts;
let worker = null;
let count = 0;

/** Fetch the model's name, the limits, the words and the colours, and begin to load the model. */
export async function readFacts() {
  facts = await (await load("facts.json")).json();
  worker = start();
  return facts;
}

/** Fetch an image of this site as a file with the last part of its path as its name. */
export async function readExample(path) {
  const content = await (await load(path)).blob();
  return new File([content], path.split("/").at(-1), { type: content.type });
}

/**
 * Predict the saliency map of an image, of a long page for each of its screens, or as a `screen` says: "whole", or a
 * kind of screen. The map has `values` row by row, `width`, `height`, `imageWidth`, `imageHeight`, and the number of
 * `screens`. `tell` is called with texts about the wait.
 */
export async function predict(file, { screen }, signal, tell = () => {}) {
  const { map, predictions } = await ask({ kind: "map", file, screen }, signal, tell);
  if (!predicted.has(file)) predicted.set(file, new Map());
  predicted.get(file).set(screen, predictions);
  return { ...map, screen };
}

/** A site opens no web addresses: browsers show no page the picture of another one. */
export async function open() {
  throw new Failure("this site opens no addresses. Choose an image");
}

/** Draw from an image what a path such as `map.png?screen=` says. */
export async function derive(path, file) {
  const { pathname, searchParams } = new URL(path, location.href);
  const { screen, view, opacity } = Object.fromEntries(searchParams);
  const predictions = predicted.get(file)?.get(screen);
  return ask({ kind: pathname.split("/").at(-1), file, screen, view, opacity: Number(opacity), predictions });
}

function start() {
  const address = new URL("worker.js", import.meta.url).href;
  const started = new Worker(policy?.createScriptURL(address) ?? address, { type: "module" });
  started.addEventListener("message", ({ data }) => receive(data));
  started.addEventListener("error", () => stop("The model could not be started. Try again, or use a current version of this browser."));
  started.postMessage({ facts });
  return started;
}

/** Send a request to the worker; returns its answer. */
function ask(request, signal, tell) {
  worker ??= start();
  count += 1;
  const id = count;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject, tell });
    signal?.addEventListener("abort", () => {
      if (!waiting.delete(id)) return;
      worker.postMessage({ cancelled: id });
      reject(signal.reason);
    });
    worker.postMessage({ id, ...request });
  });
}

/** Take a text about the wait, an answer, or a failure. */
function receive({ id, text, value, message, gone }) {
  if (gone) stop(message);
  if (!waiting.has(id)) return; // cancelled
  const { resolve, reject, tell } = waiting.get(id);
  if (text) {
    tell?.(text);
    return;
  }
  waiting.delete(id);
  if (message) reject(new Failure(message));
  else resolve(value);
}

/** End a worker that has no model; the next request starts another one. */
function stop(message) {
  worker?.terminate();
  worker = null;
  for (const { reject } of waiting.values()) reject(new Failure(message, true));
  waiting.clear();
}

async function load(path) {
  try {
    const response = await fetch(path);
    if (response.ok) return response;
  } catch {
    // told below
  }
  throw new Failure("This page could not be loaded completely. Check your connection, then try again.", true);
}
