/* SPDX-License-Identifier: MIT */
#include "flame.h"
#include "command.h"
#include "page/page.h"
#include "page/texts.h"

void flame_write_place(const char *legend, FILE *page)
{
  fputs("<div class=\"tools\"><div class=\"group\" id=\"kinds\" role=\"group\" aria-label=\"what is counted\"></div>"
        "<div class=\"group\"><input type=\"search\" id=\"search\" placeholder=\"Search functions\" "
        "aria-label=\"search functions\" "
        "autocomplete=\"off\" spellcheck=\"false\"><button id=\"reset\" disabled>Reset zoom</button></div></div>\n"
        "<p class=\"note\">In this ",
        page);
  page_word("flame graph", page);
  fputs(" a box is a function, and below it is what it called. Click a box to zoom in, and a box above it to zoom out. <span "
        "class=\"keys\">The arrow keys go from box to box, Enter zooms, Escape resets, / searches.</span></p>\n",
        page);
  fprintf(page, "%s<p class=\"note\" id=\"found\" role=\"status\"></p>\n<p id=\"told\"></p>\n", legend);
  fputs(
    "<div id=\"flame\" role=\"group\" aria-label=\"flame graph\"></div>\n"
    "<noscript><p>The stacks need a script to be drawn: the same command without <code>-o</code> prints them.</p></noscript>\n",
    page);
}

void flame_write_names(const callers_t *callers, size_t first, FILE *page)
{
  for (size_t i = 0; i < callers->name_count; i++) {
    fputs(first + i ? "," : "", page);
    command_quote(callers->names[i], page);
  }
}

void flame_write_stack(const call_stack_t *stack, size_t first, FILE *page)
{
  for (uint32_t k = stack ? stack->count : 0; k--;)
    fprintf(page, "%zu%s", first + stack->names[k], k ? "," : "");
}

void flame_end(const char *more, FILE *page) { fprintf(page, "%s%s</script>\n", page_flame_js, more); }
