// SPDX-License-Identifier: MIT
// What test_pages.py asks of a page as it is laid out: a list of what is wrong.
(smallest => {
  const wrong = [], width = document.documentElement.clientWidth;
  const short = node => (node.textContent || node.tagName).trim().slice(0, 40);
  const seen = element => element.getClientRects().length > 0 && getComputedStyle(element).visibility == 'visible';

  // ---- nothing is wider than the window, and what moves by itself moves far enough ----

  if (document.documentElement.scrollWidth > width) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const element of document.body.querySelectorAll('*')) {
    const box = element.getBoundingClientRect();
    if (seen(element) && !element.closest('.scroll table, #flame, svg, #tip') && (box.right > width + 1 || box.left < -1))
      wrong.push(`beyond the edge: ${element.tagName} ${short(element)}`);
  }
  for (const cell of document.querySelectorAll('td[data-label]'))
    if (seen(cell) && cell.scrollWidth > cell.clientWidth + 1) wrong.push(`beyond its cell: ${cell.dataset.label} ${short(cell)}`);
  for (const table of document.querySelectorAll('table')) {
    const scroll = table.closest('.scroll');
    scroll.scrollLeft = 1e6;
    const edge = scroll.getBoundingClientRect().right;
    for (const cell of table.querySelectorAll('td, th'))
      if (seen(cell) && cell.getBoundingClientRect().right > edge + 1) wrong.push(`cannot be reached: ${short(cell)}`);
    if (scroll.scrollWidth > scroll.clientWidth && scroll.tabIndex != 0) wrong.push(`no key moves ${short(table)}`);
    scroll.scrollLeft = 0;
    for (const cell of table.querySelectorAll('tbody td.s'))
      if (seen(cell) && cell.cellIndex == cell.parentNode.cells.length - 1 && cell.offsetHeight > 40 && cell.offsetWidth < width * .5)
        wrong.push(`a stack has ${cell.offsetWidth} of ${width}`);
  }

  // ---- texts: as large as one can read, and of a color that differs from what is behind it ----

  const parse = color => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return {r, g, b, a};
  };
  const over = (front, back) => {
    const mix = k => front[k] * front.a + back[k] * (1 - front.a);
    return {r: mix('r'), g: mix('g'), b: mix('b'), a: 1};
  };
  const behind = element => {
    const color = parse(getComputedStyle(element).backgroundColor);
    return color.a == 1 ? color : over(color, element.parentElement ? behind(element.parentElement) : {r: 255, g: 255, b: 255, a: 1});
  };
  const luminance = ({r, g, b}) => {
    const part = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    return .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  };
  const contrast = element => {
    const back = behind(element), front = over(parse(getComputedStyle(element).color), back);
    const [low, high] = [luminance(front), luminance(back)].sort((a, b) => a - b);
    return (high + .05) / (low + .05);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !seen(element) || element.closest('script, noscript')) continue;
    count++;
    const pixels = parseFloat(getComputedStyle(element).fontSize);
    if (pixels < smallest) wrong.push(`${pixels} pixels: ${short(element)}`);
    if (!element.disabled && contrast(element) < 4.5) wrong.push(`contrast of ${contrast(element).toFixed(1)}: ${short(element)}`);
  }
  if (!count) wrong.push('no text');
  if (document.querySelector('svg text')) wrong.push('a text that is scaled with its picture');
  if (typeof font == 'string' && parseFloat(font) < smallest) wrong.push('a small text on the canvas');

  // ---- axes: round figures, which do not overlap ----

  for (const axis of document.querySelectorAll('.plot .x, .plot .y')) {
    const ticks = [...axis.children], values = ticks.map(tick => parseFloat(tick.textContent));
    const step = values[1] - values[0], figures = Number(step.toPrecision(6)).toExponential().split('e')[0];
    const said = ticks.map(tick => tick.textContent).join(', ');
    if (values[0] || !['1', '2', '5'].includes(figures)) wrong.push(`no round ticks: ${said}`);
    if (values.some((value, i) => Math.abs(value - i * step) > step / 1e6)) wrong.push(`ticks are not as far apart: ${said}`);
    if (new Set(ticks.slice(1).map(tick => tick.textContent.split(' ')[1])).size != 1) wrong.push(`ticks of several units: ${said}`);
    ticks.forEach((tick, i) => {
      const a = tick.getBoundingClientRect(), b = i ? ticks[i - 1].getBoundingClientRect() : null;
      if (b && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) wrong.push(`ticks overlap: ${said}`);
    });
  }

  // ---- links and names ----

  for (const link of document.querySelectorAll('a'))
    if (!link.hash || !document.getElementById(link.hash.slice(1))) wrong.push(`a link that leads nowhere: ${short(link)}`);
  const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
  if (new Set(ids).size != ids.length) wrong.push('an id that is there twice');
  return [...new Set(wrong)].slice(0, 20);
})
