/* SPDX-License-Identifier: MIT
 * Each thread parses on a heap of its own: no lock, no sharing, a bound for each document, and nothing to free one by one.
 *
 *     cc expat_per_thread.c $(pkg-config --cflags --libs tidepool expat) -pthread -o expat_per_thread */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tidepool/expat.h>
#include <tidepool/stats.h>

enum { THREADS = 3, BUDGET = 512 << 10 };

typedef struct job {
  const char *document;
  unsigned elements;
  const char *result;
  size_t most;
} job_t;

static void element(void *job, const XML_Char *name, const XML_Char **attributes)
{
  (void)name, (void)attributes;
  ((job_t *)job)->elements++;
}

static void parse(job_t *job)
{
  XML_Parser parser = XML_ParserCreate_MM(NULL, pool_expat_suite(), NULL);
  if (!parser) {
    job->result = "no memory for a parser";
    return;
  }
  XML_SetUserData(parser, job);
  XML_SetStartElementHandler(parser, element);
  bool good = XML_Parse(parser, job->document, (int)strlen(job->document), 1) == XML_STATUS_OK;
  job->result = good ? "well-formed" : XML_ErrorString(XML_GetErrorCode(parser));
}

static void *work(void *argument)
{
  job_t *job = argument;
  pool_heap_options_t options = {.name = "document", .budget = BUDGET, .flags = POOL_HEAP_SINGLE_THREAD};
  pool_heap_t *heap = pool_heap_create(&options), *before = pool_expat_use(heap);
  pool_stats_t stats = {0};
  parse(job);
  pool_heap_stats(heap, &stats);
  job->most = stats.peak_held_bytes;
  pool_expat_use(before);
  pool_heap_destroy(heap); /* the parser with it */
  return NULL;
}

/* One element whose name is longer than the budget. */
static const char *monster(void)
{
  static char text[2 * BUDGET];
  memset(text, 'a', sizeof text - 1);
  text[0] = '<';
  memcpy(text + sizeof text - 3, "/>", 2);
  return text;
}

int main(void)
{
  job_t jobs[THREADS] = {{.document = "<a><b c='d'/><b/></a>"}, {.document = "<a><b></a>"}, {.document = monster()}};
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, &jobs[i]) != 0)
      return 1;
  for (size_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    printf("document %zu: %u elements, %s, %zu KiB held at most\n", i + 1, jobs[i].elements, jobs[i].result,
           jobs[i].most >> 10);
  }
  return jobs[0].elements == 3 && !strcmp(jobs[2].result, "out of memory") ? 0 : 1;
}
