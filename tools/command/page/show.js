// SPDX-License-Identifier: MIT
// What the flame graph of show is: as wide as the sum of a kind, in blues that tell functions apart.

const weight = sums => sums[kind], note = () => {}, chosen = () => {};

function say(node, whole) { return `${node.name}\n${size(node.sum)}, ${(100 * node.sum / whole).toFixed(1)} % of what is ${kinds[kind][0]}` }

function color({name}) {
  let hash = 0;
  for (const c of name) hash = (hash * 31 + c.charCodeAt(0)) | 0;
  return {h: 190 + (hash >>> 0) % 40, s: 35 + (hash >>> 6) % 25, l: 72 + (hash >>> 12) % 14};
}
