/* SPDX-License-Identifier: MIT
 *
 * One page of what differs: the sums, a flame graph in which what has grown is red and what has shrunk is blue, and the places
 * by their growth. A function is as wide as what has changed below it, so that a small leak of a large program is seen; or, if
 * one likes, as the larger of what it had before and after. */
#include "command.h"
#include "diff.h"
#include "flame.h"
#include "page.h"
#include <inttypes.h>
#include <stdlib.h>

/* ---- sums ---- */

typedef void write_number_fn(uint64_t number, FILE *to);

static void write_change(uint64_t before, uint64_t after, write_number_fn *write, FILE *to)
{
  bool is_more = after > before, is_less = after < before;
  fprintf(to, "<td class=\"n%s\">%s", is_more ? " grown" : is_less ? " shrunk" : "", is_more ? "+" : is_less ? "&minus;" : "");
  write(is_less ? before - after : after - before, to);
  fputs("</td>", to);
}

static void write_before_and_after(uint64_t before, uint64_t after, write_number_fn *write, FILE *to)
{
  fputs("<td class=\"n\">", to);
  write(before, to);
  fputs("</td><td class=\"n\">", to);
  write(after, to);
  fputs("</td>", to);
  write_change(before, after, write, to);
}

static void write_sum(const diff_t *diff, const kind_t *kind, FILE *to)
{
  const total_t *before = &diff->shows[0].all, *after = &diff->shows[1].all;
  fprintf(to, "<tr><th>%s</th>", kind->name);
  write_before_and_after(before->bytes[kind->sum], after->bytes[kind->sum], page_bytes, to);
  write_before_and_after(before->blocks[kind->sum], after->blocks[kind->sum], page_count, to);
  fputs("</tr>\n", to);
}

static void write_sums(const diff_t *diff, FILE *to)
{
  fputs("<table><thead><tr><th></th><th>before</th><th>after</th><th>change</th><th>blocks before</th><th>after</th>"
        "<th>change</th></tr></thead>\n",
        to);
  for (size_t i = 0; i < diff->kind_count; i++)
    write_sum(diff, &diff->shows[0].kinds[i], to);
  fputs("</table>\n", to);
}

static void write_file(const diff_t *diff, int i, FILE *to)
{
  const show_t *show = &diff->shows[i];
  fprintf(to, "<p><b>%s</b> ", i ? "After:" : "Before:");
  page_text(diff->names[i], to);
  fputs(". ", to);
  if (show->is_profile)
    show_print_samples(show, to);
  else
    page_text(show->title, to);
  fputs("</p>\n", to);
}

/* ---- stacks ---- */

static void write_numbers(const total_t *before, const total_t *after, sum_t sum, FILE *to)
{
  static const total_t none;
  before = before ? before : &none;
  after = after ? after : &none;
  fprintf(to, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", before->bytes[sum], after->bytes[sum], before->blocks[sum],
          after->blocks[sum]);
}

static void write_place(const diff_t *diff, const stack_place_t *place, FILE *to)
{
  fputs("[[", to);
  for (size_t i = 0; i < diff->kind_count; i++) {
    fputs(i ? "," : "", to);
    write_numbers(place->before, place->after, diff->shows[0].kinds[i].sum, to);
  }
  fputs("],[", to);
  flame_write_stack(diff_stack(place), place->show == &diff->shows[0] ? 0 : diff->shows[0].callers.name_count, to);
  fputs("]],\n", to);
}

static const char script[] =
  "let whole=false;const change=([before,after])=>after-before;\n"
  "const weight=sums=>whole?Math.max(sums[kind][0],sums[kind][1]):Math.abs(change(sums[kind]));\n"
  "const signed=(n,say)=>(n>0?'+':n<0?'\\u2212':'')+say(Math.abs(n)),count=n=>n.toLocaleString('en');\n"
  "function note(node,sums){node.before=(node.before||0)+sums[kind][0];node.after=(node.after||0)+sums[kind][1]}\n"
  "function color({before,after,sum}){const by=(after-before)/sum,much=Math.min(1,Math.abs(by));\n"
  " return `hsl(${by<0?212:6} ${much?30+45*much:0}% ${90-19*much}%)`}\n"
  "const say=node=>`${node.name}\\n${bytes(node.before)} before, ${bytes(node.after)} after: `+\n"
  " signed(node.after-node.before,bytes);\n"
  "function cell(row,text,style){const c=document.createElement('td');c.textContent=text;c.className=style;row.append(c)}\n"
  "function row([sums,frames]){const [before,after,blocks,later]=sums[kind],r=document.createElement('tr'),by=after-before;\n"
  " r.className='line';cell(r,signed(by,bytes),by>0?'n grown':'n shrunk');cell(r,signed(later-blocks,count),'n');\n"
  " cell(r,bytes(before),'n');cell(r,bytes(after),'n');\n"
  " cell(r,frames.map(f=>names[f]).reverse().join(' < ')||'?','s');return r}\n"
  "function chosen(){const by=([sums])=>change(sums[kind]),differ=sites.filter(by);\n"
  " const shown=differ.sort((p,q)=>Math.abs(by(q))-Math.abs(by(p))).slice(0,most).sort((p,q)=>by(q)-by(p));\n"
  " document.getElementById('places').replaceChildren(...shown.map(row));\n"
  " const left=differ.length-shown.length;\n"
  " document.getElementById('left').textContent=left?`${count(left)} places more differ, by less.`:''}\n";

/* The two ways to be wide are chosen after the kinds have buttons, which flame_end() makes. */
static const char widths[] = "const choice_of_width=document.getElementById('widths');\n"
                             "button(choice_of_width,'what has changed',()=>{whole=false;choose(kind)}).className='on';\n"
                             "button(choice_of_width,'all that there is',()=>{whole=true;choose(kind)});\n";

static void write_data(const diff_t *diff, FILE *to, size_t most)
{
  const callers_t *before = &diff->shows[0].callers, *after = &diff->shows[1].callers;
  fprintf(to, "<script>\nconst most=%zu,kinds=[", most);
  for (size_t i = 0; i < diff->kind_count; i++)
    fprintf(to, "%s[\"%s\",1]", i ? "," : "", diff->shows[0].kinds[i].name);
  fputs("];\nconst names=[", to);
  flame_write_names(before, 0, to);
  flame_write_names(after, before->name_count, to);
  fputs("];\nconst sites=[", to);
  for (size_t i = 0; i < diff->count; i++)
    write_place(diff, &diff->places[i], to);
  fprintf(to, "];\n%s", script);
}

void diff_write_page(const diff_t *diff, FILE *to, size_t most)
{
  char *title = COMMAND_JOIN(diff->names[1], ", compared with ", diff->names[0]);
  page_begin(title, to);
  free(title);
  write_file(diff, 0, to);
  write_file(diff, 1, to);
  write_sums(diff, to);
  fputs("<h2>What has <span class=\"grown\">grown</span> and what has <span class=\"shrunk\">shrunk</span></h2>\n", to);
  fputs("<p class=\"note\">As wide as <span id=\"widths\"></span></p>\n", to);
  flame_write_place(to);
  fputs("<h2>Places by their growth</h2>\n<table><thead><tr><th>change</th><th>blocks</th><th>before</th><th>after</th>"
        "<th class=\"s\">innermost function first</th></tr></thead><tbody id=\"places\"></tbody></table>\n"
        "<p class=\"note\" id=\"left\"></p>\n",
        to);
  write_data(diff, to, most);
  flame_end(widths, to);
  page_end(to);
}
