// SPDX-License-Identifier: MIT
// The flame graph of show and diff; flame.h says what the page defines before it.

let kind = 0, root, shown, matches = [], next = 0;
const byId = id => document.getElementById(id);
const flame = byId('flame'), search = byId('search'), reset = byId('reset'), smallest = .05;

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  while (n >= 999.5 && i < 5) { n /= 1024; i++ }
  return n.toFixed(i && n < 99.95 ? n < 9.995 ? 2 : 1 : 0) + ' ' + units[i];
}

function size(n) { return kinds[kind][1] ? bytes(n) : n.toLocaleString('en') }

function button(to, text, act) {
  const made = document.createElement('button');
  made.textContent = text;
  made.onclick = () => {
    for (const other of to.children) {
      other.className = other == made ? 'on' : '';
      other.setAttribute('aria-pressed', other == made);
    }
    act();
  };
  to.append(made);
  return made;
}

// ---- the tree of functions ----

function tree() {
  const all = {name: 'all', sum: 0, below: new Map()};
  for (const [sums, frames] of sites) {
    const n = weight(sums);
    let at = all;
    const count = () => { at.sum += n; note(at, sums) };
    count();
    for (const frame of frames) {
      const name = names[frame];
      let below = at.below.get(name);
      if (!below) at.below.set(name, below = {name, sum: 0, below: new Map(), above: at});
      at = below;
      count();
    }
  }
  return all;
}

// A function of the tree that was drawn before, in the one that is drawn now.
function again(node) {
  if (!node || !node.above) return root;
  const above = again(node.above);
  return above && above.below.get(node.name);
}

// ---- drawing ----

function put(node, x, width, depth, style) {
  const box = document.createElement('div'), {h, s, l} = color(node);
  box.style.cssText = `left:${x}%;width:${width}%;--depth:${depth};--h:${h};--s:${s}%;--l:${l}%`;
  box.className = style + (!matches.length ? '' : node.hit ? ' hit' : ' dim');
  box.textContent = node.name;
  box.title = say(node, root.sum);
  box.tabIndex = node == shown ? 0 : -1;
  box.setAttribute('role', 'button');
  box.node = node;
  node.box = box;
  node.depth = depth;
  flame.append(box);
}

function draw() {
  let deepest = 0;
  flame.replaceChildren();
  const below = (node, x, width, depth) => {
    node.box = null;
    if (width < smallest) return;
    deepest = Math.max(deepest, depth);
    put(node, x, width, depth, 'box');
    for (const child of [...node.below.values()].sort((p, q) => q.sum - p.sum)) {
      const part = width * child.sum / node.sum;
      below(child, x, part, depth + 1);
      x += part;
    }
  };
  const path = [];
  for (let node = shown.above; node; node = node.above) path.unshift(node);
  if (root.sum) {
    path.forEach((node, depth) => put(node, 0, 100, depth, 'above'));
    below(shown, 0, 100, path.length);
  } else flame.textContent = 'Nothing.';
  flame.style.setProperty('--rows', deepest + 1);
  reset.disabled = shown == root;
  tell(shown);
}

function tell(node) { byId('told').textContent = root.sum ? say(node, root.sum) : '' }

function zoom(node) {
  const focused = flame.contains(document.activeElement);
  shown = node.sum ? node : root;
  draw();
  if (focused && shown.box) shown.box.focus();
}

function choose(k) {
  kind = k;
  const was = shown;
  root = tree();
  shown = again(was) || root;
  if (!shown.sum) shown = root;
  find();
  chosen();
}

// ---- searching ----

// What functions of that name take, once where one calls another.
function find() {
  const text = search.value.trim().toLowerCase();
  let sum = 0;
  matches = [];
  next = 0;
  const visit = (node, inside) => {
    node.hit = Boolean(text) && node.sum > 0 && node.above != null && node.name.toLowerCase().includes(text);
    if (node.hit) matches.push(node);
    if (node.hit && !inside) sum += node.sum;
    for (const child of node.below.values()) visit(child, inside || node.hit);
  };
  visit(root, false);
  matches.sort((p, q) => q.sum - p.sum);
  const found = new Set(matches.map(node => node.name)).size;
  byId('found').textContent = !text ? '' : !found ? 'No function has this in its name.' :
    `${found.toLocaleString('en')} function${found == 1 ? '' : 's'}: ${size(sum)}, ${(100 * sum / root.sum).toFixed(1)} %`;
  draw();
}

search.oninput = find;
search.onkeydown = event => {
  if (event.key == 'Enter' && matches.length) zoom(matches[next++ % matches.length]);
  if (event.key == 'Escape') { search.value = ''; find() }
};

// ---- the pointer and keys ----

const nodeAt = event => event.target.node;
flame.onclick = event => {
  const node = nodeAt(event);
  if (node) zoom(node == shown && node.above ? node.above : node);
};
for (const way of ['pointerover', 'focusin']) flame.addEventListener(way, event => { if (nodeAt(event)) tell(nodeAt(event)) });
flame.onpointerleave = () => tell(shown);
reset.onclick = () => zoom(root);

flame.onkeydown = event => {
  const node = nodeAt(event), boxes = [...flame.children];
  if (!node) return;
  const row = boxes.filter(box => box.node.depth == node.depth), at = row.indexOf(node.box);
  const down = boxes.find(box => box.node.above == node);
  const to = {ArrowDown: down, ArrowUp: node.above && node.above.box, ArrowLeft: row[at - 1], ArrowRight: row[at + 1]}[event.key];
  if (to) to.focus();
  else if (event.key == 'Enter' || event.key == ' ') zoom(node == shown && node.above ? node.above : node);
  else if (event.key == 'Escape') zoom(root);
  else if (!event.key.startsWith('Arrow')) return;
  event.preventDefault();
};
addEventListener('keydown', event => {
  if (event.key == '/' && event.target != search && !event.ctrlKey && !event.metaKey) { search.focus(); event.preventDefault() }
});

kinds.forEach(([name], i) => button(byId('kinds'), name, () => choose(i)));
byId('kinds').firstChild.click();
