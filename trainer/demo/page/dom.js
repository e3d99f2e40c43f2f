/** Small helpers for the document. */

/** A new element with properties (`class`, `aria-*` and `data-*` as attributes) and children. */
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

/** Tell those who listen to the page rather than see it; the last word of several in a row. */
export function announce(text) {
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => {
    document.querySelector("#status").textContent = text;
  }, 250);
}

const bar = () => document.querySelector("#message");

/** Show what went wrong above everything; `retry`, where given, is what `Try again` does. */
export function complain(text, retry = null) {
  bar().querySelector("p").textContent = text;
  bar().querySelector(".retry").hidden = !retry;
  bar().querySelector(".retry").onclick = () => {
    forgive();
    retry();
  };
  bar().querySelector(".dismiss").onclick = () => {
    forgive();
    document.querySelector("h1").focus(); // the keyboard goes on from here rather than from the end of the page
  };
  bar().hidden = false;
  bar().scrollIntoView({ block: "nearest" });
}

/** Take away what `complain` showed. */
export function forgive() {
  bar().hidden = true;
}

/** 0.2345 as 23.5%. */
export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)}%`;

/** A difference of shares in percentage points, with its sign. */
export function points(difference) {
  const value = (100 * Math.abs(difference)).toFixed(1);
  return `${value === "0.0" ? "±" : difference > 0 ? "+" : "−"}${value}`;
}
