/* SPDX-License-Identifier: MIT
 *
 * One page that needs nothing else: the timeline and the tables are there as they are, and a script makes the flame graph of
 * the stacks, which stand behind it as data. */
#include "command.h"
#include "show.h"
#include <inttypes.h>

/* Inside a script as well: nothing in it ends one. */
static void write_quoted(const char *text, FILE *to)
{
  fputc('"', to);
  for (; *text; text++) {
    unsigned char byte = (unsigned char)*text;
    if (byte < ' ' || byte == '"' || byte == '\\' || byte == '<' || byte == '>' || byte == '&' || byte == 0x7f)
      fprintf(to, "\\u%04x", byte);
    else
      fputc(byte, to);
  }
  fputc('"', to);
}

static void write_text(const char *text, FILE *to)
{
  for (; *text; text++)
    if (*text == '<' || *text == '>' || *text == '&')
      fprintf(to, "&#%d;", *text);
    else
      fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
}

static void write_size(uint64_t bytes, FILE *to)
{
  char room[COMMAND_BYTES];
  fputs(command_bytes(room, (double)bytes), to);
}

static const char style[] =
  "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em auto;max-width:1200px;padding:0 1em;color:#1b2a33;background:#fff}"
  "h1{font-size:1.3em;overflow-wrap:anywhere}h2{font-size:1.1em;margin:1.6em 0 .4em}"
  "table{border-collapse:collapse}td,th{padding:.1em .6em;text-align:right;font-variant-numeric:tabular-nums}"
  "td:last-child.s,th.s{text-align:left}.s{font-family:ui-monospace,monospace;font-size:.9em;overflow-wrap:anywhere}"
  "#flame{position:relative;width:100%;overflow:hidden;font:11px/17px ui-monospace,monospace}"
  "#flame div{position:absolute;height:17px;box-sizing:border-box;border:1px solid #fff;padding:0 3px;overflow:hidden;"
  "white-space:nowrap;cursor:pointer;color:#1b2a33}"
  "button{font:inherit;margin-right:.4em}button.on{font-weight:bold}svg{width:100%;height:auto}"
  "@media print{button{display:none}body{max-width:none}}";

/* ---- over time ---- */

enum { WIDTH = 1000, HEIGHT = 220, LEFT = 70, BOTTOM = 24 };

static double x_of(const show_t *show, uint64_t ns)
{
  return LEFT + (double)ns / ((double)show->trace.facts.last_ns + 1) * (WIDTH - LEFT);
}

static double y_of(const show_t *show, uint64_t bytes)
{
  return HEIGHT - BOTTOM - (double)bytes / ((double)show->all.bytes[SUM_PEAK] + 1) * (HEIGHT - BOTTOM - 10);
}

