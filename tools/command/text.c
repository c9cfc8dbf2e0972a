/* SPDX-License-Identifier: MIT */
#include "command.h"
#include "utf8.h"
#include <stddef.h>
#include <string.h>

int command_print(const char *text, FILE *to)
{
  int columns = 0;
  for (; *text; text++) {
    unsigned char byte = (unsigned char)*text;
    bool obeyed = byte < ' ' || byte == 0x7f || (byte == 0xc2 && (unsigned char)text[1] < 0xa0);
    fputc(obeyed ? '?' : byte, to);
    text += obeyed && byte == 0xc2 && text[1];
    columns += (byte & 0xc0) != 0x80;
  }
  return columns;
}

void command_mark_percent(char *to, const char *folder)
{
  for (; *folder; folder++) {
    *to++ = *folder;
    if (*folder == '%')
      *to++ = '%';
  }
  *to = '\0';
}

void command_quote(const char *text, FILE *to)
{
  const unsigned char *at = (const unsigned char *)text;
  fputc('"', to);
  while (*at) {
    size_t length = utf8_length(at);
    if (!length)
      fputs("\\ufffd", to);
    else if (*at < ' ' || *at == 0x7f || strchr("\"\\<>&", *at))
      fprintf(to, "\\u%04x", *at);
    else
      fwrite(at, 1, length, to);
    at += length ? length : 1;
  }
  fputc('"', to);
}

const char *command_bytes(char room[COMMAND_BYTES], double bytes)
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units)
    bytes /= 1024, unit++;
  snprintf(room, COMMAND_BYTES, "%.*f %s", unit && bytes < 99.95 ? bytes < 9.995 ? 2 : 1 : 0, bytes, units[unit]);
  return room;
}
