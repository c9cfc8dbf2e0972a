// SPDX-License-Identifier: MIT
// Draws the map of what stands in the page as bytes: map_packed.h says how. heaps, rows, arenas, names, sites and blob are there.

const bytes = Uint8Array.from(atob(blob), c => c.charCodeAt(0)), $ = id => document.getElementById(id);
const SLAB = 0, LARGE = 1, SPARE = 2, REGION = 3, IDLE = 4, GRANULES = 5, KEPT = 6, MAPPINGS = 3;
const kinds = ['slab', 'large block', 'freed, and kept by a thread for its next block of that length',
  'the region of a heap, which stands below', 'free, and held', 'page of granules', 'freed, and kept for the next mapping',
  'it changed while it was read'];
const states = ['live', 'cached', 'free', 'fresh'];
let at = 0, filter = -1, only = -1, mode = 'heap', chosen = null, items = [], cell = 8, all = [];

function num() {
  let n = 0, f = 1, b;
  do { b = bytes[at++]; n += (b & 127) * f; f *= 128 } while (b > 127);
  return n;
}

function size(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 999.5 && i < 4) { n /= 1024; i++ }
  return n.toFixed(i && n < 99.95 ? 1 : 0) + ' ' + units[i];
}

function age(ms) { return ms < 1000 ? ms + ' ms' : ms < 120000 ? (ms / 1000).toFixed(1) + ' s' : (ms / 60000).toFixed(0) + ' min' }
function hex(n) { return '0x' + n.toString(16) }
function count(n) { return n.toLocaleString('en') }

// ---- what was read ----

function readPlace(a, unit, cells) {
  const p = {arena: a, unit, units: num(), detail: 0, full: 0}, flags = num();
  p.kind = flags & 15;
  p.changing = flags > 15;
  p.row = num() - 1;
  p.bytes = p.units * 2 ** a.log2;
  if (a.kind == MAPPINGS) {
    p.start = BigInt(num()) * 4096n;
    p.cell = cells;
    p.cells = Math.max(1, Math.ceil(p.bytes / 65536));
  } else {
    p.start = a.base + BigInt(p.unit) * BigInt(2 ** a.log2);
    p.cell = p.unit;
    p.cells = p.units;
  }
  if (p.kind == SLAB || p.kind == GRANULES) {
    p.n = num();
    p.fresh = num();
    p.free = num();
    p.cached = num();
    p.live = p.fresh - p.free - p.cached;
    p.block = p.kind == SLAB ? rows[p.row][2] : 16;
    p.full = p.live / p.n;
    const skip = num();
    p.detail = skip ? at : 0;
    at += skip;
  } else if (p.kind == LARGE) {
    p.size = num();
    p.full = p.size / p.bytes;
  } else if (p.kind == REGION) p.full = 1;
  p.known = num();
  const skip = num();
  p.knownAt = at;
  at += skip;
  p.number = all.length;
  return p;
}

function read(a) {
  let unit = 0, cells = 0;
  a.list = [];
  for (let i = 0; i < a.count; i++) {
    unit += num();
    const p = readPlace(a, unit, cells);
    unit += p.units;
    cells = p.cell + p.cells;
    a.list.push(p);
    all.push(p);
  }
  a.cells = a.kind == MAPPINGS ? cells : Math.max(a.used, cells);
}
arenas.forEach(a => { a.base = BigInt(a.base); read(a) });

// null: the page does not have it.
function blockStates(p) {
  const s = new Uint8Array(p.n).fill(3);
  if (!p.detail) {
    if (p.free && p.free < p.fresh || p.cached && p.cached < p.fresh) return null;
    return s.fill(p.free ? 2 : p.cached ? 1 : 0, 0, p.fresh);
  }
  at = p.detail;
  if (num()) {
    for (let i = 0; i < p.fresh; i++) s[i] = bytes[at + (i >> 2)] >> (i & 3) * 2 & 3;
    return s;
  }
  for (let i = 0; i < p.fresh;) {
    const v = num();
    s.fill(v & 3, i, i + (v >> 2));
    i += v >> 2;
  }
  return s;
}

function knownBlocks(p) {
  const found = new Map();
  let i = 0;
  at = p.knownAt;
  for (let k = 0; k < p.known; k++) {
    i += num();
    found.set(i, {size: num(), age: num(), site: num() - 1});
  }
  return found;
}

function stack(site, most) {
  const s = site >= 0 ? sites[site] : [];
  if (!s.length) return 'not known';
  return s.slice(0, most).map(f => names[f]).join(' < ') + (s.length > most ? ' < ...' : '');
}

// ---- colors ----

