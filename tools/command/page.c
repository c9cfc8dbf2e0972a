/* SPDX-License-Identifier: MIT */
#include "page.h"
#include "command.h"
#include "utf8.h"
#include <errno.h>
#include <string.h>

/* Colors have names, so that each is there once for light and once for dark. On paper it is light, and bars have theirs. */
static const char style[] =
  ":root{color-scheme:light dark;--ink:#1b2a33;--faint:#5d707b;--paper:#fff;--line:#dde4e8;--bar:#7fb2c9;"
  "--share-of:127,178,201;--edge:#2b6f8f;"
  "--cached:#e8c468;--idle:#c9d3d8;--more:#e2a191;--mark:#c0392b;--grown:#c0392b;--shrunk:#2268b5}"
  "@media screen and (prefers-color-scheme:dark){:root{--ink:#dbe4e9;--faint:#93a6b1;--paper:#12191e;--line:#2b3840;"
  "--bar:#3b7f9c;--share-of:59,127,156;"
  "--edge:#7fb2c9;--cached:#a8862f;--idle:#4a5a64;--more:#a35a48;--mark:#e2786b;--grown:#f08a7d;"
  "--shrunk:#7db4f0}}"
  "body{font:14px/1.4 system-ui,sans-serif;margin:1.5em auto;max-width:1200px;padding:0 1em;color:var(--ink);"
  "background:var(--paper)}"
  "h1{font-size:1.3em;overflow-wrap:anywhere}h2{font-size:1.1em;margin:1.6em 0 .4em}p{max-width:60em}"
  "table{border-collapse:collapse}td,th{padding:.1em .45em;text-align:right;font-variant-numeric:tabular-nums}"
  "td.n{white-space:nowrap}td.s,th.s{text-align:left;overflow-wrap:anywhere}"
  "td.s{font-family:ui-monospace,monospace;font-size:.9em}.note{color:var(--faint)}"
  ".grown{color:var(--grown)}.shrunk{color:var(--shrunk)}.share{background:rgba(var(--share-of),var(--share))}"
  "tr.line>*{vertical-align:top;border-top:1px solid var(--line)}"
  ".mark{color:var(--mark);font-weight:bold}tr.total>*{font-weight:bold;border-top:2px solid var(--line)}"
  ".bar{position:relative;display:flex;width:11em;height:.9em;margin-top:.25em}.bar.of{outline:1px solid var(--edge)}"
  ".bar b,.key.peak{position:absolute;top:-.15em;bottom:-.15em;width:2px;margin-left:-1px;background:var(--mark)}"
  ".key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 .6em}.key.peak{position:static;width:2px;margin-left:1em}"
  ".live{background:var(--bar)}.cached{background:var(--cached)}.idle{background:var(--idle)}.records{background:var(--more)}"
  ".children{background:repeating-linear-gradient(45deg,var(--edge) 0 2px,var(--paper) 2px 5px)}"
  "table+table{margin-top:1.2em}th.s{min-width:10em}td.s{min-width:8em}"
  "#flame{position:relative;width:100%;overflow:hidden;font:11px/17px ui-monospace,monospace}"
  "#flame div{position:absolute;height:17px;box-sizing:border-box;border:1px solid var(--paper);padding:0 3px;overflow:hidden;"
  "white-space:nowrap;cursor:pointer;color:#1b2a33}"
  "button{font:inherit;margin:0 .4em .2em 0;padding:.1em .7em;border:1px solid var(--line);border-radius:.3em;color:var(--ink);"
  "background:var(--paper);cursor:pointer}button.on{background:var(--bar);border-color:var(--edge)}"
  "svg{width:100%;height:auto;fill:var(--ink)}"
  ".heap0{fill:#4e79a7;background:#4e79a7}.heap1{fill:#f28e2b;background:#f28e2b}"
  ".heap2{fill:#59a14f;background:#59a14f}.heap3{fill:#b07aa1;background:#b07aa1}"
  ".heap4{fill:#76b7b2;background:#76b7b2}.heap5{fill:#edc948;background:#edc948}"
  ".heap6{fill:#e15759;background:#e15759}.heap7{fill:#9c755f;background:#9c755f}"
  ".area{stroke:var(--paper);stroke-width:.6}.key{display:inline-block;width:.8em;height:.8em;border-radius:.2em}"
  "@media print{button{display:none}button.on{display:inline;border:0;background:none;padding:0}"
  "body{max-width:none;margin:0;padding:0;font-size:9px}@page{margin:1cm}td,th{padding:.1em .3em}.bar{width:8em}"
  "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}"
  "tr,svg{break-inside:avoid}thead{display:table-header-group}h2{break-after:avoid}}";

FILE *page_create(const char *command, const char *path)
{
  FILE *page = fopen(path, "we");
  if (!page)
    command_fail(COMMAND_FAILED, "%s: %s: %s", command, path, strerror(errno));
  return page;
}

void page_close(FILE *page, const char *command, const char *path)
{
  bool failed = ferror(page);
  if (fclose(page) != 0 || failed)
    command_fail(COMMAND_FAILED, "%s: %s: %s", command, path, strerror(errno ? errno : EIO));
}

void page_begin(const char *title, FILE *page)
{
  fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width\"><title>tidepool: ",
        page);
  page_text(title, page);
  fprintf(page, "</title>\n<style>%s</style></head><body>\n<h1>", style);
  page_text(title, page);
  fputs("</h1>\n", page);
}

void page_end(FILE *page) { fputs("</body></html>\n", page); }

void page_text(const char *text, FILE *page)
{
  const unsigned char *at = (const unsigned char *)text;
  while (*at) {
    size_t length = utf8_length(at);
    if (!length)
      fputs("&#65533;", page);
    else if (strchr("<>&'\"", *at))
      fprintf(page, "&#%d;", *at);
    else if (utf8_is_control(at))
      fputc(' ', page);
    else
      fwrite(at, 1, length, page);
    at += length ? length : 1;
  }
}

void page_count(uint64_t count, FILE *page)
{
  char digits[32];
  int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
  for (int i = 0; i < length; i++) {
    fputs(i && (length - i) % 3 == 0 ? "," : "", page);
    fputc(digits[i], page);
  }
}

void page_bytes(uint64_t bytes, FILE *page)
{
  char room[COMMAND_BYTES];
  fputs(command_bytes(room, (double)bytes), page);
}
