/** The maps of images, predicted one after the other, and each once for what is asked. */

import { Failure, predict } from "./server.js";

const WAITING = "Waiting for another image…";

export class Maps {
  #maxBytes;
  /** File -> its last map. */
  #known = new WeakMap();
  #turn = Promise.resolve();
  #pending = 0;

  constructor({ max_bytes: maxBytes }) {
    this.#maxBytes = maxBytes;
  }

  /** Predict as server.js does, unless the map is known. */
  async predict(file, asked, signal, tell) {
    if (file.size > this.#maxBytes) throw tooLarge(file, this.#maxBytes);
    if (this.#isKnown(file, asked)) return this.#known.get(file);
    const before = this.#turn;
    let end;
    this.#turn = new Promise((resolve) => (end = resolve));
    if (this.#pending) tell(WAITING);
    this.#pending += 1;
    try {
      await before;
      signal.throwIfAborted();
      if (!this.#isKnown(file, asked)) this.#known.set(file, await predict(file, asked, signal, tell));
      return this.#known.get(file);
    } finally {
      this.#pending -= 1;
      end();
    }
  }

  #isKnown(file, asked) {
    const before = this.#known.get(file)?.asked;
    return before && isSame(before, asked);
  }
}

/** Whether two maps are asked for alike. */
export function isSame(one, other) {
  return one.screen === other.screen && one.kind === other.kind && one.page === other.page;
}

function tooLarge(file, limit) {
  const megabytes = (bytes) => `${Number((bytes / 1e6).toPrecision(3))} MB`;
  return new Failure(`the file is ${megabytes(file.size)}; the limit is ${megabytes(limit)}. Try a smaller version.`);
}