let color = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const n of ['ink', 'paper', 'cached', 'free', 'line', 'gone', 'bad']) color[n] = style.getPropertyValue('--' + n).trim();
}
const dark = () => matchMedia('(prefers-color-scheme: dark)').matches && !matchMedia('print').matches;
const hues = [203, 28, 130, 275, 345, 174, 58, 315];

function ofHeap(heap, alpha = 1) {
  const round = Math.floor(heap / 8);
  return `hsl(${hues[heap % 8] + round * 11} ${55 - round % 3 * 15}% ${(dark() ? 62 : 40) + [0, -13, 12][round % 3]}% / ${alpha})`;
}

function ofFullness(f) {
  const s = [[178, 34, 34], [214, 96, 60], [244, 165, 96], [236, 216, 170], [146, 190, 214], [67, 133, 190], [28, 86, 150]];
  const x = Math.min(f, .999) * 6, i = Math.floor(x), t = x - i;
  return `rgb(${s[i].map((v, k) => Math.round(v + (s[i + 1][k] - v) * t))})`;
}

function heapOf(p) { return p.row >= 0 ? rows[p.row][0] : p.kind == REGION && p.arena.heap >= 0 ? p.arena.heap : -1 }

// ---- the picture ----

const font = '12px system-ui, sans-serif', ruler = document.createElement('canvas').getContext('2d');
ruler.font = font;
const widthOf = text => ruler.measureText(text).width;

// Arenas in lines, with the largest cells with which all of them have room.
function layout(width) {
  const drawn = arenas.filter(a => a.list.length && (filter < 0 || a.heap < 0 || a.heap == filter));
  let y = 0;
  for (const s of [18, 14, 11, 9, 7, 6, 5, 4, 3, 2]) {
    let x = 0, low = 0, lines = 0;
    cell = s;
    items = [];
    y = 0;
    for (const a of drawn) {
      const room = Math.floor(width / s), small = a.cells * s < width / 2 - 10;
      const w = small ? Math.max(a.cells * s, Math.min(width, widthOf(a.short))) : width;
      const columns = Math.max(1, Math.min(room, a.cells)), h = Math.ceil(a.cells / columns) * s;
      if (x && (!small || x + w > width)) { x = 0; y = low }
      items.push({a, x, y: y + 18, columns, h});
      if (!x) lines++;
      low = Math.max(low, y + 18 + h + 12);
      x += w + 18;
      if (!small) { x = 0; y = low }
    }
    y = low;
    if (y - lines * 30 < 1400) break;
  }
  return Math.min(y, 16000);
}

function paint(g, p, x, y, w) {
  const gap = cell > 4 ? 1 : 0, h = cell - gap, heap = heapOf(p);
  const fill = (style, x, y, w, h) => { g.fillStyle = style; g.fillRect(x, y, w, h) };
  w -= gap;
  g.globalAlpha = only >= 0 ? p.row == only ? 1 : .12 : filter >= 0 && heap != filter ? .12 : 1;
  if (p.changing) fill(color.bad, x, y, w, h);
  else if (p.kind == IDLE || p.kind == KEPT) fill(color.gone, x, y, w, h);
  else if (p.kind == REGION) {
    fill(color.line, x, y, w, h);
    if (h > 3) fill(color.paper, x + 1, y + 1, w - 2, h - 2);
  } else if (p.kind == SPARE) fill(color.cached, x, y, w, h);
  else if (mode == 'full') fill(ofFullness(p.full), x, y, w, h);
  else if (cell < 7 || !p.n) {
    fill(ofHeap(heap, .13 + .87 * p.full), x, y, w, h);
    if (p.cached) { g.globalAlpha *= .8 * p.cached / p.n; fill(color.cached, x, y, w, h) }
  } else {
    const live = p.live / p.n * h, cached = p.cached / p.n * h, used = p.fresh / p.n * h;
    fill(ofHeap(heap, .1), x, y, w, h);
    fill(ofHeap(heap, .24), x, y + h - used, w, used);
    fill(color.cached, x, y + h - live - cached, w, cached);
    fill(ofHeap(heap), x, y + h - live, w, live);
  }
}

function each(it, p, visit) {
  for (let c = p.cell, end = Math.min(p.cell + p.cells, it.a.cells); c < end;) {
    const column = c % it.columns, n = Math.min(end - c, it.columns - column);
    visit(it.x + column * cell, it.y + Math.floor(c / it.columns) * cell, n * cell);
    c += n;
  }
}

function sized(canvas, w, h) {
  const r = Math.min(devicePixelRatio || 1, 2, Math.sqrt(6e7 / (w * h + 1)));
  canvas.width = w * r;
  canvas.height = h * r;
  canvas.style.height = h + 'px';
  const g = canvas.getContext('2d');
  g.scale(r, r);
  g.clearRect(0, 0, w, h);
  return g;
}

