// SPDX-License-Identifier: MIT
// What the flame graph of diff is: red where it has grown and blue where it has shrunk. A function is as wide as what has changed
// below it, or as the larger of what it had before and after. And the table of places.

let whole = false;
const change = ([before, after]) => after - before;
const weight = sums => whole ? Math.max(sums[kind][0], sums[kind][1]) : Math.abs(change(sums[kind]));
const count = n => n.toLocaleString('en');
const signed = (n, say) => (n > 0 ? '+' : n < 0 ? '\u2212' : '') + say(Math.abs(n));

function note(node, sums) {
  node.before = (node.before || 0) + sums[kind][0];
  node.after = (node.after || 0) + sums[kind][1];
}

function color({before, after, sum}) {
  const by = (after - before) / sum, much = Math.min(1, Math.abs(by));
  return {h: by < 0 ? 212 : 6, s: much ? 30 + 45 * much : 0, l: 90 - 19 * much};
}

function say(node) {
  return `${node.name}\n${bytes(node.before)} before, ${bytes(node.after)} after: ${signed(node.after - node.before, bytes)}`;
}

// ---- places ----

function cell(row, text, style, label) {
  const made = document.createElement('td');
  made.textContent = text;
  made.className = style;
  if (label) made.dataset.label = label;
  row.append(made);
}

function row([sums, frames]) {
  const [before, after, blocks, later] = sums[kind], made = document.createElement('tr'), by = after - before;
  made.className = 'line';
  cell(made, signed(by, bytes), by > 0 ? 'n grown' : 'n shrunk', 'change');
  cell(made, signed(later - blocks, count), 'n', 'blocks');
  cell(made, bytes(before), 'n', 'before');
  cell(made, bytes(after), 'n', 'after');
  cell(made, frames.map(frame => names[frame]).reverse().join(' < ') || '?', 's');
  return made;
}

function chosen() {
  const by = ([sums]) => change(sums[kind]), differ = sites.filter(by);
  const shown = differ.sort((p, q) => Math.abs(by(q)) - Math.abs(by(p))).slice(0, most).sort((p, q) => by(q) - by(p));
  const left = differ.length - shown.length;
  byId('places').replaceChildren(...shown.map(row));
  byId('left').textContent = left ? `${count(left)} places more differ, by less.` : '';
}
