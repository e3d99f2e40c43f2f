/** A picture from the camera. */

import { complain } from "./dom.js";

const WANTED = { video: { facingMode: "environment", width: { ideal: 1920 }, height: { ideal: 1080 } } };
const REASONS = {
  NotAllowedError: "This browser does not let the page use the camera. Allow it beside the address, then try again.",
  NotFoundError: "There is no camera. Connect one, or choose a picture.",
  NotReadableError: "The camera is in use by another program. Close that, then try again.",
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

  /** A file with what the camera sees when the user says so; null if they do not. */
  async take() {
    if (!navigator.mediaDevices) {
      complain("Browsers give the camera to pages on this machine or over https. Choose a picture in place of it.");
      return null;
    }
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia(WANTED);
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