function draw() {
  readColors();
  const canvas = $('map'), w = canvas.parentNode.clientWidth, gap = () => cell > 4 ? 1 : 0;
  const g = sized(canvas, w, layout(w));
  g.font = font;
  for (const it of items) {
    g.globalAlpha = 1;
    g.fillStyle = color.ink;
    g.fillText(it.columns * cell > widthOf(it.a.label) ? it.a.label : it.a.short, it.x, it.y - 5);
    g.fillStyle = color.free;
    each(it, {cell: 0, cells: it.a.cells}, (x, y, n) => g.fillRect(x, y, n - gap(), cell - gap()));
    for (const p of it.a.list) each(it, p, (x, y, n) => paint(g, p, x, y, n));
  }
  g.globalAlpha = 1;
  if (chosen) {
    const it = items.find(i => i.a == chosen.arena);
    g.strokeStyle = color.bad;
    g.lineWidth = 2;
    if (it) each(it, chosen, (x, y, n) => g.strokeRect(x - 1, y - 1, n + 1, cell + 1));
  }
  legend();
}

function legend() {
  const put = (c, text) => `<span><i class="key" style="background:${c}"></i>${text}</span>`, heap = Math.max(filter, 0);
  $('sign').textContent = (mode != 'heap' ? 'A cell is a unit of its arena, colored by which part of it is live.' :
    cell < 7 ? 'A cell is a unit of its arena; the stronger its color, the more of it is live.' :
    'A cell is a unit of its arena, filled from below: live, cached, free, fresh.') +
    ' Click one to see its blocks.';
  const parts = mode == 'heap' ? [[ofHeap(heap), 'live'], [color.cached, 'cached'], [ofHeap(heap, .24), 'free'], [ofHeap(heap, .1), 'fresh']] :
    [0, .25, .5, .75, 1].map(f => [ofFullness(f), f * 100 + ' %']);
  parts.push([color.gone, 'free, and held by no heap'], [color.free, 'not held']);
  if (all.some(p => p.kind == REGION)) parts.push(['none', 'the region of a heap, which stands below']);
  if (all.some(p => p.changing)) parts.push([color.bad, 'changed while it was read']);
  $('legend').innerHTML = parts.map(part => put(...part)).join('');
}

function placeAt(event) {
  const r = $('map').getBoundingClientRect(), x = event.clientX - r.left, y = event.clientY - r.top;
  for (const it of items) {
    if (x < it.x || x >= it.x + it.columns * cell || y < it.y || y >= it.y + it.h) continue;
    const c = Math.floor((y - it.y) / cell) * it.columns + Math.floor((x - it.x) / cell), list = it.a.list;
    let from = 0, to = list.length;
    while (from < to) {
      const middle = from + to >> 1;
      if (list[middle].cell <= c) from = middle + 1;
      else to = middle;
    }
    const p = list[from - 1];
    return p && c < p.cell + p.cells ? p : null;
  }
  return null;
}

// ---- one place ----

function title(p) {
  const heap = heapOf(p), of = !p.n ? ` of ${size(p.bytes)}` : p.kind == SLAB ? `, blocks of ${p.block} bytes` : '';
  return kinds[p.kind] + of + (heap >= 0 && p.kind != REGION ? `, heap ${heaps[heap]}` : '');
}

function counts(p) {
  return p.n ? `${count(p.live)} live, ${count(p.cached)} cached, ${count(p.free)} free, ` +
    `${count(p.n - p.fresh)} fresh of ${count(p.n)}: ${(100 * p.full).toFixed(0)} % live` : p.size ? `${size(p.size)} live` : '';
}

let seen = null;
function choose(p) {
  chosen = p;
  draw();
  const box = $('blocks'), style = getComputedStyle($('side'));
  const w = $('side').clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  seen = null;
  $('place').textContent = hex(p.start) + ': ' + title(p);
  $('counts').textContent = counts(p);
  const known = knownBlocks(p), s = p.n ? blockStates(p) : null;
  box.style.display = s ? '' : 'none';
  if (p.n && !s) $('counts').textContent += '. Which of its blocks is which is not in this page, which has room for so many.';
  if (s) {
    const big = Math.max(3, Math.min(26, Math.floor(Math.sqrt(w * Math.min(w, 420) / p.n)))), columns = Math.max(1, Math.floor(w / big));
    const g = sized(box, w, Math.ceil(p.n / columns) * big), heap = Math.max(heapOf(p), 0), gap = big > 4 ? 1 : big > 2 ? .5 : 0;
    const fill = [ofHeap(heap), color.cached, ofHeap(heap, .24), ofHeap(heap, .08)];
    box.style.width = w + 'px';
    s.forEach((v, i) => {
      g.fillStyle = fill[v];
      g.fillRect(i % columns * big, Math.floor(i / columns) * big, big - gap, big - gap);
    });
    seen = {p, s, big, columns, known};
  }
  who(known);
}

