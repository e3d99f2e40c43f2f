/** Takes a photo with the camera. */

import { complain } from "./dom.js";

const CONSTRAINTS = { video: { facingMode: "environment", width: { ideal: 1920 }, height: { ideal: 1080 } } };
const REASONS = {
  NotAllowedError: "This browser does not allow the page to use the camera. Allow it next to the address bar, then try again.",
  NotFoundError: "No camera found. Connect one, or choose an image.",
  NotReadableError: "Another program uses the camera. Close it, then try again.",
};

/** The dialog `element`. */
export class Camera {
  #dialog;
  #video;

  constructor(element) {
    this.#dialog = element;
    this.#video = element.querySelector("video");
    element.querySelector(".cancel").addEventListener("click", () => element.close());
    element.querySelector(".take").addEventListener("click", () => element.close("take"));
    this.#video.addEventListener("playing", () => (element.querySelector(".take").disabled = false));
  }

  /** Returns a photo as a file when the user takes it; null if they cancel. */
  async take() {
    if (!navigator.mediaDevices) {
      complain("Browsers allow the camera only for pages on this machine or over https. Choose an image instead.");
      return null;
    }
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia(CONSTRAINTS);
    } catch (error) {
      complain(REASONS[error.name] ?? `The camera does not work: ${error.message}`);
      return null;
    }
    try {
      return await this.#ask(stream);
    } finally {
      for (const track of stream.getTracks()) track.stop();
      this.#video.srcObject = null;
    }
  }

  async #ask(stream) {
    const dialog = this.#dialog;
    dialog.querySelector(".take").disabled = true;
    this.#video.srcObject = stream;
    dialog.returnValue = "";
    dialog.showModal();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
    return dialog.returnValue === "take" ? this.#capture() : null;
  }

  async #capture() {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [this.#video.videoWidth, this.#video.videoHeight];
    canvas.getContext("2d").drawImage(this.#video, 0, 0);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.95));
    return new File([blob], "camera.jpg", { type: "image/jpeg" });
  }
}