static void write_lines(const show_t *show, FILE *to)
{
  for (int i = 0; i <= 4; i++) {
    uint64_t bytes = show->all.bytes[SUM_PEAK] / 4 * (uint64_t)i;
    double y = y_of(show, bytes);
    fprintf(to, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#dde4e8'/>", LEFT, WIDTH, y, y);
    fprintf(to, "<text x='%d' y='%.1f' text-anchor='end' font-size='12'>", LEFT - 6, y + 4);
    write_size(bytes, to);
    fputs("</text>", to);
    double seconds = (double)show->trace.facts.last_ns / 4e9 * i;
    fprintf(to, "<text x='%.1f' y='%d' text-anchor='%s' font-size='12'>%.3g s</text>", LEFT + (WIDTH - LEFT) / 4.0 * i,
            HEIGHT - 6, i == 4 ? "end" : "middle", seconds);
  }
}

static void write_timeline(const show_t *show, FILE *to)
{
  fprintf(to, "<h2>Live bytes over time</h2>\n<svg viewBox='0 0 %d %d' role='img' aria-label='live bytes over time'>", WIDTH,
          HEIGHT);
  write_lines(show, to);
  fprintf(to, "<path fill='#7fb2c9' stroke='#2b6f8f' d='M%d %d", LEFT, HEIGHT - BOTTOM);
  for (size_t i = 0; i < show->point_count; i++)
    fprintf(to, "L%.1f %.1f", x_of(show, show->points[i].ns), y_of(show, show->points[i].bytes));
  fprintf(to, "L%d %dZ'/>", WIDTH, HEIGHT - BOTTOM);
  fprintf(to, "<line x1='%.1f' x2='%.1f' y1='10' y2='%d' stroke='#c0392b' stroke-dasharray='3'/>", x_of(show, show->peak_ns),
          x_of(show, show->peak_ns), HEIGHT - BOTTOM);
  fputs("</svg>\n", to);
}

/* ---- lives ---- */

static const char *const life_names[LIFE_COLUMNS] = {"1 us",   "10 us", "100 us", "1 ms",   "10 ms",
                                                     "100 ms", "1 s",   "10 s",   "longer", "not freed"};

static void write_lives(const show_t *show, FILE *to)
{
  fputs("<h2>Blocks, by their size and by how long they lived</h2>\n<table><tr><th>up to</th>", to);
  for (size_t column = 0; column < LIFE_COLUMNS; column++)
    fprintf(to, "<th>%s</th>", life_names[column]);
  fputs("</tr>\n", to);
  for (size_t row = 0; row < SIZE_ROWS; row++) {
    uint64_t sum = 0;
    for (size_t column = 0; column < LIFE_COLUMNS; column++)
      sum += show->lives[row][column];
    if (!sum)
      continue;
    fputs("<tr><th>", to);
    if (row + 1 < SIZE_ROWS)
      write_size((uint64_t)16 << row, to);
    else
      fputs("more", to);
    fputs("</th>", to);
    for (size_t column = 0; column < LIFE_COLUMNS; column++) {
      double share = (double)show->lives[row][column] / (double)sum;
      fprintf(to, "<td style='background:rgba(127,178,201,%.2f)'>", share);
      if (show->lives[row][column])
        fprintf(to, "%" PRIu64, show->lives[row][column]);
      fputs("</td>", to);
    }
    fputs("</tr>\n", to);
  }
  fputs("</table>\n", to);
}

/* ---- stacks ---- */

static void write_data(const show_t *show, FILE *to)
{
  fputs("<script>\nconst names=[", to);
  for (size_t i = 0; i < show->callers.name_count; i++) {
    fputs(i ? "," : "", to);
    write_quoted(show->callers.names[i], to);
  }
  fputs("];\nconst sites=[", to);
  for (size_t i = 0; i < show->callers.stack_count + !show->callers.stack_count; i++) {
    const total_t *t = &show->sites[i];
    if (!t->blocks[SUM_ALLOCATED])
      continue;
    fprintf(to, "[[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "],[", t->bytes[SUM_PEAK], t->bytes[SUM_END],
            t->bytes[SUM_ALLOCATED], t->blocks[SUM_ALLOCATED]);
    const call_stack_t *stack = i < show->callers.stack_count ? &show->callers.stacks[i] : NULL;
    for (uint32_t k = stack ? stack->count : 0; k--;)
      fprintf(to, "%" PRIu32 "%s", stack->names[k], k ? "," : "");
    fputs("]],\n", to);
  }
  fputs("];\n", to);
}

/* The outermost function is at the top; what a click is on takes the whole width. */
static const char script[] =
  "const kinds=['live at the peak','live at the end','allocated','calls'];let kind=0;\n"
  "const flame=document.getElementById('flame'),choice=document.getElementById('kinds');\n"
  "function size(n){if(kind==3)return n.toLocaleString();const u=['B','KiB','MiB','GiB','TiB'];let i=0;\n"
  " while(n>=1024&&i<4){n/=1024;i++}return n.toFixed(i&&n<100?1:0)+' '+u[i]}\n"
  "function tree(){const root={name:'all',sum:0,below:new Map()};\n"
  " for(const [sums,frames] of sites){const n=sums[kind];if(!n)continue;let at=root;root.sum+=n;\n"
  "  for(const f of frames){let b=at.below.get(f);\n"
  "   if(!b){b={name:names[f],sum:0,below:new Map(),above:at};at.below.set(f,b)}b.sum+=n;at=b}}\n"
  " return root}\n"
  "function color(name){let h=0;for(const c of name)h=(h*31+c.charCodeAt(0))|0;\n"
  " return `hsl(${190+(h>>>0)%40} ${35+(h>>>6)%25}% ${72+(h>>>12)%14}%)`}\n"
  "function draw(top,whole){let deepest=0;flame.replaceChildren();\n"
  " const put=(node,x,width,depth)=>{if(width<.05)return;deepest=Math.max(deepest,depth);\n"
  "  const box=document.createElement('div');\n"
  "  box.style.cssText=`left:${x}%;width:${width}%;top:${depth*17}px;background:${color(node.name)}`;\n"
  "  box.textContent=node.name;box.title=`${node.name}\\n${size(node.sum)}, ${(100*node.sum/whole).toFixed(1)} %`;\n"
  "  box.onclick=()=>draw(node==top&&node.above?node.above:node,whole);flame.append(box);\n"
  "  for(const b of [...node.below.values()].sort((p,q)=>q.sum-p.sum)){\n"
  "   const w=width*b.sum/node.sum;put(b,x,w,depth+1);x+=w}};\n"
  " if(top.sum)put(top,0,100,0);flame.style.height=(deepest+1)*17+'px'}\n"
  "function choose(k){kind=k;[...choice.children].forEach((b,i)=>b.className=i==k?'on':'');\n"
  " const t=tree();draw(t,t.sum)}\n"
  "kinds.forEach((name,i)=>{const b=document.createElement('button');b.textContent=name;b.onclick=()=>choose(i);\n"
  " choice.append(b)});\n"
  "choose(0);\n";

static void write_totals(const show_t *show, FILE *to)
{
  static const char *const names[SUMS] = {"live at the peak", "live at the end", "allocated"};
  fputs("<table>", to);
  for (sum_t sum = 0; sum < SUMS; sum++) {
    fprintf(to, "<tr><th>%s</th><td>", names[sum]);
    write_size(show->all.bytes[sum], to);
    fprintf(to, "</td><td>%" PRIu64 " blocks</td></tr>", show->all.blocks[sum]);
  }
  fputs("</table>\n", to);
}

void show_write_page(const show_t *show, FILE *to)
{
  fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tidepool: ", to);
  write_text(show->trace.program, to);
  fprintf(to, "</title>\n<style>%s</style></head><body>\n<h1>", style);
  write_text(show->trace.program, to);
  fprintf(to, "</h1>\n<p>%zu calls in %.3f s, the most live after %.3f s.</p>\n", show->trace.count,
          (double)show->trace.facts.last_ns / 1e9, (double)show->peak_ns / 1e9);
  write_totals(show, to);
  write_timeline(show, to);
  fputs("<h2>Where it was allocated</h2>\n<p id=\"kinds\"></p>\n<div id=\"flame\"></div>\n"
        "<noscript><p>The stacks need a script to be drawn: <code>tidepool show</code> without <code>-o</code> prints them.</p>"
        "</noscript>\n",
        to);
  write_lives(show, to);
  write_data(show, to);
  fprintf(to, "%s</script>\n</body></html>\n", script);
}
