/* SPDX-License-Identifier: MIT
 *
 * The style sheets and scripts of pages, which embed.py makes into strings. */
#ifndef PAGE_TEXTS_H
#define PAGE_TEXTS_H

extern const char page_style_css[], page_map_css[];
extern const char page_flame_js[], page_show_js[], page_diff_js[], page_widths_js[], page_map_js[];

#endif