function who(known) {
  const sums = new Map();
  for (const b of known.values()) {
    const t = stack(b.site, 3), x = sums.get(t) || {n: 0, bytes: 0};
    x.n++;
    x.bytes += b.size;
    sums.set(t, x);
  }
  $('who').replaceChildren(...[...sums].sort((a, b) => b[1].bytes - a[1].bytes).slice(0, 8).map(([t, x]) => {
    const line = document.createElement('div');
    line.textContent = `${x.n} of ${size(x.bytes)} by ${t}`;
    return line;
  }));
}

function tell(event, text) {
  const tip = $('tip');
  tip.style.display = text ? 'block' : 'none';
  tip.textContent = text || '';
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + 'px';
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + 'px';
}

function tellBlock(event) {
  if (!seen) return;
  const r = $('blocks').getBoundingClientRect(), {p, s, big, columns, known} = seen;
  const i = Math.floor((event.clientY - r.top) / big) * columns + Math.floor((event.clientX - r.left) / big);
  if (i < 0 || i >= p.n) return tell(event, '');
  const b = known.get(i), lines = [`block ${i} at ${hex(p.start + BigInt(i * p.block))}: ${states[s[i]]}`];
  if (b) {
    lines.push(`${count(b.size)} bytes asked for${b.age ? `, ${age(b.age - 1)} old` : ''}`);
    lines.push(b.site >= 0 ? stack(b.site, 12).replaceAll(' < ', '\n < ') : 'not known where');
  }
  tell(event, lines.join('\n'));
}

// A finger that scrolls tells nothing; a tap on a block does.
$('map').onpointermove = event => {
  const p = placeAt(event);
  if (event.pointerType == 'mouse') tell(event, p && `${hex(p.start)}: ${title(p)}\n${counts(p)}`);
};
$('map').onpointerleave = $('blocks').onpointerleave = event => tell(event, '');
$('map').onclick = event => { const p = placeAt(event); if (p) choose(p) };
$('blocks').onpointermove = $('blocks').onpointerdown = tellBlock;
$('map').onkeydown = event => {
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key], p = chosen && all[chosen.number + step];
  if (!p) return;
  choose(p);
  event.preventDefault();
};

// ---- choices ----

function press(button, on) {
  button.className = on ? 'on' : '';
  button.setAttribute('aria-pressed', on);
}

function pick(heap) {
  filter = heap;
  only = -1;
  document.querySelectorAll('#rows .on').forEach(row => row.classList.remove('on'));
  [...$('heaps').children].forEach((button, k) => press(button, k - 1 == heap));
  document.querySelectorAll('#rows tr[data-heap]').forEach(row => row.hidden = heap >= 0 && +row.dataset.heap != heap);
  draw();
}

function add(to, text, act) {
  const button = document.createElement('button');
  button.textContent = text;
  button.onclick = act;
  to.append(button);
  return button;
}

['all heaps', ...heaps.slice(0, 60)].forEach((name, i) => {
  const button = add($('heaps'), name, () => pick(i - 1));
  if (i) button.style.borderBottom = `4px solid ${ofHeap(i - 1)}`;
});
[['heap', 'by heap'], ['full', 'by how full']].forEach(([m, text]) => {
  const button = add($('modes'), text, () => {
    mode = m;
    [...$('modes').children].forEach(other => press(other, other == button));
    draw();
    if (chosen) choose(chosen);
  });
  press(button, m == mode);
});
document.querySelectorAll('#rows tr[data-row]').forEach(row => {
  row.tabIndex = 0;
  row.onclick = () => {
    const number = +row.dataset.row, again = only == number;
    pick(filter);
    if (again) return;
    only = number;
    row.classList.add('on');
    draw();
    $('map').scrollIntoView({block: 'nearest'});
  };
  row.onkeydown = event => { if (event.key == 'Enter') row.onclick() };
});
$('heaps').hidden = heaps.length < 2;
pick(-1);
const out = p => (p.live + p.cached) / p.n;
const first = all.filter(p => p.kind == SLAB && p.live && p.fresh == p.n).sort((p, q) => out(p) - out(q))[0] || all.find(p => p.n);
if (first) choose(first);
matchMedia('(prefers-color-scheme: dark)').onchange = onresize = () => { draw(); if (chosen) choose(chosen) };
onbeforeprint = onafterprint = () => draw();
document.body.dataset.places = all.length;
