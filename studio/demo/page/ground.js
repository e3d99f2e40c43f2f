/** The ground of a heat: what an image becomes below it, as trainer/prediction/heat.py has it. */

/**
 * What becomes of each channel of a pixel below a heat of an `opacity`: `sum` times the sum of its channels, plus `own` times
 * the channel, plus `level`. The facts have the levels of black and of white, and the `usual` opacity, from which on all is
 * grey.
 */
export function groundOf({ ground: [black, white], opacity: usual }, opacity) {
  const greyness = Math.min(1, opacity / usual);
  return { sum: (greyness * (white - black)) / 255 / 3, own: 1 - greyness, level: greyness * black };
}
