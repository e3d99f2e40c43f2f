// Predict the saliency map of an image in a browser: values from 0 to 1, row by row, for 320 x 240 pixels.
import * as ort from "onnxruntime-web";

const [width, height] = [320, 240];
const session = await ort.InferenceSession.create("model.onnx");

/** `image` is an ImageBitmap, such as `await createImageBitmap(file)`; its padding is part of the map. */
export async function predict(image) {
  const scale = Math.min(width / image.width, height / image.height);
  const [w, h] = [Math.round(scale * image.width), Math.round(scale * image.height)];
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.fillStyle = "rgb(126 126 126)";
  context.fillRect(0, 0, width, height);
  context.drawImage(image, (width - w) >> 1, (height - h) >> 1, w, h);
  const rgb = context.getImageData(0, 0, width, height).data.filter((_, index) => index % 4 < 3);
  const input = new ort.Tensor("float32", Float32Array.from(rgb), [1, height, width, 3]);
  const { data } = (await session.run({ input })).output;
  const peak = data.indexOf(data.reduce((one, other) => Math.max(one, other)));
  console.log(`map of ${width} x ${height} pixels, peak at x ${peak % width}, y ${Math.floor(peak / width)}`);
  return data;
}
