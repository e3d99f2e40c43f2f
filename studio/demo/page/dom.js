/** Elements, messages, downloads and numbers of the page. */

/** Create an element with properties (`class`, `aria-*` and `data-*` as attributes) and children. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class" || name.includes("-") || name === "role" || name === "scope") {
      element.setAttribute(name, value);
    } else {
      element[name] = value;
    }
  }
  element.append(...children);
  return element;
}

/** Announce a text to screen readers; of several in quick succession, only the last one. */
export function announce(text) {
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => {
    document.querySelector("#status").textContent = text;
  }, 250);
}

const bar = () => document.querySelector("#message");

/** Show an error above everything else; `retry`, if any, is called by the button `Try again`. */
export function complain(text, retry = null) {
  announce(""); // such as what was waited for
  bar().querySelector("p").textContent = text;
  bar().querySelector(".retry").hidden = !retry;
  bar().querySelector(".retry").onclick = () => {
    forgive();
    retry();
  };
  bar().querySelector(".dismiss").onclick = () => {
    forgive();
    document.querySelector("h1").focus(); // so that Tab continues from here, not from the end of the page
  };
  bar().hidden = false;
  bar().scrollIntoView({ block: "nearest" });
}

/** Hide the error. */
export function forgive() {
  bar().hidden = true;
}

/** The message of an error, with the file's name unless the server is gone. */
export function explain({ message, gone }, file) {
  if (gone) return message;
  return message.startsWith("the file ") ? message.replace("the file", () => file.name) : `${file.name}: ${message}`;
}

/** Format 1 as `1 image`, and 3 as `3 images`. */
export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Format 0.2345 as 23.5%. */
export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}%`;

/** Format the difference of two shares in percentage points, with its sign, as the shares are shown: rounded. */
export function points(before, after) {
  const [from, to] = [before, after].map((share) => Number((100 * share).toFixed(1)));
  const value = Math.abs(to - from).toFixed(1);
  return `${value === "0.0" ? "±" : to > from ? "+" : "−"}${value}`;
}

/** Let the browser save `blob` under the name of an image with another ending. */
export function save(blob, name, ending) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${name.replace(/\.[^.]*$/, "")}_${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
