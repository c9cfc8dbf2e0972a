/* SPDX-License-Identifier: MIT */
#include "json.h"
#include <stdio.h>
#include <string.h>

static bool value(json_t *json);

static bool take(json_t *json, const char *word)
{
  size_t length = strlen(word);
  bool there = strncmp(json->at, word, length) == 0;
  json->at += there ? length : 0;
  return there;
}

static bool escape(json_t *json)
{
  if (*json->at == 'u') {
    for (int i = 1; i <= 4; i++)
      if (!json->at[i] || !strchr("0123456789abcdefABCDEF", json->at[i]))
        return false;
    json->at += 5;
    return true;
  }
  return *json->at && strchr("\"\\/bfnrt", *json->at++);
}

static bool string(json_t *json, const char **from, const char **to)
{
  if (!take(json, "\""))
    return false;
  *from = json->at;
  while (*json->at != '"') {
    if ((unsigned char)*json->at < 0x20)
      return false;
    if (*json->at++ == '\\' && !escape(json))
      return false;
  }
  *to = json->at++;
  return true;
}

static bool digit(const json_t *json) { return *json->at >= '0' && *json->at <= '9'; }

static bool number(json_t *json)
{
  if (!digit(json) || json->count == JSON_NUMBERS || (json->at[0] == '0' && json->at[1] >= '0' && json->at[1] <= '9'))
    return false;
  uint64_t n = 0;
  for (; digit(json); json->at++)
    n = n * 10 + (uint64_t)(*json->at - '0');
  strcpy(json->numbers[json->count].path, json->path);
  json->numbers[json->count++].value = n;
  return true;
}

static bool member(json_t *json)
{
  const char *from, *to;
  size_t length = strlen(json->path);
  if (!string(json, &from, &to) || !take(json, ":"))
    return false;
  snprintf(json->path + length, sizeof json->path - length, "%s%.*s", length ? "." : "", (int)(to - from), from);
  bool good = value(json);
  json->path[length] = 0;
  return good;
}

static bool object(json_t *json)
{
  if (take(json, "}"))
    return true;
  do
    if (!member(json))
      return false;
  while (take(json, ","));
  return take(json, "}");
}

static bool array(json_t *json)
{
  size_t length = strlen(json->path), i = 0;
  if (take(json, "]"))
    return true;
  do {
    snprintf(json->path + length, sizeof json->path - length, "[%zu]", i++);
    if (!value(json))
      return false;
  } while (take(json, ","));
  json->path[length] = 0;
  return take(json, "]");
}

static bool value(json_t *json)
{
  const char *from, *to;
  if (take(json, "{"))
    return object(json);
  if (take(json, "["))
    return array(json);
  if (*json->at == '"')
    return string(json, &from, &to);
  return take(json, "null") || take(json, "true") || take(json, "false") || number(json);
}

bool json_read(json_t *json, const char *text)
{
  json->count = 0;
  json->path[0] = 0;
  json->at = text;
  return value(json) && !*json->at;
}

uint64_t json_number(const json_t *json, const char *path, bool *found)
{
  for (unsigned i = 0; i < json->count; i++)
    if (!strcmp(json->numbers[i].path, path)) {
      *found = true;
      return json->numbers[i].value;
    }
  *found = false;
  return 0;
}
